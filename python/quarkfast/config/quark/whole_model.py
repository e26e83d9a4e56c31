"""Keys that change every spec of a configuration at once: `Int16Scale`, `UseFP32Scale`, and those of weights alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.presets import PRESETS, check_stored_weights
from quarkfast.config.quark.extra_options import translated_options
from quarkfast.config.quark.gptq import SELECTING
from quarkfast.config.quark.mixed_precision import mixed
from quarkfast.config.rules import Change, LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import ScaleKind, TensorSpec
from quarkfast.errors import UnsupportedError

__all__ = ["stored_as_asked", "weights_alone", "with_scales"]


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


def stored_as_asked(scheme: Scheme, options: Mapping[str, Any], selection: Mapping[str, Any]) -> Scheme:
    """Returns a scheme of weights that `UseGPTQ` or `UseMatMulNBits` store alone, with what all other keys ask for.

    Args:
        scheme: What these keys and their settings amount to.
        options: By Quark's keys.
        selection: Options of quarkfast that the rest of the configuration amounts to.

    Raises:
        UnsupportedError: A key asks for what there is only where activations are quantized.
        ConfigError: The same, or a key is unknown.
    """
    with_scales(scheme, options)
    if options.get("AutoMixprecision"):
        scheme = mixed(scheme, options["AutoMixprecision"], options)
    rest = {key: value for key, value in options.items() if key not in ("GPTQParams", *SELECTING)}
    found = apply_options(scheme, {**translated_options(rest, scheme), **selection})
    check_stored_weights(found)
    return found


def with_scales(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns a scheme whose scales come from the set that keys ask for.

    `Int16Scale` asks for whole numbers of 16 bits over a power of two, `UseFP32Scale=False` for float16.

    Raises:
        UnsupportedError: If a scale is a power of two, there are none that are known beforehand, or both are asked for.

    Example:
        >>> with_scales(PRESETS["A8W8"], {"Int16Scale": True}).weight.scale
        'dyadic'
    """
    for key, value, kind in _SCALE_KEYS:
        # A float16 model whose weights alone are stored gives their scales its own type.
        if options.get(key) is value and not (kind == "half" and scheme.weights_only):
            scheme = replace(
                scheme,
                activation=_scaled(scheme.activation, scheme, f"{key}={value}", kind),
                weight=_scaled(scheme.weight, scheme, f"{key}={value}", kind),
                layers=tuple(_layer(rule, kind) for rule in scheme.layers),
            )
    if scheme.target == "ryzenai-xint8" and "dyadic" in (scheme.activation.scale, scheme.weight.scale):
        raise UnsupportedError("scale type: expected powers of two for enable_npu_cnn, got M / 2^N")
    return scheme


_SCALE_KEYS: tuple[tuple[str, bool, ScaleKind], ...] = (
    ("Int16Scale", True, "dyadic"),
    ("UseFP32Scale", False, "half"),
)


def _scaled(spec: TensorSpec, scheme: Scheme, key: str, kind: ScaleKind) -> TensorSpec:
    if not spec.format.is_integer or spec.scale not in ("float32", kind) or scheme.encoding != "qdq":
        got = spec.scale if spec.format.is_integer else spec.dtype
        raise UnsupportedError(
            f"option {key}: expected integers with float scales that are known beforehand, got {got} in "
            f"{scheme.name}; leave it out"
        )
    return replace(spec, scale=kind)


def _layer(rule: LayerRule, kind: ScaleKind) -> LayerRule:
    parts = _changed(rule.activation, kind), _changed(rule.weight, kind), _changed(rule.output, kind)
    return replace(rule, activation=parts[0], weight=parts[1], output=parts[2])


def _changed(change: Change | None, kind: ScaleKind) -> Change | None:
    if change is None:
        return None
    return Change(tuple((key, kind if (key, value) == ("scale", "float32") else value) for key, value in change.values))
