"""Channel smoothing: outlier channels are divided in front of matrix products, by an estimate from the weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.channel_range_estimation import estimate_channel_absmax
from quarkfast.algorithms.channel_rewriting import (
    divide_channels,
    powers_of_two,
    rewrite_channels,
    smoothable_axes,
    smoothing_note,
)
from quarkfast.config import POLICY, Policy, Scheme
from quarkfast.deferred import ir

__all__ = ["CHANNEL_SMOOTHING", "smooth_channels"]


def smooth_channels(model: ir.Model, nodes: Collection[str] | None = None, policy: Policy = POLICY) -> int:
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
        policy: How far to go.

    Returns:
        The number of tensors that have smaller channels now.

    Source:
        G. Xiao et al., "SmoothQuant", 2023, arXiv:2211.10438, without moving what weights lack into activations.
        X. Wei et al., "Outlier Suppression", 2022, arXiv:2209.13325, for the gain of a layer normalization as what
        shows which channels are outliers.
    """

    def factors(absmax: NDArray[Any], _: Sequence[ir.Node]) -> NDArray[np.int64]:
        median = float(np.median(absmax))
        return powers_of_two(absmax / median, policy.smoothing_octaves) if median else np.ones(1, np.int64)

    return rewrite_channels(model, nodes, partial(estimate_channel_absmax, policy=policy), factors, divide_channels)


def _settings(scheme: Scheme) -> Settings | None:
    return scheme.policy if scheme.smoothed else None


def _run(context: AlgorithmContext, policy: Policy) -> bool:
    if context.channel_maxima is not None:
        return False
    nodes = context.placement.quantized
    smoothable = len(smoothable_axes(context.model, nodes))
    changed = smooth_channels(context.model, nodes, policy)
    context.notes += smoothing_note(changed, smoothable, "as estimated from the weights")
    return changed > 0


CHANNEL_SMOOTHING = Algorithm("channel smoothing", "float weights", _settings, _run)
"""Runs where there are no samples, and so no channel maxima."""
