"""Channel smoothing: outlier channels are divided in front of matrix products, by an estimate from the weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.channel_range_estimation import estimate_channel_absmax
from quarkfast.algorithms.channel_rewriting import divide_channels
from quarkfast.algorithms.product_channels import powers_of_two, rewrite_channels, smoothable_axes, smoothing_note
from quarkfast.config import Scheme
from quarkfast.deferred import ir

__all__ = ["CHANNEL_SMOOTHING", "ChannelSmoothingSettings", "smooth_channels"]


@dataclass(frozen=True, slots=True)
class ChannelSmoothingSettings:
    """Settings of :func:`smooth_channels`.

    Attributes:
        most_octaves: No channel is divided by more than two to this power. Beyond a factor of 8 activations gain less
            than weights lose.
    """

    most_octaves: int = 3


def smooth_channels(
    model: ir.Model, nodes: Collection[str] | None = None, settings: ChannelSmoothingSettings | None = None
) -> int:
    """Divides channels in front of matrix products, in place, and multiplies the rows of weights that read them.

    The largest magnitude of each channel is estimated from the weights
    (`quarkfast.algorithms.channel_range_estimation`). A channel beyond the median of its tensor is divided by the ratio
    of the two, rounded to a power of two. Rows that grow cost the others some of their digits.

    One scale for a tensor is then set by more channels than the one or two that reach furthest. A residual sum reads
    the tensor as it was. A tensor stays as it is if one of the products shares its weight with another reader.
    Idempotent: `model.meta` says whether it was smoothed. Graph inputs and outputs are kept.

    Args:
        model: Changed in place.
        nodes: Names of the products that will be quantized; others are left alone. None means all.
        settings: How far to go; the defaults if None.

    Returns:
        The number of tensors that have smaller channels now.

    Source:
        G. Xiao et al., "SmoothQuant", 2023, arXiv:2211.10438, without moving what weights lack into activations.
        X. Wei et al., "Outlier Suppression", 2022, arXiv:2209.13325, for the gain of a layer normalization as what
        shows which channels are outliers.
    """
    most = (settings or ChannelSmoothingSettings()).most_octaves

    def factors(absmax: NDArray[Any], _: Sequence[ir.Node]) -> NDArray[np.int64]:
        median = float(np.median(absmax))
        return powers_of_two(absmax / median, most) if median else np.ones(1, np.int64)

    return rewrite_channels(model, nodes, estimate_channel_absmax, factors, divide_channels)


def _settings(scheme: Scheme) -> Settings | None:
    return ChannelSmoothingSettings() if scheme.smoothed else None


def _run(context: AlgorithmContext, settings: ChannelSmoothingSettings) -> bool:
    if context.channel_maxima is not None:
        return False
    nodes = context.placement.quantized
    smoothable = len(smoothable_axes(context.model, nodes))
    changed = smooth_channels(context.model, nodes, settings)
    context.notes += smoothing_note(changed, smoothable, "as estimated from the weights")
    return changed > 0


CHANNEL_SMOOTHING = Algorithm("channel smoothing", "float weights", _settings, _run)
"""Runs where there are no samples, and so no channel maxima."""
