"""Outlier channel splitting: the few channels with far larger magnitudes become several equal parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.channel_rewriting import (
    powers_of_two,
    rewrite_channels,
    smoothable_axes,
    smoothing_note,
    split_channels,
)
from quarkfast.config import POLICY, Policy, Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.statistics import StatisticsRequest

__all__ = ["OUTLIER_CHANNEL_SPLITTING", "split_outlier_channels"]


def split_outlier_channels(
    model: ir.Model,
    channel_absmax: Mapping[str, NDArray[np.float32]],
    nodes: Collection[str] | None = None,
    policy: Policy = POLICY,
    bound: float | None = None,
) -> int:
    """Splits outlier channels in front of matrix products, in place, and repeats the rows of weights that read them.

    A channel beyond the bound becomes as many equal parts as the ratio of its largest magnitude to the bound says,
    rounded to a power of two, and the rows of weights that read it are repeated as they are. The product grows by as
    much; the bound is raised by quarters of an octave until that is no more than it may be.
    A tensor stays as it is if one of the products shares its weight with another reader. Idempotent:
    `model.meta` says whether it was split or smoothed. Graph inputs and outputs are kept.

    Args:
        model: Changed in place.
        channel_absmax: The largest magnitude of each channel over the samples, by tensor of
            `quarkfast.algorithms.smoothable_axes`; tensors without an entry stay as they are.
        nodes: Names of the products that will be quantized; others are left alone. None means all.
        policy: How many parts a channel becomes, and what share of the channels may be repeats.
        bound: A channel beyond this many times the median is an outlier; None means `Policy.split_bound`.

    Returns:
        The number of tensors that have smaller channels now.

    Source:
        R. Zhao et al., "Improving Neural Network Quantization without Retraining using Outlier Channel Splitting",
        2019, arXiv:1901.09504.
    """
    medians = policy.split_bound if bound is None else bound

    def absmax_of(value: ir.Value) -> NDArray[Any] | None:
        return channel_absmax.get(name_of(value))

    def parts(absmax: NDArray[Any], _: Sequence[ir.Node]) -> NDArray[np.int64]:
        largest = medians * _median(absmax)
        if not largest:
            return np.ones(1, np.int64)
        while True:
            found = powers_of_two(absmax / largest, policy.split_octaves)
            if (found - 1).sum() <= policy.split_share * found.size:
                return found
            largest *= 2**0.25

    return rewrite_channels(model, nodes, absmax_of, parts, split_channels)


def _median(values: NDArray[Any]) -> float:
    """Returns the median of finite numbers; NumPy's loads its masked arrays first, which takes 8 ms."""
    middle = np.sort(values)[(values.size - 1) // 2 : values.size // 2 + 1]
    return float(middle.mean())


def _settings(scheme: Scheme) -> Settings | None:
    return scheme.policy if scheme.smoothed else None


def _request(context: AlgorithmContext, policy: Policy) -> StatisticsRequest:
    axes = smoothable_axes(context.model, context.placement.quantized)
    return StatisticsRequest.of_channels(axes) if axes and context.has_real_samples else StatisticsRequest()


def _run(context: AlgorithmContext, policy: Policy) -> bool:
    if context.channel_maxima is None:
        return False
    nodes = context.placement.quantized
    smoothable = len(smoothable_axes(context.model, nodes))
    changed = split_outlier_channels(context.model, context.channel_maxima, nodes, policy)
    context.notes += smoothing_note(changed, smoothable, "as seen in the samples")
    return changed > 0


OUTLIER_CHANNEL_SPLITTING = Algorithm("outlier channel splitting", "float weights", _settings, _run, _request)
