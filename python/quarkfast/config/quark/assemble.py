"""Specs and schemes as Quark's quantizers choose them, whatever the generation of the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from quarkfast.config.presets import PRESETS, default_target
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import ScaleKind, TensorSpec
from quarkfast.errors import UnsupportedError
from quarkfast.formats import find
from quarkfast.ranges.registry import METHODS

__all__ = ["equalized", "for_vaiml", "make_scheme", "make_spec"]


def make_spec(dtype: str, symmetric: bool, granularity: str, scale: str, method: str) -> TensorSpec:
    """Return the spec of a tensor; what is no integer has neither method nor set of scales.

    Raises:
        UnsupportedError: a choice does not exist here yet.
    """
    if not find(dtype).is_integer:
        method, scale = "minmax", "float32"
    return TensorSpec(
        dtype,
        symmetric,
        _one_of(granularity, ("tensor", "channel", "group"), "granularity"),
        _one_of(scale, get_args(ScaleKind), "scale type"),
        _one_of(method, tuple(METHODS), "calibration method"),
    )


def _one_of(value: str, known: tuple[str, ...], what: str) -> Any:
    if value not in known:
        raise UnsupportedError(f"{what}: expected {' or '.join(known)} in this version, got {value}")
    return value


def make_scheme(activation: TensorSpec, weight: TensorSpec, npu_cnn: bool, forced: bool) -> Scheme:
    """Return the scheme for two specs, with the target that Quark's quantizers choose.

    Source:
        Specification of Quark, sections 1.3 and 6.
    """
    if npu_cnn and activation.scale != "float32":  # beside float scales no quantizer of Quark's reads it
        target = "ryzenai-xint8"
    elif activation.format.is_integer and not activation.symmetric:
        target = "ort-cpu"
    else:
        target = default_target(activation)
    for preset in PRESETS.values():
        if (preset.activation.dtype, preset.weight.dtype, preset.target) == (activation.dtype, weight.dtype, target):
            return replace(preset, activation=activation, weight=weight, force_pass_through=forced)
    name = f"{activation.dtype}-{weight.dtype}"
    return Scheme(name, target, activation, weight, bias=None, force_pass_through=forced)


def equalized(scheme: Scheme, wanted: bool) -> Scheme:
    """Return the scheme with equalization or without; 16-bit floats have an exponent of their own and need none."""
    return replace(scheme, equalize=wanted and not scheme.weight.format.may_be_scaled)


def for_vaiml(scheme: Scheme) -> Scheme:
    """Returns the scheme with its name and target if it has the form of Quark's preset VINT8, whatever asks for it.

    It is what XINT8 is without `enable_npu_cnn`: symmetric int8, powers of two, and biases like weights.

    Source:
        Specification of Quark, 1.6 and 13.
    """
    specs = scheme.activation, scheme.weight
    shifted = all(spec.scale == "power_of_two" and spec.granularity == "tensor" for spec in specs)
    bytes_alike = all(spec.format.signed and spec.format.bits == 8 and spec.symmetric for spec in specs)
    if shifted and bytes_alike and scheme.bias == "weight" and scheme.target == default_target(scheme.activation):
        return replace(scheme, name="VINT8", target="ryzenai-vint8")
    return scheme
