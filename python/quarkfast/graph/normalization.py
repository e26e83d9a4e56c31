"""Layer normalizations in a graph, as one operator or written out."""

from __future__ import annotations

from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, rank_of
from quarkfast.graph.operators import NORMALIZATIONS

__all__ = ["Normalization", "find_normalization", "is_vector", "vector_of"]


class Normalization(NamedTuple):
    """A layer normalization of `source`: ``normalized * gain + offset``, constants with one value for each channel."""

    source: ir.Value | None
    gain: ir.Value
    offset: ir.Value | None


def find_normalization(value: ir.Value) -> Normalization | None:
    """Returns the constants of the layer normalization over the last axis that `value` is the result of, or None."""
    node = value.producer()
    if node is None or not is_standard(node):
        return None
    if node.op_type in NORMALIZATIONS:
        source, gain, offset = (*node.inputs, None)[:3]
        over_last = node.attributes.get_int("axis", -1) == -1 and value is node.outputs[0]
        known = gain is not None and is_vector(gain) and (offset is None or is_vector(offset))
        return Normalization(source, gain, offset) if over_last and known and gain is not None else None
    offset, scaled = vector_of(node, "Add")
    gain, normalized = vector_of(node if scaled is None else scaled.producer(), "Mul")
    centred = None if normalized is None else _centred(normalized)
    if gain is None or centred is None:
        return None
    taken = centred.producer()
    source = taken.inputs[0] if taken is not None and taken.op_type == "Sub" else centred
    return Normalization(source, gain, offset)


def is_vector(value: ir.Value | None) -> bool:
    """Whether a value is a constant of float32 of one dimension."""
    return value is not None and is_constant(value) and value.dtype == ir.DataType.FLOAT and rank_of(value) == 1


def vector_of(node: ir.Node | None, op_type: str) -> tuple[ir.Value | None, ir.Value | None]:
    """Returns the constant vector and the other operand of an Add or Mul; None and None if `node` is no such one."""
    if node is None or not is_standard(node) or node.op_type != op_type:
        return None, None
    first, second = node.inputs
    if is_vector(first) == is_vector(second):
        return None, None
    return (first, second) if is_vector(first) else (second, first)


def _centred(value: ir.Value) -> ir.Value | None:
    """Returns what `value` is, divided by a root, as exporters write a normalization out, or None."""
    node = value.producer()
    if node is None or node.op_type not in ("Div", "Mul"):
        return None
    wanted = "Sqrt" if node.op_type == "Div" else "Reciprocal"
    for dividend, divisor in (node.inputs, node.inputs[::-1])[: 1 if node.op_type == "Div" else 2]:
        producer = None if divisor is None else divisor.producer()
        if producer is not None and producer.op_type == wanted:
            return dividend
    return None
