"""Samples that come several rows at a time are cut into rows, where the model takes each row by itself."""

from __future__ import annotations

import numpy as np

from quarkfast import ort
from quarkfast.calibration.data.inputs import Feed, rows_of
from quarkfast.calibration.data.samples import Samples
from quarkfast.errors import ModelError

__all__ = ["cut_to_rows"]

# Of the first feed, as many rows are run together and one by one.
_ROWS = 4

# Sums of other sizes add up in another order, which leaves 1e-6 of an output; rows that see each other leave more.
_SAME = 1e-3


def cut_to_rows(samples: Samples, model: bytes) -> None:
    """Makes feeds of one row from now on, where the model lets feeds be cut and gives the same for each row by itself.

    The first dimension may count parts of one sample instead: nodes of a graph, detectors of a crossing.

    Args:
        samples: What the first feed of is run.
        model: The float model.
    """
    if samples.resizable and (rows_of(samples.first) < 2 or _gives_the_same(model, samples.first)):
        samples.resize(1)


def _gives_the_same(model: bytes, feed: Feed) -> bool:
    """Whether the outputs for rows of a feed together are those for each, one behind the other."""
    rows = min(_ROWS, rows_of(feed))
    session = ort.inference_session(model, ort.session_options(optimize=False))
    try:
        together = ort.run(session, {name: array[:rows] for name, array in feed.items()})
        apart = [ort.run(session, {name: array[row : row + 1] for name, array in feed.items()}) for row in range(rows)]
    except ModelError:
        return False
    return all(_is_joined(whole, parts) for whole, parts in zip(together, zip(*apart, strict=True), strict=True))


def _is_joined(whole: object, parts: tuple[object, ...]) -> bool:
    if not all(isinstance(each, np.ndarray) and each.ndim for each in (whole, *parts)):
        return False
    one, joined = np.asarray(whole), np.concatenate([np.asarray(part) for part in parts])
    if one.shape != joined.shape or one.dtype.kind != "f":
        return one.shape == joined.shape and bool((one == joined).all())
    reach = float(np.abs(one[np.isfinite(one)]).max(initial=0.0))
    return bool(np.allclose(one, joined, rtol=0, atol=_SAME * reach, equal_nan=True))
