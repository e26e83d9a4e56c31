"""Lookups in tables: nodes that take rows of a constant matrix, as floats or as codes that turn float behind them."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.written_codes import is_dequantize

__all__ = ["table_behind", "takes_rows"]

_ROWS = (0, -2)  # the first of two axes


def takes_rows(node: ir.Node) -> bool:
    """Whether a node takes whole rows of its first input, if that is a matrix: a Gather, or a Slice along rows."""
    if not is_standard(node):
        return False
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) in _ROWS
    if node.op_type != "Slice" or len(node.inputs) < 4 or not is_constant(node.inputs[3]):
        return False
    return all(int(axis) in _ROWS for axis in array_of(node.inputs[3]).ravel())


def table_behind(node: ir.Node) -> ir.Value | None:
    """Returns the table of codes whose rows `node` turns into floats, or None."""
    codes = node.inputs[0] if is_dequantize(node) else None
    lookup = None if codes is None else codes.producer()
    if lookup is None or not takes_rows(lookup) or not is_constant(lookup.inputs[0]):
        return None
    return lookup.inputs[0]
