"""Quark's extra options: those with a row among quarkfast's own, and a sentence for each of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.config.options import OPTIONS
from quarkfast.config.quark.algorithm import refuse_algorithm
from quarkfast.config.quark.keys import ALGORITHM_KEYS, DEAD_KEYS, NEUTRAL_VALUES, UNSUPPORTED_KEYS
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["translated_options"]

# Keys that the translation of a configuration reads itself.
_READ = frozenset(
    {
        *("ActivationSymmetric", "WeightSymmetric", "ForceQuantizeNoInputCheck", "EnableNPUCnn"),
        *("BFPAttributes", "MXAttributes", "QuantizeBias", "Int32Bias"),
    }
)


def translated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a row here; refuse the others unless their value changes nothing.

    Raises:
        UnsupportedError: an option asks for what does not exist here yet.
        ConfigError: an option is unknown, or has no effect.
    """
    rows = {option.quark_key for option in OPTIONS.values()} | set(OPTIONS)
    kept = {}
    for key, value in options.items():
        if key in rows - _READ:
            kept[key] = value
        elif key not in _READ:
            _check(key, value, rows)
    # Quark: no quantized bias at all, or one that is treated like a weight.
    if options.get("QuantizeBias") is False:
        kept["bias"] = "float"
    elif options.get("Int32Bias") is False:
        kept["bias"] = "weight"
    return kept


def _check(key: str, value: Any, rows: set[str | None]) -> None:
    """Raise for an option without a row, unless it describes what happens anyway."""
    if key in ALGORITHM_KEYS:
        refuse_algorithm(ALGORITHM_KEYS[key])
    if key in DEAD_KEYS:
        raise ConfigError(f"option {key}: expected an option with an effect, got {value!r}; {DEAD_KEYS[key]}")
    if key in UNSUPPORTED_KEYS:
        raise UnsupportedError(f"option {key}: expected it left out in this version, got {value!r}")
    if key not in NEUTRAL_VALUES:
        known = rows | set(NEUTRAL_VALUES) | set(ALGORITHM_KEYS) | set(DEAD_KEYS) | set(UNSUPPORTED_KEYS) | _READ
        names = [str(name) for name in known if name]
        raise ConfigError(f"option: expected a known name, got {key!r}{did_you_mean(key, names)}")
    if value not in NEUTRAL_VALUES[key]:
        expected = " or ".join(map(repr, NEUTRAL_VALUES[key]))
        raise UnsupportedError(f"option {key}: expected {expected} in this version, got {value!r}")
