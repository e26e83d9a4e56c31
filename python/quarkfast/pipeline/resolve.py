"""From a preset and options to a scheme and the target that it is placed for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config import Scheme, check_types, scheme_from
from quarkfast.targets import Target, find_target

__all__ = ["resolve"]


def resolve(preset: str | Scheme, options: Mapping[str, Any]) -> tuple[Scheme, Target]:
    """Returns the scheme that a preset (or a scheme) and options amount to, and its target.

    Args:
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a scheme.
        options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys. ``target`` is a name or a Target of one's own, which
            wins over a registered one of its name.

    Raises:
        ConfigError: If the preset, the target or an option is unknown or does not fit.

    Example:
        >>> scheme, target = resolve("A8W8", {"target": "ort-cpu"})
        >>> scheme.target, target.constants
        ('ort-cpu', 'activation')
    """
    given, own = dict(options), options.get("target")
    if isinstance(own, Target):
        given["target"] = own.name
    scheme = scheme_from(preset, given)
    target = own if isinstance(own, Target) else find_target(scheme.target)
    if target is own and isinstance(preset, str) and "bias" not in given:
        scheme = replace(scheme, bias=None)  # a preset states what a registered target of that name says
    target = target.with_constraints(scheme.constraints)
    if scheme.bias is None:
        scheme = replace(scheme, bias=target.bias_of(scheme))
    if not scheme.weights_only:
        check_types(scheme)
        target.check_scheme(scheme)
    return scheme, target
