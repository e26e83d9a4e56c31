"""Infinities in constants, which no scale can hold."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import array_of, is_constant, name_of, range_of

__all__ = ["count_infinities", "infinite_weights"]


def count_infinities(value: ir.Value | None) -> int:
    """Returns how many infinities a constant holds; none if it is not one."""
    if not is_constant(value):
        return 0
    found = range_of(value)
    return found.pos_inf + found.neg_inf


def infinite_weights(value: ir.Value | None, infinite: int) -> ModelError:
    """Returns the error about a weight that holds so many infinities."""
    found = f"infinity in {infinite} of {array_of(value).size} values"
    return ModelError(f"tensor {name_of(value)!r}: expected finite weights, got {found}")
