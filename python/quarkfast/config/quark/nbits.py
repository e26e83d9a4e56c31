"""Quark's UseMatMulNBits: weights of 4 or 8 bits for onnxruntime's MatMulNBits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.presets import PRESETS
from quarkfast.config.quark.gptq import SELECTING, gptq_parameters, with_gptq
from quarkfast.config.quark.keys import accepts
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["nbits_scheme"]

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
