"""Steps that look at single channels: between layers, for equalization, and outliers, which are split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms import smoothable_axes
from quarkfast.algorithms.cross_layer_equalization import (
    CROSS_LAYER_EQUALIZATION,
    CrossLayerEqualizationSettings,
    channels_between_layers,
)
from quarkfast.algorithms.outlier_channel_splitting import split_outlier_channels
from quarkfast.algorithms.smooth_quant import SmoothQuantSettings, smooth_quant
from quarkfast.calibration import observe
from quarkfast.config import Policy, TensorSpec
from quarkfast.graph.attention import nodes_of_attention
from quarkfast.graph.external import tensor_bytes
from quarkfast.graph.external_constants import constants_in_files
from quarkfast.pipeline.context import Context
from quarkfast.quantization import place
from quarkfast.statistics import StatisticsRequest

__all__ = ["may_split_outliers", "observe_channels", "observe_channels_between", "observes_channels", "split_outliers"]


def observe_channels(
    context: Context, kind: str, axes: Mapping[str, int]
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Returns the largest magnitude of each channel, by tensor, and the number of samples that it was seen on.

    Args:
        context: Its model runs on its samples.
        kind: What the result is kept by (`quarkfast.pipeline.cache`).
        axes: The axis of the channels, by tensor. One with an infinity or a NaN, which may lie in any channel, is left
            out of the result.
    """
    feeds = context.source.samples(context.model, context.scheme).rows(context.scheme.policy.channel_samples)
    request = StatisticsRequest.of_channels(axes)
    seen, count = context.once(kind, request, lambda: observe(context.model, request, feeds))
    finite = {name: each for name, each in seen.items() if each.range.finite == each.range.count}
    return {name: each.channel_absmax for name, each in finite.items() if each.channel_absmax is not None}, count


def observes_channels(context: Any) -> bool:
    """Whether equalization passes what only samples let it pass (a gate, a Clip), and there are samples."""
    if not isinstance(context, Context) or not context.source.has_data:
        return False
    return context.scheme.factors is not None and (_settings(context).through_clip or _settings(context).through_gates)


def observe_channels_between(context: Context) -> bool:
    """Takes the largest magnitude of each channel between layers; nothing of random samples and of large models."""
    axes = channels_between_layers(context.model, _settings(context))
    is_large = tensor_bytes(context.model) > context.scheme.policy.judged_bytes
    if not axes or is_large or not context.may_run_samples:
        return False
    context.channels_between, _ = observe_channels(context, "channels between", axes)
    return False


def _settings(context: Context) -> CrossLayerEqualizationSettings:
    found: CrossLayerEqualizationSettings | None = CROSS_LAYER_EQUALIZATION.settings(context.scheme)
    assert found is not None  # observes_channels has made sure
    return found


_NOTHING_TO_SMOOTH = "no float node computes what a matrix product reads"


def may_split_outliers(context: Context) -> bool:
    """Whether the scheme wants it, and there may be samples that show which channels stand out, or it is asked for."""
    return context.scheme.smooth_alpha is not None or (context.scheme.splits_outliers and context.source.has_data)


def split_outliers(context: Context) -> bool:
    """Splits or smooths channels in front of products, and places the model anew; nothing without real samples.

    A tensor is looked at if it has one scale of 8 bits or fewer and a float node computes it. What is added is computed
    in float as well, so that it stands in front of the pair: between quantized nodes it would cut a graph in two.
    Weights of an attention stay whole: their channels are positions.
    """
    axes = _axes(context)
    if not axes or not context.may_run_samples:
        if context.scheme.smooth_alpha is not None:
            lacking = "it takes real samples that fit into memory" if axes else _NOTHING_TO_SMOOTH
            context.notes.append(f"SmoothQuant was left out: {lacking}")
        return False
    maxima, count = observe_channels(context, "channel maxima", axes)
    changed = _rewrite(context, maxima)
    if not changed:
        return False
    scheme = replace(context.scheme, tensors=(*context.scheme.tensors, *context.tensor_rules))
    context.placement = place(context.model, scheme, context.target)
    context.resources.enter_context(constants_in_files(context.model, context.path))
    context.notes.append(_note(context.scheme.smooth_alpha, f"{changed} of {len(axes)}", count))
    return True


def _rewrite(context: Context, maxima: Mapping[str, NDArray[np.float32]]) -> int:
    scheme, nodes = context.scheme, context.placement.quantized
    if scheme.smooth_alpha is None:
        # A scale that is known beforehand has to hold the largest of all samples: channels stand out sooner.
        bound = scheme.policy.split_fixed_bound
        return split_outlier_channels(context.model, maxima, nodes, scheme.policy, bound)
    settings = SmoothQuantSettings(
        scheme.smooth_alpha,
        activation_bits=int(scheme.activation.format.bits),
        weight_bits=int(scheme.weight.format.bits),
        weight_channels=scheme.weight.granularity == "channel",
        policy=scheme.policy,
    )
    return smooth_quant(context.model, maxima, nodes, settings)


def _note(alpha: float | None, changed: str, samples: int) -> str:
    tensors = f"{changed} tensors in front of matrix products"
    if alpha is None:
        return (
            f"outlier channel splitting: {tensors} have channels that stand out as several equal parts, "
            f"by {samples} samples; equalize=False leaves them whole"
        )
    return f"SmoothQuant: {tensors} have channels divided with the exponent {alpha:g}, by {samples} samples"


def _axes(context: Context) -> dict[str, int]:
    placement = context.placement
    producers = {value.name: node for node in context.model.graph for value in node.outputs}
    found = smoothable_axes(context.model, placement.quantized)
    attention = nodes_of_attention(context.model.graph)
    return {
        name: axis
        for name, axis in found.items()
        if placement.activations.get(name) == name
        and name not in placement.fixed
        and (_is_coarse(placement.specs[name], context.scheme.policy) or context.scheme.smooth_alpha is not None)
        and producers[name].name not in placement.quantized
        and producers[name] not in attention
    }


def _is_coarse(spec: TensorSpec, policy: Policy) -> bool:
    return spec.format.is_integer and spec.format.bits <= policy.narrow_bits and spec.granularity == "tensor"
