"""Changes by options: what each does to a scheme."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quarkfast.config.equalization import read_equalization
from quarkfast.config.mixed_precision import read_mixed_precision
from quarkfast.config.scheme import Rotation, Scheme, Shares
from quarkfast.errors import ConfigError

__all__ = [
    "set_align_scales",
    "set_casts",
    "set_constraints",
    "set_equalization",
    "set_equalize",
    "set_extra",
    "set_field",
    "set_float16_scales",
    "set_group_size",
    "set_in_spec",
    "set_mixed_precision",
    "set_of_pairs",
    "set_per_channel",
    "set_preprocess",
    "set_read",
    "set_rotation",
    "set_rounding",
    "set_rounding_damping",
    "set_search_ranges",
    "set_shares",
    "set_shift_activations",
    "set_smooth_alpha",
    "set_target",
    "set_vaiml",
]


def set_field(field: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a field of a scheme."""
    return set_read(field, lambda value: tuple(value) if isinstance(value, list) else value)


def set_read(field: str, read: Callable[[Any], Any]) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a field of a scheme to what `read` makes of the value."""

    def apply(scheme: Scheme, value: Any) -> Scheme:
        changed: dict[str, Any] = {field: read(value)}
        return replace(scheme, **changed)

    return apply


def set_in_spec(part: str, field: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a field of the spec of ``"activation"`` or ``"weight"``."""

    def apply(scheme: Scheme, value: Any) -> Scheme:
        changed: dict[str, Any] = {part: replace(getattr(scheme, part), **{field: value})}
        return replace(scheme, **changed)

    return apply


def set_of_pairs(field: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a field that matters where activations are quantized beforehand, and is refused elsewhere."""
    apply = set_field(field)

    def checked(scheme: Scheme, value: Any) -> Scheme:
        if value and (scheme.weights_only or scheme.encoding == "dynamic"):
            raise ConfigError(
                f"{field}: expected a preset that quantizes activations before the model runs, got {scheme.name}; "
                "leave it out"
            )
        return apply(scheme, value)

    return checked


def set_vaiml(scheme: Scheme, value: bool) -> Scheme:
    """Has a model in bfloat16 round its constants and inputs alone.

    Raises:
        ConfigError: If it is on, and a type is another one.
    """
    narrow = (row.float32_range and row.quant_type for row in (scheme.activation.format, scheme.weight.format))
    if value and not all(narrow):
        raise ConfigError(f"vaiml: expected bfloat16, got {scheme.name}; use the preset BF16")
    return replace(scheme, vaiml=value, encoding="cast" if value else scheme.encoding)


def set_preprocess(scheme: Scheme, value: str | Mapping[str, Any]) -> Scheme:
    """Says how image files become arrays: settings as JSON, so that a scheme stays plain data, without a path.

    Raises:
        ConfigError: If a file of settings cannot be read.
    """
    if isinstance(value, str) and value.endswith(".json"):
        try:
            value = json.loads(Path(value).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"preprocess: expected a JSON file of settings, got {error}") from error
    return replace(scheme, preprocess=value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def set_per_channel(scheme: Scheme, value: bool) -> Scheme:
    """Gives weights one scale a channel or a tensor, and the method that goes with it."""
    if value:
        return replace(scheme, weight=scheme.weight.per_channel())
    changes: dict[str, Any] = {"granularity": "tensor"}
    if scheme.encoding == "dynamic" and scheme.weight.granularity == "channel":
        changes["method"] = "minmse"
    return replace(scheme, weight=replace(scheme.weight, **changes))


def set_group_size(scheme: Scheme, value: int) -> Scheme:
    """Gives weights one scale for so many of them.

    Raises:
        ConfigError: If the preset has other weights than integers, or quantizes activations.
    """
    if not scheme.weights_only or not scheme.weight.format.is_integer:
        raise ConfigError(f"group_size: expected a preset of integer weights alone, got {scheme.name}; leave it out")
    return replace(scheme, weight=replace(scheme.weight, granularity="group", group_size=value))


def set_equalize(scheme: Scheme, value: bool) -> Scheme:
    """Turns equalization on or off.

    Raises:
        ConfigError: If it is on, and the preset leaves activations alone.
    """
    if value and scheme.weights_only:
        raise ConfigError(f"equalize: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    return replace(scheme, equalize=value)


def set_equalization(scheme: Scheme, value: Mapping[str, Any]) -> Scheme:
    """Turns equalization on, with settings.

    Raises:
        ConfigError: A setting is unknown, or the preset leaves activations alone.
    """
    return replace(set_equalize(scheme, True), equalize_options=read_equalization(value))


def set_rotation(scheme: Scheme, value: Rotation) -> Scheme:
    """Chooses whether residual streams get another basis.

    Raises:
        ConfigError: They do, and the preset leaves activations alone.
    """
    if value != "none" and scheme.weights_only:
        raise ConfigError(f"rotation: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    return replace(scheme, rotation=value)


def set_shift_activations(scheme: Scheme, value: bool) -> Scheme:
    """Turns activation shifting on or off.

    Raises:
        ConfigError: If it is on, and activations have no symmetric codes of 8 bits or fewer with float scales.
    """
    spec = scheme.activation
    symmetric = spec.format.is_integer and spec.format.bits <= 8 and spec.symmetric and spec.scale == "float32"
    if value and (scheme.encoding != "qdq" or not symmetric):
        raise ConfigError(
            f"shift_activations: expected a preset whose activations are symmetric 8-bit integers with float scales, "
            f"such as A8W8, got {scheme.name}; leave it out"
        )
    return replace(scheme, shift_activations=value)


def set_smooth_alpha(scheme: Scheme, value: float) -> Scheme:
    """Turns SmoothQuant on, with an exponent.

    Raises:
        ConfigError: It is not from 0 to 1, or activations have no scales that are known beforehand.
    """
    if not 0 <= value <= 1:
        raise ConfigError(f"smooth_alpha: expected a number from 0 to 1, got {value}")
    if scheme.encoding != "qdq" or not scheme.activation.format.is_integer:
        raise ConfigError(
            f"smooth_alpha: expected a preset whose activations are integers with scales that are known beforehand, "
            f"got {scheme.name}; leave it out"
        )
    return replace(scheme, smooth_alpha=float(value))


def set_output_bias_correction(scheme: Scheme, value: bool) -> Scheme:
    """Turns output bias correction on or off.

    Raises:
        ConfigError: If it is on, and activations or biases have no integer codes.
    """
    if value and not scheme.codes_biases:
        raise ConfigError(
            f"output_bias_correction: expected a preset whose activations and biases are integers with scales, "
            f"got {scheme.name}; leave it out"
        )
    return replace(scheme, output_bias_correction=value)


def set_align_scales(scheme: Scheme, value: bool) -> Scheme:
    """Turns the alignment of power-of-two scales on or off.

    Raises:
        ConfigError: If it is on, and the scales of activations are no powers of two.
    """
    if value and (scheme.activation.scale != "power_of_two" or scheme.encoding != "qdq"):
        raise ConfigError(
            f"align_scales: expected a preset with power-of-two scales, such as XINT8, got {scheme.name}; leave it out"
        )
    return replace(scheme, align_scales=value)


def set_float16_scales(scheme: Scheme, value: bool) -> Scheme:
    """Has scales be float16 numbers, and the model stay in float16.

    Raises:
        ConfigError: If it is on, and scales are none, powers of two or M / 2^N, or not known beforehand.
    """
    if not value:
        return scheme
    for spec in (scheme.activation, scheme.weight):
        if scheme.encoding != "qdq" or not spec.format.is_integer or spec.scale not in ("float32", "half"):
            raise ConfigError(
                "float16_scales: expected a preset of integers with float scales that are known beforehand, such as "
                f"A8W8, got {scheme.name}; leave it out"
            )
    activation, weight = (replace(each, scale="half") for each in (scheme.activation, scheme.weight))
    return replace(scheme, activation=activation, weight=weight)


def set_search_ranges(scheme: Scheme, value: bool) -> Scheme:
    """Turns the search for ranges of activations on or off.

    Raises:
        ConfigError: If it is on, and activations have no 8-bit codes whose scales are known beforehand.
    """
    row = scheme.activation.format
    if value and (scheme.encoding != "qdq" or not row.is_integer or row.bits > 8):
        raise ConfigError(
            f"search_ranges: expected a preset with activations of 8 bits, such as A8W8, got {scheme.name}; "
            "leave it out"
        )
    return replace(scheme, search_ranges=value)


def set_mixed_precision(scheme: Scheme, value: Any) -> Scheme:
    """Lets layers have other types.

    Raises:
        ConfigError: If a setting is unknown or of the wrong kind, or the preset quantizes no activations beforehand.
    """
    if scheme.weights_only or scheme.encoding == "dynamic":
        raise ConfigError(
            f"mixed_precision: expected a preset that quantizes activations before the model runs, got {scheme.name}; "
            "leave it out"
        )
    return replace(scheme, mixed_precision=read_mixed_precision(value))


def set_target(scheme: Scheme, value: str) -> Scheme:
    """Names another target, which decides on biases.

    Raises:
        ConfigError: If the preset leaves activations alone.
    """
    if scheme.weights_only:
        raise ConfigError(f"target: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    placed = replace(scheme, target=value)
    return scheme if placed == scheme else replace(placed, bias=None)


def set_casts(scheme: Scheme, value: bool) -> Scheme:
    """Writes pairs of Cast, or of QuantizeLinear and DequantizeLinear."""
    return replace(scheme, encoding="cast" if value else "qdq")


def set_constraints(scheme: Scheme, value: Mapping[str, bool]) -> Scheme:
    """Turns rules of the target on or off; it says which it has once it is known."""
    return replace(scheme, constraints=tuple(sorted(value.items())))


def set_extra(scheme: Scheme, value: Sequence[str]) -> Scheme:
    """Names further operator types to quantize.

    Raises:
        ConfigError: If activations get no scale beforehand.
    """
    if value and (scheme.weights_only or scheme.encoding == "dynamic"):
        raise ConfigError(
            f"extra_op_types: expected a preset that quantizes activations before the model runs, got {scheme.name}; "
            "leave it out"
        )
    return replace(scheme, extra_op_types=tuple(value))


def set_shares(scheme: Scheme, value: Shares) -> Scheme:
    """Says what readers of a tensor share.

    Raises:
        ConfigError: If it is less than a pair, and the preset writes none.
    """
    blocks = all(spec.is_block for spec in (scheme.activation, scheme.weight))
    if value != "pair" and (scheme.weights_only or blocks or scheme.encoding not in ("qdq", "cast")):
        raise ConfigError(f"shares: expected pair for {scheme.name}, which writes none, got {value!r}")
    return replace(scheme, shares=value)


def set_rounding(scheme: Scheme, value: str) -> Scheme:
    """Chooses how codes of weights are found.

    Raises:
        ConfigError: If they are to be found by the outputs of layers, and floats are stored alone.
    """
    if value != "nearest" and scheme.weights_only and not scheme.weight.format.is_integer:
        raise ConfigError(
            f"rounding: expected nearest with {scheme.name}, got {value!r}; "
            "floats that are stored alone are not chosen by outputs"
        )
    changed: dict[str, Any] = {"rounding": value}
    if value != scheme.rounding:
        changed["rounding_options"] = ()  # settings of another solver
    return replace(scheme, **changed)


def set_rounding_damping(scheme: Scheme, value: float) -> Scheme:
    """Sets the damping of Gram matrices where codes are chosen by outputs of layers: more of it trusts samples less.

    Raises:
        ConfigError: If it is below 0 or not finite, or codes are the nearest ones.
    """
    if not 0 <= value < math.inf:
        raise ConfigError(f"rounding_damping: expected a number from 0 up, got {value}")
    if scheme.rounding == "nearest":
        raise ConfigError("rounding_damping: expected another rounding than nearest beside it; give rounding='descent'")
    options = {**dict(scheme.rounding_options), "damping": float(value)}
    return replace(scheme, rounding_options=tuple(options.items()))
