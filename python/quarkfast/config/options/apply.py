"""Application of options: from a preset and their values to a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast import formats
from quarkfast.config.method_options import with_read_parameters
from quarkfast.config.options.changes import set_per_channel
from quarkfast.config.options.table import OPTIONS, Option
from quarkfast.config.presets import check_stored_weights, find_preset
from quarkfast.config.scheme import Scheme
from quarkfast.config.types import check_types
from quarkfast.errors import ConfigError, closest

__all__ = ["apply_options", "scheme_from"]


def _by_key() -> dict[str, Option]:
    """Returns the options by their names and by Quark's keys."""
    return {key: option for option in OPTIONS.values() for key in (option.name, option.quark_key) if key is not None}


def apply_options(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns `scheme` changed by `options`, which are applied in the order of the table, whatever order they came in.

    Args:
        scheme: Where to start.
        options: Option names, or Quark's keys, and their values.

    Raises:
        ConfigError: If an option is unknown, given twice under two names, or has a value of the wrong kind.

    Example:
        >>> from quarkfast.config import find_preset
        >>> apply_options(find_preset("A8W8"), {"per_channel": True}).weight.granularity
        'channel'
    """
    known, given = _by_key(), dict[str, tuple[str, Any]]()
    for key, value in options.items():
        option = known.get(key)
        if option is None:
            raise ConfigError(f"option: expected a known name, got {key!r}{_hint(key, known)}")
        if option.name in given:
            raise ConfigError(f"option: expected {option.name} once, got {given[option.name][0]!r} and {key!r}")
        if not option.kind.accepts(value):
            raise ConfigError(f"option {key}: expected {option.kind.expects}, got {value!r}")
        given[option.name] = (key, value)
    for name, option in OPTIONS.items():
        if name in given:
            scheme = option.apply(scheme, given[name][1])
    return with_read_parameters(scheme, {name: value for name, (_, value) in given.items()})


def _hint(key: str, known: Mapping[str, Option]) -> str:
    """Returns the closest name for the end of a message: quarkfast's own, unless capitals mean Quark's."""
    near = closest(key, known)
    if near is None:
        return ""
    return f"; did you mean '{known[near].name if key == key.lower() else near}'?"


def _yielding(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns a preset without a scale for each channel where options that leave that open ask for zero points.

    ConvInteger has one zero point for all channels.
    """
    known = _by_key()
    given = {known[key].name: value for key, value in options.items() if key in known}
    weight = formats.get(str(given.get("weight_type", scheme.weight.dtype)))
    symmetric = given.get("weight_symmetric", weight is None or weight.signed)
    if symmetric or scheme.encoding != "dynamic" or "per_channel" in given:
        return scheme
    return set_per_channel(scheme, False)


def scheme_from(preset: str | Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns the scheme that a preset (or a scheme) and options amount to, before its target is asked.

    Raises:
        ConfigError: If the preset or an option is unknown or does not fit.
    """
    if not isinstance(preset, str | Scheme):
        raise ConfigError(f"preset: expected a name or a Scheme, got {type(preset).__name__}")
    scheme = apply_options(_yielding(find_preset(preset), options) if isinstance(preset, str) else preset, options)
    if scheme.weights_only:
        check_stored_weights(scheme)
        return scheme
    check_types(scheme)
    if any(rule.range is not None or rule.scale is not None for rule in scheme.tensors):
        return replace(scheme, equalize=False)  # Ranges that were found for the model as it is hold for it alone.
    return scheme
