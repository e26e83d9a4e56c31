"""Accuracy algorithms, one a file: what changes weights, scales or codes so that quantization costs less."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm
from quarkfast.algorithms.channel_smoothing import CHANNEL_SMOOTHING, smooth_channels
from quarkfast.algorithms.cross_layer_equalization import CROSS_LAYER_EQUALIZATION, equalize
from quarkfast.algorithms.outlier_channel_splitting import OUTLIER_CHANNEL_SPLITTING, split_outlier_channels
from quarkfast.algorithms.product_channels import smoothable_axes
from quarkfast.deferred import ir

__all__ = ["ALGORITHMS", "Algorithm", "equalize", "smooth", "smoothable_axes"]

ALGORITHMS: tuple[Algorithm, ...] = (CROSS_LAYER_EQUALIZATION, OUTLIER_CHANNEL_SPLITTING, CHANNEL_SMOOTHING)
"""The algorithms in the order in which they run. Of the last two the first that changes a model is the only one."""


def smooth(
    model: ir.Model, nodes: Collection[str] | None = None, seen: Mapping[str, NDArray[np.float32]] | None = None
) -> int:
    """Splits outlier channels by their maxima over samples, or without samples smooths channels by the weights.

    Args:
        model: Changed in place.
        nodes: Names of the products that will be quantized; None means all.
        seen: The largest magnitude of each channel, by tensor of :func:`smoothable_axes`; None without samples.

    Returns:
        The number of tensors that have smaller channels now.
    """
    return smooth_channels(model, nodes) if seen is None else split_outlier_channels(model, seen, nodes)
