"""Keys that change every spec of a configuration at once: `Int16Scale` and `WeightsOnly`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.presets import PRESETS
from quarkfast.config.rules import Change, LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import UnsupportedError

__all__ = ["check_groups", "weights_alone", "with_int16_scales"]


def weights_alone(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns a scheme whose weights alone are stored, as `WeightsOnly` asks for; biases and activations stay float.

    Raises:
        UnsupportedError: If weights of such a type are not stored alone.

    Example:
        >>> weights_alone(PRESETS["BF16"], {"WeightsOnly": True}).name
        'BF16_WO'
    """
    if options.get("WeightsOnly") is not True:
        return scheme
    weight = scheme.weight
    if weight.scale != "float32" or weight.reduce_range or weight.method != "minmax":
        raise UnsupportedError(
            f"option WeightsOnly: expected False beside weights of {scheme.name}, whose scales are not those of their "
            "extremes, got True"
        )
    for preset in PRESETS.values() if scheme.encoding != "dynamic" else ():
        stored = preset.weight.format
        both = stored.is_integer and weight.format.is_integer and stored.bits == weight.format.bits
        same = both or preset.weight.dtype == weight.dtype
        if preset.weights_only and preset.encoding != "nbits" and same:
            return replace(preset, weight=weight)
    raise UnsupportedError(
        f"option WeightsOnly: expected False beside weights in {weight.dtype} of {scheme.name}, got True"
    )


def check_groups(activation: TensorSpec, weight: TensorSpec, options: Mapping[str, Any]) -> None:
    """Makes sure that scales of groups are asked for where they can be had.

    Raises:
        UnsupportedError: If activations are quantized too.
    """
    alone = options.get("WeightsOnly") is True
    if activation.granularity == "group" or (weight.granularity == "group" and not alone):
        raise UnsupportedError(
            "granularity: expected Tensor or Channel beside quantized activations, got Group; weights alone "
            "have groups: WeightsOnly=True, UseGPTQ, UseMatMulNBits"
        )


def with_int16_scales(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns a scheme whose scales are whole numbers of 16 bits over a power of two, as `Int16Scale` asks for.

    Raises:
        UnsupportedError: If a scale is a power of two, or there are none that are known beforehand.

    Example:
        >>> with_int16_scales(PRESETS["A8W8"], {"Int16Scale": True}).weight.scale
        'dyadic'
    """
    if options.get("Int16Scale") is True:
        scheme = replace(
            scheme,
            activation=_scaled(scheme.activation, scheme),
            weight=_scaled(scheme.weight, scheme),
            layers=tuple(map(_layer, scheme.layers)),
        )
    if scheme.target == "ryzenai-xint8" and "dyadic" in (scheme.activation.scale, scheme.weight.scale):
        raise UnsupportedError("scale type: expected powers of two for enable_npu_cnn, got M / 2^N")
    return scheme


def _scaled(spec: TensorSpec, scheme: Scheme) -> TensorSpec:
    if not spec.format.is_integer or spec.scale == "power_of_two" or scheme.encoding != "qdq":
        kind = spec.scale if spec.format.is_integer else spec.dtype
        raise UnsupportedError(
            f"option Int16Scale: expected integers with float scales that are known beforehand, got {kind} in "
            f"{scheme.name}; leave it out"
        )
    return replace(spec, scale="dyadic")


def _layer(rule: LayerRule) -> LayerRule:
    parts = _changed(rule.activation), _changed(rule.weight), _changed(rule.output)
    return replace(rule, activation=parts[0], weight=parts[1], output=parts[2])


def _changed(change: Change | None) -> Change | None:
    if change is None:
        return None
    return Change(
        tuple((key, "dyadic" if (key, value) == ("scale", "float32") else value) for key, value in change.values)
    )
