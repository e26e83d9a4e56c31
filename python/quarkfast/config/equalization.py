"""Settings of cross-layer equalization, by Quark's names, as an option takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["SETTINGS", "read_equalization"]


class _Setting(NamedTuple):
    """The accepted values of a setting in words, and the check."""

    expects: str
    accepts: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


_BOOL = _Setting("True or False", lambda value: isinstance(value, bool))

SETTINGS: Mapping[str, _Setting] = MappingProxyType(
    {
        "cle_steps": _Setting(
            "a count, or -1 for as many as change something",
            lambda value: isinstance(value, int) and not isinstance(value, bool) and (value > 0 or value == -1),
        ),
        "cle_balance_method": _Setting("'max', the one that Quark has", lambda value: value == "max"),
        "cle_weight_threshold": _Setting("a number of 0 or more", _is_number),
        "cle_scale_use_threshold": _BOOL,
        "cle_scale_append_bias": _BOOL,
        "cle_total_layer_diff_threshold": _Setting("a number of 0 or more", _is_number),
        "largest_factor": _Setting("a number of 1 or more", lambda value: _is_number(value) and value >= 1),
        "through_clip": _BOOL,
        "through_gates": _BOOL,
    }
)
"""Name -> what its values are; docs/algorithms.md says what each does."""


def read_equalization(value: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns settings by name as a scheme keeps them.

    Raises:
        ConfigError: A name is unknown, or a value is none of its own.

    Example:
        >>> read_equalization({"cle_steps": 2})
        (('cle_steps', 2),)
    """
    for name, given in value.items():
        if name not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise ConfigError(f"equalization: expected {known}, got {name!r}{did_you_mean(name, SETTINGS)}")
        if not SETTINGS[name].accepts(given):
            raise ConfigError(f"equalization: {name}: expected {SETTINGS[name].expects}, got {given!r}")
    return tuple(sorted(value.items()))
