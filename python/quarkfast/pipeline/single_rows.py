"""Samples are cut into rows, and rows run together, where the model takes each row by itself."""

from __future__ import annotations

import numpy as np

from quarkfast import ort
from quarkfast.calibration import live_bytes
from quarkfast.calibration.data.inputs import Feed, model_inputs, rows_of
from quarkfast.calibration.data.samples import Samples
from quarkfast.calibration.memory import rows_within_budget
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.batch_axis import keeps_rows_apart
from quarkfast.graph.external_constants import proto_and_folder

__all__ = ["cut_to_rows", "keep_whole_samples"]

# Sums of other sizes add up in another order, which leaves 1e-6 of an output; rows that see each other leave more.
_SAME = 1e-3

# Rows among which one is looked for that differs from the first.
_LOOKED_AT = 8


def keep_whole_samples(samples: Samples, model: ir.Model) -> None:
    """Has rows run together only where the model takes each by itself, and items of several rows be cut only there.

    The first dimension may count parts of one sample instead: frames of a sound, nodes of a graph, detectors of a
    crossing. Such items stay as they come. Rows of arrays are samples by what these are; where one changes what comes
    of others (a mean over the batch, a loss), each runs alone. Where a batch size was asked for, nothing is looked at.

    Args:
        samples: The first item of which is run, twice, where its first dimension is not named a batch; of arrays, two
            rows, unless the operators of the model show that it keeps rows apart, or one row fills a run.
        model: The float model.
    """
    _keep_items(samples, model)
    joined = samples.unsized and not keeps_rows_apart(model.graph)
    if joined and rows_within_budget(live_bytes(model, samples.first)) > 1:
        _keep_single_rows(samples, model)


def cut_to_rows(samples: Samples, model: ir.Model, rows: int = 1) -> None:
    """Makes feeds of so many rows from now on, where the model takes each row by itself (`keep_whole_samples`)."""
    _keep_items(samples, model)
    if rows > 1 and samples.resizable and not keeps_rows_apart(model.graph):
        _keep_single_rows(samples, model)
    if samples.resizable:
        samples.resize(rows)


def _keep_items(samples: Samples, model: ir.Model) -> None:
    item = samples.item() if samples.resizable else None
    if item is None or rows_of(item) < 2 or _is_named_batch(model):
        return
    # A model may have no outputs for fewer rows: frames fewer than its filters reach.
    last = {name: np.repeat(array[-1:], len(array), axis=0) for name, array in item.items()}
    if not _takes_rows_apart(model, item, last):
        samples.keep_whole()


def _keep_single_rows(samples: Samples, model: ir.Model) -> None:
    """Has each row run alone, where the first and one that differs from it do not give together what they give alone.

    Rows of other dimensions than the first are never joined with it.
    """
    first, *others = samples.rows(_LOOKED_AT)
    other = next((each for each in others if _differs(each, first)), None)
    if other is None:
        return
    together = {name: np.concatenate([array, other[name]]) for name, array in first.items()}
    if not _takes_rows_apart(model, together, other):
        samples.keep_single()


def _differs(feed: Feed, other: Feed) -> bool:
    """Whether feeds of the same dimensions have other values."""
    same = all(array.shape == other[name].shape for name, array in feed.items())
    return same and any(not np.array_equal(array, other[name]) for name, array in feed.items())


def _is_named_batch(model: ir.Model) -> bool:
    return all("batch" in str(each.shape[0]).lower() for each in model_inputs(model) if each.shape)


def _takes_rows_apart(model: ir.Model, feed: Feed, last: Feed) -> bool:
    """Whether outputs have a row for each row of a feed, and the last is that of a feed of the last row alone.

    Where the model does not run, those who run the samples are to tell.
    """
    if len({rows_of({name: array}) for name, array in feed.items()}) > 1:
        return False
    proto, folder = proto_and_folder(model)
    try:
        session = ort.inference_session(proto.SerializeToString(), ort.session_options(optimize=False), folder=folder)
        together, alone = ort.run(session, feed), ort.run(session, last)
    except ModelError:
        return True
    rows = rows_of(feed), rows_of(last)
    return all(_is_last_row(*each, *rows) for each in zip(together, alone, strict=True))


def _is_last_row(whole: object, alone: object, rows: int, rows_alone: int) -> bool:
    """Whether outputs have so many rows, and each of the other is the last one of the first."""
    for each, count in ((whole, rows), (alone, rows_alone)):
        if not isinstance(each, np.ndarray) or not each.ndim or len(each) != count:
            return False
    one, other = np.asarray(whole)[-1:], np.asarray(alone)
    if one.shape[1:] != other.shape[1:] or one.dtype.kind != "f":
        return one.shape[1:] == other.shape[1:] and bool((one == other).all())
    reach = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
    return bool(np.allclose(one, other, rtol=0, atol=_SAME * reach, equal_nan=True))
