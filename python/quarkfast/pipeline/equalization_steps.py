"""The step that looks at what is between layers, so that equalization lets no activation reach further."""

from __future__ import annotations

from typing import Any

from quarkfast.algorithms.cross_layer_equalization import (
    CROSS_LAYER_EQUALIZATION,
    CrossLayerEqualizationSettings,
    channels_between_layers,
)
from quarkfast.graph.external import tensor_bytes
from quarkfast.pipeline.channel_observation import observe_channels
from quarkfast.pipeline.context import Context

__all__ = ["observe_channels_between", "observes_channels"]


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
