"""Quark's extra options: those that quarkfast has are translated, the others refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.config.options import OPTIONS
from quarkfast.config.quark.algorithm import refuse_algorithm
from quarkfast.config.quark.keys import ALGORITHM_KEYS, DEAD_KEYS, NEUTRAL_VALUES, UNSUPPORTED_KEYS
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["translated_options"]

# Keys that other modules of this folder translate, or this one below.
_OTHER_KEYS = frozenset(
    {
        *("ActivationSymmetric", "WeightSymmetric", "ForceQuantizeNoInputCheck", "EnableNPUCnn"),
        *("BFPAttributes", "MXAttributes", "QuantizeBias", "Int32Bias", "FastFinetune", "UseGPTQ", "GPTQParams"),
    }
)


def translated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that quarkfast has; refuse the others unless their value changes nothing.

    Raises:
        UnsupportedError: an option asks for something that quarkfast does not support yet.
        ConfigError: an option is unknown, or has no effect.
    """
    own = {option.quark_key for option in OPTIONS.values()} | set(OPTIONS)
    kept = {}
    for key, value in options.items():
        if key in own - _OTHER_KEYS:
            kept[key] = value
        elif key not in _OTHER_KEYS:
            _check(key, value, own)
    # In Quark, QuantizeBias=False leaves biases in float, and Int32Bias=False quantizes them like weights.
    if options.get("QuantizeBias") is False:
        kept["bias"] = "float"
    elif options.get("Int32Bias") is False:
        kept["bias"] = "weight"
    return kept


def _check(key: str, value: Any, own: set[str | None]) -> None:
    """Raise for an option that quarkfast does not have, unless its value describes what quarkfast does anyway."""
    if key in ALGORITHM_KEYS:
        refuse_algorithm(ALGORITHM_KEYS[key])
    if key in DEAD_KEYS:
        raise ConfigError(f"option {key}: expected an option with an effect, got {value!r}; {DEAD_KEYS[key]}")
    if key in UNSUPPORTED_KEYS:
        raise UnsupportedError(f"option {key}: expected it left out in this version, got {value!r}")
    if key not in NEUTRAL_VALUES:
        known = own | set(NEUTRAL_VALUES) | set(ALGORITHM_KEYS) | set(DEAD_KEYS) | set(UNSUPPORTED_KEYS) | _OTHER_KEYS
        names = [str(name) for name in known if name]
        raise ConfigError(f"option: expected a known name, got {key!r}{did_you_mean(key, names)}")
    if value not in NEUTRAL_VALUES[key]:
        expected = " or ".join(map(repr, NEUTRAL_VALUES[key]))
        raise UnsupportedError(f"option {key}: expected {expected} in this version, got {value!r}")
