"""The mean of what a layer multiplies, in the quantized model and in the float one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.gram import counted, fixed_point_step
from quarkfast.reconstruction.input_means import rows_of_channels
from quarkfast.reconstruction.input_rows import places_of, rows_at, spread_places
from quarkfast.reconstruction.linear_layer import LinearLayer
from quarkfast.reconstruction.stages import StagedModel
from quarkfast.reconstruction.walk import Feed

__all__ = ["layer_means"]

# Places of each sample: the mean of 512 of one image is nearer to that of all than two images are to each other.
_PLACES = 512


def layer_means(layer: LinearLayer, paths: Sequence[StagedModel], feeds: Sequence[Feed]) -> list[NDArray[np.float64]]:
    """Returns the mean row of a layer's input in each model, ``[groups, k]``, over places that are no padding.

    Those of a convolution follow from the means of its channels (`rows_of_channels`). Inputs are rounded to 15 bits of
    the largest, so that sums are exact: the same on every instruction set.

    Args:
        layer: The layer.
        paths: The models, whose earlier stages have been run.
        feeds: Samples.
    """
    samples = range(len(feeds))
    largest = [max(float(np.abs(path.input_of(layer.node, i)).max(initial=0.0)) for i in samples) for path in paths]
    steps, count = [fixed_point_step(each) for each in largest], 0
    sums = [np.zeros((layer.matrix_shape[0], layer.matrix_shape[2])) for _ in paths]
    for sample in samples:
        seen = [path.input_of(layer.node, sample) for path in paths]
        added, found = _sums(layer, seen, steps, feeds[sample], sample * _PLACES)
        count += added
        sums = [total + own for total, own in zip(sums, found, strict=True)]
    return [total * (step / max(count, 1)) for total, step in zip(sums, steps, strict=True)]


def _sums(
    layer: LinearLayer, seen: Sequence[NDArray[np.float32]], steps: Sequence[float], feed: Feed, first: int
) -> tuple[int, list[NDArray[np.float64]]]:
    """Returns how many places of a sample were looked at, and the sum of the rows there in steps, of each model."""
    if layer.window is None:
        places = places_of(layer, seen[0], feed, _PLACES, first)
        rows = rows_at(layer, seen, places)
        return len(places), [counted(own, step).sum(axis=1) for own, step in zip(rows, steps, strict=True)]
    count, channels, *sizes = seen[0].shape
    size = int(np.prod(sizes))
    places = spread_places(count * size, _PLACES, first)
    values = [own.reshape(count, channels, size)[places // max(size, 1), :, places % max(size, 1)] for own in seen]
    totals = [counted(own, step).sum(axis=0) for own, step in zip(values, steps, strict=True)]
    return len(places), [rows_of_channels(layer, layer.window, total, tuple(sizes)) for total in totals]
