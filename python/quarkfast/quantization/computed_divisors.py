"""Divisions by what the model computes (means over a mask, norms), whose divisors eight bits cannot carry."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard
from quarkfast.graph.operators import JOINING_MOVERS, RANGE_STEPS, SHAPE_READERS

__all__ = ["computed_divisors"]


_DIVISOR = 1


def computed_divisors(graph: ir.Graph) -> set[ir.Node]:
    """Returns the divisions by what is no constant, and arithmetic and moves that lead to their divisors alone.

    A divisor of a few codes is wrong by the same part in all that it divides, and beyond the range that samples
    showed by any: of a mean over the tokens of a mask by as many times as a text is longer than theirs. A divisor of
    fewer than half a step is zero. What is divided keeps its pair, as do layers whose results divide.
    """
    found = set[ir.Node]()
    for node in reversed(graph):
        passes = node.op_type in RANGE_STEPS | JOINING_MOVERS and _divides(node, found)
        if is_standard(node) and (passes or _has_computed_divisor(node)):
            found.add(node)
    return found


def _has_computed_divisor(node: ir.Node) -> bool:
    return node.op_type == "Div" and holds_floats(node.outputs[0]) and not is_constant(node.inputs[_DIVISOR])


def _divides(node: ir.Node, found: set[ir.Node]) -> bool:
    """Whether nothing reads a node's result but divisions, as their divisor, and what leads to such."""
    uses = [use for output in node.outputs for use in output.uses() if use.node.op_type not in SHAPE_READERS]
    shown = any(output.is_graph_output() for output in node.outputs)
    return bool(uses) and not shown and all(reader in found and _in_divisor(reader, index) for reader, index in uses)


def _in_divisor(reader: ir.Node, index: int) -> bool:
    return reader.op_type != "Div" or index == _DIVISOR or is_constant(reader.inputs[_DIVISOR])
