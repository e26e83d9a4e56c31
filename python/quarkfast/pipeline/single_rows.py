"""Samples that come several rows at a time are cut into rows, where the model takes each row by itself."""

from __future__ import annotations

import numpy as np

from quarkfast import ort
from quarkfast.calibration.data.inputs import Feed, model_inputs, rows_of
from quarkfast.calibration.data.samples import Samples
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.external_constants import proto_and_folder

__all__ = ["cut_to_rows", "keep_whole_samples"]

# Sums of other sizes add up in another order, which leaves 1e-6 of an output; rows that see each other leave more.
_SAME = 1e-3


def keep_whole_samples(samples: Samples, model: ir.Model) -> None:
    """Has items of several rows stay as they come, where the model does not take each row by itself.

    The first dimension may count parts of one sample instead: frames of a sound, nodes of a graph, detectors of a
    crossing. Arrays, and items for which a batch size was asked, are not looked at: their rows are samples.

    Args:
        samples: The first item of which is run, twice, where its first dimension is not named a batch.
        model: The float model.
    """
    item = samples.item() if samples.resizable else None
    if item is None or rows_of(item) < 2 or _is_named_batch(model):
        return
    try:
        apart = _takes_rows_apart(model, item)
    except ModelError:
        return  # for those who run the samples to tell
    if not apart:
        samples.keep_whole()


def cut_to_rows(samples: Samples, model: ir.Model, rows: int = 1) -> None:
    """Makes feeds of so many rows from now on, where the model takes each row by itself (`keep_whole_samples`)."""
    keep_whole_samples(samples, model)
    if samples.resizable:
        samples.resize(rows)


def _is_named_batch(model: ir.Model) -> bool:
    return all("batch" in str(each.shape[0]).lower() for each in model_inputs(model) if each.shape)


def _takes_rows_apart(model: ir.Model, feed: Feed) -> bool:
    """Whether outputs have a row for each row, and a feed of nothing but its last row gives the outputs of that row.

    No fewer rows are run than there are, for which a model may have no outputs: frames fewer than its filters reach.
    """
    if len({rows_of({name: array}) for name, array in feed.items()}) > 1:
        return False
    proto, folder = proto_and_folder(model)
    session = ort.inference_session(proto.SerializeToString(), ort.session_options(optimize=False), folder=folder)
    together = ort.run(session, feed)
    repeated = ort.run(session, {name: np.repeat(array[-1:], len(array), axis=0) for name, array in feed.items()})
    return all(_is_last_row(whole, last, rows_of(feed)) for whole, last in zip(together, repeated, strict=True))


def _is_last_row(whole: object, repeated: object, rows: int) -> bool:
    """Whether an output has so many rows, and each of the other is its last one."""
    if not all(isinstance(each, np.ndarray) and each.ndim and len(each) == rows for each in (whole, repeated)):
        return False
    one, other = np.asarray(whole)[-1:], np.asarray(repeated)
    if one.shape[1:] != other.shape[1:] or one.dtype.kind != "f":
        return one.shape[1:] == other.shape[1:] and bool((one == other).all())
    reach = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
    return bool(np.allclose(one, other, rtol=0, atol=_SAME * reach, equal_nan=True))
