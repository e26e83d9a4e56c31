"""Quark's extra options: those that quarkfast has are translated, the others refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.config.options import OPTIONS
from quarkfast.config.quark.blocks import check_attributes
from quarkfast.config.quark.keys import CONVERTED, KEYS, LIMITS, SIMULATED, Family, Key, accepts, family_of, words_of
from quarkfast.config.quark.smoothing import check_equalized
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["check_keys", "translated_options"]

# Options that are read where a scheme is made.
_READ_BEFORE = frozenset({"ActivationSymmetric", "WeightSymmetric", "ForceQuantizeNoInputCheck"})
# Settings -> the key that turns on what they are for.
_SWITCHES = {
    "MatMulNBitsParams": "UseMatMulNBits",
    "GPTQParams": "UseGPTQ",
    "MixedPrecisionTensor": "SpecificTensorPrecision",
    "SpecificTensorPrecision": "MixedPrecisionTensor",
}
# What Quark has for ranges by default.
_OF_RANGES: Mapping[str, Any] = {
    "Percentile": 99.999,
    "PercentileCandidates": [99.99, 99.999, 99.99999],
    "LWPMetric": "mae",
    "NumQuantizedBins": 128,
    "NumBins": 2048,
    "Scenario": "same",
    "CalibTensorRangeSymmetric": False,
    "CalibMovingAverage": False,
}
# Keys of ranges, which activations that stay float do not have.
_RANGES = frozenset({*_OF_RANGES, "CalibrateMethod"})
# Keys that turn off what others turn on one by one.
_MASTERS = {"NPULimitationCheck": LIMITS, "SimulateDPU": SIMULATED}
_EXTRA = (OPTIONS["extra_op_types"].name, OPTIONS["extra_op_types"].quark_key)


def translated_options(options: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    """Return the options that quarkfast has; refuse the others unless their value asks for nothing else.

    Args:
        options: By Quark's keys or quarkfast's names.
        scheme: What the rest of the configuration amounts to, on which Quark's defaults depend.

    Raises:
        UnsupportedError: an option asks for something that quarkfast does not support yet.
        ConfigError: an option is unknown, or has no effect.
    """
    check_keys(options, family_of(scheme))
    own = {option.quark_key for option in OPTIONS.values()} | set(OPTIONS)
    kept = {
        key: value
        for key, value in options.items()
        if key in own - _READ_BEFORE and not _is_left_out(key, value, scheme)
    }
    kept |= _constraints(options, family_of(scheme), scheme.weights_only)
    check_attributes([spec.dtype for spec in scheme.specs()], options)
    check_equalized(scheme, options)
    for key, switch in _SWITCHES.items():
        if options.get(key) and switch not in options:
            raise ConfigError(f"option {key}: expected {switch} beside it, got none; leave it out")
    # Floats of 16 bits that are stored alone are those of all operators anyway.
    if options.get("QuantizeAllOpTypes") and not (scheme.weights_only and scheme.weight.format.may_be_scaled):
        kept = {key: value for key, value in kept.items() if key not in _EXTRA} | {"extra_op_types": ["*"]}
    return (
        _preparation(options) | _copies(options) | _shares(options) | kept | _tensors(options) | _bias(options, scheme)
    )


def _tensors(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the overrides that MixedPrecisionTensor means, with those of the user, which win.

    Raises:
        ConfigError: It is no mapping from types to names.
    """
    named = options.get("MixedPrecisionTensor")
    if not named or not options.get("SpecificTensorPrecision"):
        return {}
    if not isinstance(named, Mapping) or not all(isinstance(names, list | tuple) for names in named.values()):
        raise ConfigError(f"option MixedPrecisionTensor: expected lists of names by their type, got {named!r}")
    found = {name: [{"quant_type": member}] for member, names in named.items() for name in names}
    return {"TensorQuantOverrides": {**found, **options.get("TensorQuantOverrides", {})}}


def _preparation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what OptimizeModel=False and SimplifyModel=False mean together: each of them alone folds in Quark."""
    said = options.keys() & {"FoldBatchNorm", "fold_batch_norm"}
    off = options.get("OptimizeModel") is False and options.get("SimplifyModel") is False
    return {"fold_batch_norm": False} if off and not said else {}


def _copies(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what CopySharedInit means: an empty list all types."""
    wanted = options.get("CopySharedInit")
    return {} if wanted is None else {"unshare_constants": list(wanted) or ["*"]}


def _shares(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what DedicatedQDQPair and DedicateDQNode mean; the first asks for more."""
    if options.get("DedicatedQDQPair"):
        return {"shares": "nothing"}
    return {"shares": "codes"} if options.get("DedicateDQNode") else {}


def _bias(options: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    """Returns what becomes of biases: QuantizeBias=False leaves them in float, Int32Bias=False is like weights.

    Raises:
        UnsupportedError: int32 is wanted beside other types than integers.
    """
    family, wanted = family_of(scheme), options.get("Int32Bias")
    if scheme.weights_only or scheme.encoding == "dynamic":
        where = "weights alone" if scheme.weights_only else "activations that are quantized when the model runs"
        for key, value in (("Int32Bias", False), ("Int16Bias", True)):
            if options.get(key) is value:
                raise UnsupportedError(f"option {key}: expected {not value} beside {where}, got {value}; biases stay")
        return {}
    if options.get("QuantizeBias") is False:
        return {"bias": "float"}
    if options.get("Int16Bias"):
        return {"bias": "int16"}
    if wanted is None or any(accepts(values, wanted) for values in KEYS["Int32Bias"].accepted(family)):
        return {}
    if wanted and not (scheme.activation.format.is_integer and scheme.weight.format.is_integer):
        got = f"{scheme.activation.dtype} and {scheme.weight.dtype}"
        raise UnsupportedError(f"option Int32Bias: expected False beside {got}, got True; leave it out")
    return {"bias": "int32" if wanted else "weight"}


def check_keys(options: Mapping[str, Any], family: Family) -> None:
    """Make sure that every key is known, and that a value without effect asks for none.

    Raises:
        UnsupportedError: a value asks for something that quarkfast does not support yet.
        ConfigError: a key is unknown, or has no effect in Quark either.
    """
    for key, value in options.items():
        row = KEYS.get(key)
        if row is None and key not in OPTIONS:
            raise ConfigError(f"option: expected a known name, got {key!r}{did_you_mean(key, [*KEYS, *OPTIONS])}")
        accepted = row is None or any(accepts(values, value) for values in (*row.accepted(family), row.noted))
        if row is not None and not accepted and not _is_honoured(row, value):
            _refuse(row, value, family)


def _is_left_out(key: str, value: Any, scheme: Scheme) -> bool:
    """Whether a value asks for nothing: settings of ranges beside weights alone and, as Quark has them, where there are
    none beforehand; casts where no activation is a float of 8 or 16 bits between pairs, which Quark passes over too."""
    if key == "BF16QDQToCast":
        pairs = not scheme.weights_only and scheme.encoding != "dynamic"
        return isinstance(value, bool) and not (pairs and (value is False or scheme.activation.format.cast_opset))
    without = not scheme.activation.needs_range or scheme.encoding == "dynamic"
    return key in _RANGES if scheme.weights_only else without and key in _OF_RANGES and value == _OF_RANGES[key]


def _is_honoured(row: Key, value: Any) -> bool:
    """Whether something is done for a value, or another module checks it."""
    words = {word.strip() for word in row.honoured.split(",")}
    return isinstance(value, bool) if words <= {"True", "False"} else bool(row.honoured)


def _constraints(options: Mapping[str, Any], family: Family, weights_only: bool) -> dict[str, Any]:
    """Returns the option ``constraints``: that of the user, and what keys turn on or off.

    Raises:
        UnsupportedError: If operators are to become others beside weights alone, where rules about pairs ask nothing.
    """
    given = {key: KEYS[key] for key in options if key in KEYS and KEYS[key].constraint}
    found = {
        row.constraint: options[key]
        for key, row in given.items()
        if not any(accepts(values, options[key]) for values in row.accepted(family))
    }
    for switch, rows in _MASTERS.items():
        if options.get(switch) is False:
            names = {row.constraint for row in rows}
            kept = {name: on for name, on in found.items() if name not in names}
            found = kept | (dict.fromkeys(names, False) if family == "cnn" else {})
    if weights_only:
        for row in given.values():
            if row in (*CONVERTED, *SIMULATED) and options[row.name] is True:
                raise UnsupportedError(
                    f"option {row.name}: expected False beside weights alone, got True; leave it out"
                )
        found = {}
    own = options.get("constraints", {})
    return {"constraints": {**found, **own}} if found and isinstance(own, Mapping) else {}


def _refuse(row: Key, value: Any, family: Family) -> None:
    if row.dead:
        raise ConfigError(f"option {row.name}: expected an option with an effect, got {value!r}; {row.why}")
    words = [words_of(values) for values in row.accepted(family) if values != ()]
    words += row.honoured.split(", ") if row.honoured else []
    reason = f"; {row.why}" if row.why else ""
    raise UnsupportedError(
        f"option {row.name}: expected {' or '.join(dict.fromkeys(words))} in this version, got {value!r}{reason}"
    )
