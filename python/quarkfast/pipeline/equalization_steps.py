"""The step that looks at what is between layers, so that equalization lets no activation reach further."""

from __future__ import annotations

from typing import Any

from quarkfast.algorithms.cross_layer_equalization import (
    CROSS_LAYER_EQUALIZATION,
    CrossLayerEqualizationSettings,
    channels_between_layers,
)
from quarkfast.calibration import observe
from quarkfast.graph.external import tensor_bytes
from quarkfast.pipeline.context import Context
from quarkfast.statistics import StatisticsRequest

__all__ = ["goes_through_gates", "observe_channels_between"]

# Bytes of a model above which it is not judged either (`quarkfast.pipeline.judged_options`).
_LARGEST = 1 << 30

# Samples that show how far channels reach beside each other, as those by which outliers are split.
_SAMPLES = 16


def goes_through_gates(context: Any) -> bool:
    """Whether equalization passes gates, and there are samples."""
    return isinstance(context, Context) and context.source.has_data and _settings(context).through_gates


def observe_channels_between(context: Context) -> bool:
    """Takes the largest magnitude of each channel between layers; nothing of random samples and of large models."""
    axes = channels_between_layers(context.model, _settings(context))
    if not axes or tensor_bytes(context.model) > _LARGEST or not context.may_run_samples:
        return False
    feeds = context.source.samples(context.model, context.scheme).rows(_SAMPLES)
    request = StatisticsRequest.of_channels(axes)
    seen, _ = context.once("channels between", request, lambda: observe(context.model, request, feeds))
    # One infinity or NaN may lie in any channel, so nothing is known of such a tensor.
    finite = {name: each for name, each in seen.items() if each.range.finite == each.range.count}
    maxima = {name: each.channel_absmax for name, each in finite.items()}
    context.channels_between = {name: each for name, each in maxima.items() if each is not None}
    return False


def _settings(context: Context) -> CrossLayerEqualizationSettings:
    found: CrossLayerEqualizationSettings | None = CROSS_LAYER_EQUALIZATION.settings(context.scheme)
    return CrossLayerEqualizationSettings() if found is None else found
