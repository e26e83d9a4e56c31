"""The mean of what a layer multiplies, in the quantized model and in the float one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.gram import counted, fixed_point_step
from quarkfast.reconstruction.input_rows import places_of, rows_at
from quarkfast.reconstruction.linear_layer import LinearLayer
from quarkfast.reconstruction.stages import StagedModel
from quarkfast.reconstruction.walk import Feed

__all__ = ["layer_means"]

# Rows of each sample: the mean of 512 places of one image is nearer to that of all than two images are to each other.
_ROWS = 512


def layer_means(layer: LinearLayer, paths: Sequence[StagedModel], feeds: Sequence[Feed]) -> list[NDArray[np.float64]]:
    """Returns the mean row of a layer's input in each model, ``[groups, k]``, over places that are no padding.

    Inputs are rounded to 15 bits of the largest, so that sums are exact: the same on every instruction set.

    Args:
        layer: The layer.
        paths: The models, whose earlier stages have been run.
        feeds: Samples.
    """
    samples = range(len(feeds))
    largest = [max(float(np.abs(path.input_of(layer.node, i)).max(initial=0.0)) for i in samples) for path in paths]
    steps, sums, count = [fixed_point_step(each) for each in largest], [0.0 for _ in paths], 0
    for sample in samples:
        seen = [path.input_of(layer.node, sample) for path in paths]
        places = places_of(layer, seen[0], feeds[sample], _ROWS, sample * _ROWS)
        rows = rows_at(layer, seen, places)
        count += len(places)
        sums = [total + counted(own, step).sum(axis=1) for total, own, step in zip(sums, rows, steps, strict=True)]
    return [np.asarray(total * (step / max(count, 1)), np.float64) for total, step in zip(sums, steps, strict=True)]
