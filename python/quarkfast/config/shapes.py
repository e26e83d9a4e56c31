"""Shapes of a model's inputs and outputs, as options give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.errors import ConfigError

__all__ = ["Shapes", "read_shapes"]

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and sizes, in the order of names."""


def read_shapes(value: Any) -> Shapes:
    """Reads ``{"x": [1, 3, 224, 224]}``, or Quark's ``"x:[1,3,224,224];y:[1,10]"``.

    Raises:
        ConfigError: If it is something else.

    Example:
        >>> read_shapes("x:[1,3,8,8]; y:[1,10]") == read_shapes({"y": [1, 10], "x": [1, 3, 8, 8]})
        True
    """
    given = dict(map(_part, filter(None, map(str.strip, value.split(";"))))) if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"shapes: expected sizes by name, got {value!r}")
    for name, sizes in given.items():
        whole = isinstance(sizes, list | tuple) and all(type(size) is int and size > 0 for size in sizes)
        if not isinstance(name, str) or not whole:
            raise ConfigError(f"shapes: {name}: expected a list of whole numbers greater than 0, got {sizes!r}")
    return tuple(sorted((name, tuple(sizes)) for name, sizes in given.items()))


def _part(text: str) -> tuple[str, list[int]]:
    """Reads ``x:[1,3,224,224]``.

    Raises:
        ConfigError: If it is something else.
    """
    name, _, sizes = text.rpartition(":")
    inner = sizes.strip().removeprefix("[").removesuffix("]").split(",")
    if not name or not sizes.strip().startswith("[") or not all(size.strip().isdecimal() for size in inner):
        raise ConfigError(f"shapes: expected 'x:[1,3,224,224];y:[1,10]', got {text!r}")
    return name.strip(), [int(size) for size in inner]
