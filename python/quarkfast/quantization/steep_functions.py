"""Logarithms and roots, to which the smallest values matter as much as the largest: what they read stays float."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of

__all__ = ["steep_functions"]

_STEEP = frozenset({"Log", "Reciprocal", "Sqrt"})

# What computes powers, sums of them and floors in front of a logarithm.
_ARITHMETIC = frozenset(
    {"Abs", "Add", "Clip", "Max", "Min", "Mul", "Neg", "Pow", "ReduceSum", "ReduceSumSquare", "Sub"}
)
_MOVERS = frozenset({"Concat", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})

# What reads no values.
_SHAPES = frozenset({"Shape", "Size"})


def steep_functions(
    graph: ir.Graph, spec_of: Callable[[str], TensorSpec], is_asked_for: Callable[[ir.Node], bool]
) -> frozenset[ir.Node]:
    """Returns the functions that are steep near zero, and the arithmetic in front of them that nothing else reads.

    The codes of an integer format are equally far apart. A spectrum of powers spans twice the decades of the signal: of
    it they hold the loudest part, and a logarithm makes errors of several units of all the rest, where the same codes
    of the signal itself still tell that apart. The signal keeps its pair, and whatever is computed from it up to the
    function has none.

    Args:
        graph: The graph.
        spec_of: Returns the spec that a tensor would have.
        is_asked_for: Whether the user wants a node quantized.
    """
    found: set[ir.Node] = set()
    for node in reversed(graph):
        if not is_standard(node) or is_asked_for(node) or not spec_of(name_of(node.outputs[0])).format.is_integer:
            continue
        if _is_steep(node) or (node.op_type in _ARITHMETIC | _MOVERS and _leads_to(node, found)):
            found.add(node)
    for node in graph:  # codes that are only moved stay as they are
        if node in found and node.op_type in _MOVERS and not any(_maker(value) in found for value in node.inputs):
            found.remove(node)
    return frozenset(found)


def _is_steep(node: ir.Node) -> bool:
    if node.op_type != "Pow":
        return node.op_type in _STEEP
    exponent = node.inputs[1]
    return is_constant(exponent) and bool((array_of(exponent) < 1).all())


def _leads_to(node: ir.Node, found: set[ir.Node]) -> bool:
    readers = [reader for output in node.outputs for reader, _ in output.uses() if reader.op_type not in _SHAPES]
    shown = any(output.is_graph_output() for output in node.outputs)
    return bool(readers) and not shown and all(reader in found for reader in readers)


def _maker(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()
