"""Type checks: which types activations and weights may have, and which combinations make no sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quarkfast.config.method_options import check_method
from quarkfast.config.presets import default_target
from quarkfast.config.rules import BiasKind
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.formats import activation_formats, weight_formats

__all__ = ["check_types", "default_bias", "retype", "takes_int32_bias"]


def retype(field: str) -> Callable[[Scheme, str], Scheme]:
    """Returns what gives ``"activation"`` or ``"weight"`` of a scheme another type, with that type's usual symmetry.

    Unsigned integers become asymmetric, everything else symmetric. Floats and block formats have no scale to choose.
    Activations that change between integers, floats and MX formats change the target, and what becomes of biases is
    left to that.
    """

    def apply(scheme: Scheme, dtype: str) -> Scheme:
        known = activation_formats() if field == "activation" else weight_formats()
        if dtype not in known:
            raise ConfigError(
                f"{field}_type: expected one of {', '.join(known)}, got {dtype!r}{did_you_mean(dtype, known)}"
            )
        old: TensorSpec = getattr(scheme, field)
        if dtype == old.dtype:
            return scheme
        given: dict[str, Any] = {field: old.with_type(dtype)}
        changed = replace(scheme, **given)
        target = default_target(changed.activation)
        moved = target != default_target(scheme.activation)
        return replace(changed, target=target if moved else scheme.target, bias=None)

    return apply


def default_bias(activation: TensorSpec, weight: TensorSpec) -> BiasKind:
    """Returns what becomes of biases beside such operands, where the target leaves it to the types.

    ``"int32"`` needs the scales of both operands, and weights of at most 8 bits: with those of 16 the product of the
    scales is so small that biases leave int32. Where one operand is no integer, or is too wide, biases stay float;
    where both are not, they are treated like weights.

    Example:
        >>> default_bias(TensorSpec("int8"), TensorSpec("int8")), default_bias(TensorSpec("int8"), TensorSpec("int16"))
        ('int32', 'float')
    """
    if not (_is_integer(activation) or _is_integer(weight)):
        return "weight"
    return "int32" if takes_int32_bias(activation, weight) else "float"


def takes_int32_bias(activation: TensorSpec, weight: TensorSpec) -> bool:
    """Whether biases of layers with such operands can have the scale of their products."""
    data, weights = activation.format, weight.format
    return data.activation and data.is_integer and data.bits <= 16 and weights.is_integer and weights.bits <= 8


def check_types(scheme: Scheme) -> None:
    """Makes sure that the types of a scheme go with each other and with its other choices.

    Raises:
        ConfigError: If they do not.
    """
    _check_spec("activation", scheme.activation, activation_formats())
    _check_spec("weight", scheme.weight, weight_formats())
    for spec in scheme.specs():
        _check_spec("layers or tensors", spec, weight_formats())
    weight = scheme.weight
    if scheme.bias not in (None, "weight", "float") and not takes_int32_bias(scheme.activation, weight):
        raise ConfigError(
            f"bias: expected weight or float beside activations {scheme.activation.dtype} and weights {weight.dtype}, "
            f"got {scheme.bias}"
        )
    if scheme.encoding == "dynamic":
        _check_dynamic(scheme)
    if weight.granularity == "group" or scheme.encoding == "nbits":
        raise ConfigError(
            f"{scheme.name}: expected one scale a tensor or channel beside {scheme.activation.dtype} activations, got "
            "groups; leave activation_type out"
        )
    if weight.granularity == "channel" and not weight.needs_range:
        raise ConfigError(f"per_channel: expected weights with a scale, got {weight.dtype}; leave the option out")
    if scheme.packed_weights and not weight.is_block:
        raise ConfigError(
            f"packed_weights: expected weights in a block format, got {weight.dtype}, stored as codes anyway; "
            "leave the option out"
        )
    if scheme.packed_weights and scheme.keep_float_weights:
        raise ConfigError("packed_weights: expected it or keep_float_weights, got both; leave one out")
    if scheme.float16_scales:
        _check_float16(scheme)
    if scheme.encoding == "cast" and scheme.activation.format.cast_opset is None:
        raise ConfigError(
            f"bf16_qdq_to_cast: expected activations of 8- or 16-bit floats, got {scheme.activation.dtype}; "
            "leave the option out"
        )
    if scheme.clip_bfloat16 and not scheme.activation.format.float32_range:
        raise ConfigError(
            f"bf16_with_clip: expected bfloat16 activations, got {scheme.activation.dtype}; leave the option out"
        )


def _check_float16(scheme: Scheme) -> None:
    """One type of floats goes through the whole model."""
    where = "float16_scales"
    for spec in scheme.specs():
        if not _is_integer(spec) or spec.scale != "half":
            got = f"{spec.scale} scales" if _is_integer(spec) else spec.dtype
            raise ConfigError(f"{where}: expected integers with float16 scales everywhere, got {got} for some")


def _check_spec(field: str, spec: TensorSpec, known: tuple[str, ...]) -> None:
    if spec.dtype not in known:
        raise ConfigError(
            f"{field}: dtype: expected one of {', '.join(known)}, got {spec.dtype!r}{did_you_mean(spec.dtype, known)}"
        )
    if not spec.symmetric and not _is_integer(spec):
        raise ConfigError(f"{field}_symmetric: expected True for {spec.dtype}, got False; it has no zero point")
    if spec.scaled and not spec.format.may_be_scaled:
        raise ConfigError(f"{field}_scaled: expected float16 or bfloat16, got {spec.dtype}; leave the option out")
    if spec.reduce_range and not _is_integer(spec):
        raise ConfigError(f"reduce_range: expected integers, got {spec.dtype} for the {field}; leave it out")
    check_method(spec, field)


def _check_dynamic(scheme: Scheme) -> None:
    activation, weight = scheme.activation, scheme.weight
    if not activation.format.integer_operators or activation.format.signed or activation.symmetric:
        raise ConfigError(
            f"{scheme.name}: expected uint8 activations, asymmetric, as DynamicQuantizeLinear gives, "
            f"got {activation.dtype}{', symmetric' if activation.symmetric else ''}"
        )
    if not weight.format.integer_operators:
        raise ConfigError(f"{scheme.name}: expected int8 or uint8 weights, got {weight.dtype}")
    if weight.granularity == "channel" and not weight.symmetric:
        raise ConfigError(
            f"{scheme.name}: expected symmetric weights where each channel has a scale, got asymmetric ones; "
            "ConvInteger has one zero point"
        )
    if scheme.keep_float_weights:
        raise ConfigError(f"{scheme.name}: expected keep_float_weights left out, got True")
    if scheme.layers or scheme.tensors:
        where = "layers" if scheme.layers else "tensors"
        raise ConfigError(f"{where}: expected none of their own for {scheme.name}, got some; leave them out")


def _is_integer(spec: TensorSpec) -> bool:
    return spec.format.is_integer
