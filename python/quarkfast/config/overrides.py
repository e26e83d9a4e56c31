"""ONNX Runtime's and Quark's ``TensorQuantOverrides`` as rules of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.config.rules import TensorRule, read_tensors
from quarkfast.errors import ConfigError, UnsupportedError, shown
from quarkfast.formats import find_by_quant_type

__all__ = ["read_overrides"]

_KEYS = ("quant_type", "symmetric", "reduce_range", "rmin", "rmax", "scale", "zero_point", "axis", "convert")


def read_overrides(plain: Any) -> tuple[TensorRule, ...]:
    """Returns the rules of a mapping, in our own form or in that of ``TensorQuantOverrides``.

    There the value of a tensor is a list of one mapping with ``quant_type``, ``symmetric``, ``reduce_range``, ``rmin``
    and ``rmax``, ``scale`` and ``zero_point``, and, for one scale a channel, ``axis``.

    Raises:
        ConfigError: If a key or a value is unknown.
        UnsupportedError: If it asks for a second type for some readers, or for parameters channel by channel.

    Example:
        >>> read_overrides({"x": [{"symmetric": True, "rmin": -1.0, "rmax": 1.0}]})[0].range
        (-1.0, 1.0)
    """
    if isinstance(plain, tuple):
        return read_tensors(plain)
    return read_tensors({name: _own_form(name, value) for name, value in plain.items()})


def _own_form(name: str, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    where = f"TensorQuantOverrides: {name}"
    if len(value) != 1 or not isinstance(value[0], Mapping):
        raise UnsupportedError(f"{where}: expected a list of one mapping in this version, got {value!r}")
    given = dict(value[0])
    for key in given:
        if key not in _KEYS:
            raise ConfigError(f"{where}: expected one of {', '.join(_KEYS)}, got {key!r}")
    if "convert" in given:
        raise UnsupportedError(f"{where}: expected no 'convert' in this version, got {given['convert']!r}")
    plain = {key: given[key] for key in ("symmetric", "reduce_range") if key in given}
    for key, flag in plain.items():
        if not isinstance(flag, bool):
            raise ConfigError(f"{where}: {key}: expected True or False, got {flag!r}")
    if "quant_type" in given:
        member = getattr(given["quant_type"], "name", given["quant_type"])
        row = find_by_quant_type(member) if isinstance(member, str) else None
        if row is None:
            raise ConfigError(f"{where}: quant_type: expected a member of QuantType, got {given['quant_type']!r}")
        plain["dtype"] = row.name
    if "rmin" in given or "rmax" in given:
        if not ("rmin" in given and "rmax" in given):
            raise ConfigError(f"{where}: expected rmin and rmax, got one of them")
        plain["range"] = [_number(where, key, given[key]) for key in ("rmin", "rmax")]
    if "scale" in given:
        point = _whole(where, "zero_point", given.get("zero_point", 0))
        plain |= {"scale_value": _number(where, "scale", given["scale"]), "zero_point": point}
    elif "zero_point" in given:
        raise ConfigError(f"{where}: expected scale beside zero_point, got none")
    if given.get("axis") is not None:
        plain |= {"granularity": "channel", "axis": _whole(where, "axis", given["axis"])}
    return plain


def _whole(where: str, key: str, value: Any) -> int:
    number = _number(where, key, value)
    if not number.is_integer():
        raise ConfigError(f"{where}: {key}: expected a whole number, got {number!r}")
    return int(number)


def _number(where: str, key: str, value: Any) -> float:
    """Returns a number, also one in an array without axes.

    Raises:
        ConfigError: It is something else.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: {key}: expected a number, got {shown(value)}") from None
