"""Cubic Resize, which onnxruntime computes on floats alone, though its optimizer hands it codes."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of

__all__ = ["cubic_resizes"]

# What onnxruntime moves pairs across.
_MOVERS = frozenset({"Flatten", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


def cubic_resizes(graph: ir.Graph, spec_of: Callable[[str], TensorSpec]) -> frozenset[ir.Node]:
    """Returns the cubic Resizes to 8-bit codes, and the operators in front that move values to nothing else.

    Before 1.27 the optimizer of onnxruntime drops the pairs around a Resize where both have the same scale, as powers
    of two often do. Its cubic kernel then fails in the first run: "Tensor type mismatch". It also moves a pair across a
    Reshape or the like that stands in front of the Resize.

    Args:
        graph: The graph.
        spec_of: Returns the spec that a tensor would have.
    """
    found: set[ir.Node] = set()
    for node in reversed(graph):
        if is_standard(node) and (_is_cubic(node, spec_of) or (node.op_type in _MOVERS and _leads_to(node, found))):
            found.add(node)
    return frozenset(found)


def _is_cubic(node: ir.Node, spec_of: Callable[[str], TensorSpec]) -> bool:
    if node.op_type != "Resize" or node.attributes.get_string("mode", "nearest") != "cubic":
        return False
    row = spec_of(name_of(node.outputs[0])).format
    return row.is_integer and row.bits <= 8


def _leads_to(node: ir.Node, found: set[ir.Node]) -> bool:
    output = node.outputs[0]
    return bool(output.uses()) and not output.is_graph_output() and all(reader in found for reader, _ in output.uses())
