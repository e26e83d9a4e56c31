"""Options that choose a method of calibration: how each is read, and what it changes in a scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.ranges.registry import METHODS, PARAMETERS

__all__ = [
    "check_method",
    "choose",
    "choose_method",
    "choose_moving_average",
    "choose_parameter",
    "is_method",
    "with_read_parameters",
]

_ENUMERATIONS = ("CalibMethod", "CalibrationMethod", "ExtendedCalibrationMethod")


def is_method(value: Any) -> bool:
    """Whether `value` could name a method: a string, or a member of an enumeration of Quark or onnxruntime."""
    return isinstance(value, str) or type(value).__name__ in _ENUMERATIONS


def choose(part: str, field: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a parameter of the method of ``"activation"`` or ``"weight"``."""

    where = "weight_method" if (part, field) == ("weight", "method") else field

    def apply(scheme: Scheme, value: Any) -> Scheme:
        spec: TensorSpec = getattr(scheme, part)
        if not spec.needs_range:
            raise ConfigError(f"{where}: expected a type with a scale, got {spec.dtype} ({part}); leave the option out")
        if part == "activation" and scheme.encoding == "dynamic":
            raise ConfigError(
                f"{where}: expected a preset that quantizes activations before the model runs, got {scheme.name}; "
                "leave the option out"
            )
        changed: dict[str, Any] = {field: tuple(value) if isinstance(value, list) else value}
        given: dict[str, Any] = {part: replace(spec, **changed)}
        return replace(scheme, **given)

    return apply


def choose_method(part: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets the method of ``"activation"`` or ``"weight"``, by its name in any spelling or a member."""

    where = "method" if part == "activation" else "weight_method"

    def apply(scheme: Scheme, value: Any) -> Scheme:
        name = str(getattr(value, "name", value))
        known = {method.replace("_", ""): method for method in METHODS}
        found = known.get(name.replace("_", "").lower())
        if found is None:
            listed, hint = ", ".join(known.values()), did_you_mean(name, known.values())
            raise ConfigError(f"{where}: expected one of {listed}, got {name!r}{hint}")
        if part == "activation" and scheme.search_ranges is None:
            scheme = replace(scheme, search_ranges=False)  # who names a method wants its ranges
        return choose(part, "method")(scheme, found)

    return apply


def choose_moving_average(scheme: Scheme, value: bool) -> Scheme:
    """Makes ``"minmax"`` average the extremes of runs.

    Raises:
        ConfigError: If the method is another one.
    """
    method = scheme.activation.method
    if value and method not in ("minmax", "moving_average"):
        raise ConfigError(f"moving_average: expected False for method {method}, got True; it goes with minmax")
    return choose("activation", "method")(scheme, "moving_average") if value else scheme


def choose_parameter(name: str) -> Callable[[Scheme, Any], Scheme]:
    """Returns what sets a parameter of the methods of activations."""
    return choose("activation", name)


def with_read_parameters(scheme: Scheme, given: Mapping[str, Any]) -> Scheme:
    """Returns a scheme without the parameters among `given` options that no method of activations reads.

    Raises:
        ConfigError: If the value of one is another than that which all have there.
    """
    rules = [part for rule in scheme.layers for part in (rule.activation, rule.output)]
    rules += [rule.change for rule in scheme.tensors]
    if scheme.mixed_precision is not None:
        rules += [part for rule in scheme.mixed_precision.forms for part in (rule.activation, rule.output)]
    methods = {scheme.activation.method, *(dict(rule.values).get("method") for rule in rules if rule is not None)}
    read = {name for method in methods if method is not None for name in METHODS[method].parameters}
    for name, row in PARAMETERS.items():
        option = row.option or name
        if option not in given or name in read:
            continue
        value = tuple(given[option]) if isinstance(given[option], list) else given[option]
        if value != row.unread:
            raise ConfigError(
                f"{option}: expected {row.unread} beside {scheme.activation.method}, which reads no other, "
                f"got {value}; leave it out"
            )
        scheme = replace(scheme, activation=replace(scheme.activation, **{name: row.default}))
    return scheme


def check_method(spec: TensorSpec, part: str) -> None:
    """Makes sure that the method of a type goes with it.

    Raises:
        ConfigError: If it needs the error that integer codes leave, and the type is a float.
    """
    fitting = [method.name for method in METHODS.values() if method.takes_floats]
    if spec.needs_range and not spec.format.is_integer and spec.method not in fitting:
        raise ConfigError(
            f"method: expected {', '.join(fitting[:-1])} or {fitting[-1]} for {spec.dtype} ({part}), got {spec.method}"
        )
