"""Quark's GPTQ: ``UseGPTQ``, ``GPTQParams`` and ``GPTQConfig``, which store the weights of products alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from quarkfast.config.options import OPTIONS, apply_options
from quarkfast.config.presets import PRESETS
from quarkfast.config.quark.algorithm import AlgoConfig, GPTQConfig
from quarkfast.config.quark.keys import accepts
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["GPTQ_KEYS", "SELECTING", "gptq_parameters", "gptq_scheme", "nbits_scheme", "with_gptq"]

# Field of GPTQConfig -> key of GPTQParams.
_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "bits": "Bits",
        "block_size": "BlockSize",
        "group_size": "GroupSize",
        "perc_damp": "PercDamp",
        "act_order": "ActOrder",
        "per_channel": "PerChannel",
        "weight_symmetric": "WeightSymmetric",
        "mse": "MSE",
    }
)
GPTQ_KEYS = tuple(_FIELDS.values())
"""Keys of ``GPTQParams``."""

SELECTING = tuple(OPTIONS[name].quark_key for name in ("op_types", "exclude", "exclude_op_types", "samples"))
"""Quark's keys that choose nodes and samples, which stored weights have too."""


def gptq_parameters(algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns ``GPTQParams`` as ``UseGPTQ`` or a ``GPTQConfig`` asks for them; None where neither does.

    Raises:
        ConfigError: A key is unknown, or a value is of a wrong type.
        UnsupportedError: A value cannot be honoured.

    Example:
        >>> gptq_parameters([GPTQConfig(bits=4)], {})["Bits"], gptq_parameters([], {"UseGPTQ": False})
        (4, None)
    """
    found = [each for each in algorithms or () if isinstance(each, GPTQConfig)]
    use = options.get("UseGPTQ", False)
    if not isinstance(use, bool):
        raise ConfigError(f"option UseGPTQ: expected True or False, got {use!r}")
    given = dict(options.get("GPTQParams") or {})
    for each in found:
        given = {key: getattr(each, name) for name, key in _FIELDS.items()} | each.options | given
    _check(given)
    return given if use or found else None


def gptq_scheme(parameters: Mapping[str, Any], options: Mapping[str, Any]) -> Scheme:
    """Returns weights alone in 8 or 4 bits, rounded by GPTQ. As in Quark, only those of MatMul, unless types are given.

    Args:
        parameters: What :func:`gptq_parameters` returned.
        options: Quark's extra options, of which those that choose nodes count.

    Example:
        >>> scheme = gptq_scheme({"Bits": 4, "GroupSize": 32}, {})
        >>> scheme.name, scheme.weight.group_size, scheme.rounding, scheme.op_types
        ('INT4_WO', 32, 'gptq', ('MatMul',))
    """
    size = parameters.get("GroupSize", -1)
    chosen: dict[str, Any] = {
        "weight_symmetric": parameters.get("WeightSymmetric", options.get("WeightSymmetric", True))
    }
    chosen |= {"per_channel": parameters.get("PerChannel", False)} if size == -1 else {"group_size": size}
    selection = {key: value for key, value in options.items() if key in SELECTING and value}
    preset = PRESETS["INT8_WO" if parameters.get("Bits", 8) == 8 else "INT4_WO"]
    scheme = apply_options(preset, {**chosen, **selection})
    return with_gptq(scheme if scheme.op_types else replace(scheme, op_types=("MatMul",)), parameters)


def with_gptq(scheme: Scheme, parameters: Mapping[str, Any]) -> Scheme:
    """Returns a scheme of stored weights with GPTQ for their codes."""
    own = {"PercDamp": "damping", "ActOrder": "act_order", "BlockSize": "block_size"}
    settings = tuple((name, parameters[key]) for key, name in own.items() if key in parameters)
    return replace(scheme, rounding="gptq", rounding_options=settings)


def _check(given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if key not in GPTQ_KEYS:
            raise ConfigError(f"GPTQParams: expected a known name, got {key!r}{did_you_mean(key, GPTQ_KEYS)}")
        expected = _objection(key, value)
        if expected:
            raise UnsupportedError(f"GPTQParams: {key}: expected {expected} in this version, got {value!r}")


def _objection(key: str, value: Any) -> str:
    """Returns what a value should be instead, or nothing."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "Bits":
        return "" if number and value in (4, 8) else "4 or 8"
    if key == "BlockSize":
        return "" if isinstance(value, int) and number and value > 0 else "a count"
    if key == "GroupSize":
        return "" if number and value in (-1, 16, 32, 64, 128, 256) else "-1, 16, 32, 64, 128 or 256"
    if key == "PercDamp":
        return "" if number and 0 < value < float("inf") else "a number above 0"
    if key == "MSE":
        return "" if value is False else "False"
    return "" if isinstance(value, bool) else "True or False"


# Accuracy levels 0 and 1 both compute in float32.
_ACCEPTED: Mapping[str, tuple[Any, ...]] = {"Bits": (4, 8), "AccuracyLevel": (0, 1), "Algorithm": ("DEFAULT", "GPTQ")}
_KEYS = ("GroupSize", "Symmetric", *_ACCEPTED)


def nbits_scheme(options: Mapping[str, Any]) -> Scheme:
    """Return the scheme of a configuration with ``UseMatMulNBits``, beside which Quark reads no types.

    Args:
        options: Quark's extra options.

    Raises:
        UnsupportedError: It asks for another algorithm, width or accuracy level.
        ConfigError: A parameter is unknown or wrong.

    Example:
        >>> nbits_scheme({"MatMulNBitsParams": {"GroupSize": 32}}).weight.group_size
        32
    """
    if options.get("UseGPTQ") is True:
        raise ConfigError(
            "option UseGPTQ: expected False beside UseMatMulNBits, got True; MatMulNBitsParams has Algorithm='GPTQ'"
        )
    given = options.get("MatMulNBitsParams", {})
    for key, value in given.items():
        if key not in _KEYS:
            raise ConfigError(f"MatMulNBitsParams: expected a known name, got {key!r}{did_you_mean(key, _KEYS)}")
        if key in _ACCEPTED and not accepts(_ACCEPTED[key], value):
            expected = " or ".join(map(repr, _ACCEPTED[key]))
            raise UnsupportedError(f"MatMulNBitsParams: {key}: expected {expected} in this version, got {value!r}")
    if options.get("GPTQParams") and given.get("Algorithm") != "GPTQ":
        raise ConfigError(
            "option GPTQParams: expected Algorithm='GPTQ' in MatMulNBitsParams beside it, got none; leave it out"
        )
    symmetric = given.get("Symmetric", options.get("WeightSymmetric", True))
    chosen = {"group_size": given.get("GroupSize", 128), "weight_symmetric": symmetric}
    if given.get("Bits") == 8:
        chosen["weight_type"] = "int8"
    selection = {key: value for key, value in options.items() if key in SELECTING and value}
    scheme = apply_options(PRESETS["MATMUL_NBITS"], {**chosen, **selection})
    if given.get("Algorithm") != "GPTQ":
        return scheme
    return with_gptq(scheme, gptq_parameters(None, {**options, "UseGPTQ": True}) or {})
