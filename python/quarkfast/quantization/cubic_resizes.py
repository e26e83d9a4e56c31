"""Cubic Resize, which onnxruntime computes on floats alone and in one layout, though its optimizer gives it others."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.operators import RUNTIME_DROPPERS, SHAPE_READERS

__all__ = ["cubic_resizes"]


_CODES = "onnxruntime before 1.27 has no cubic Resize for codes of 8 bits"
_CONSTANT = "behind a pair onnxruntime would not compute a cubic Resize of a constant once, and in another layout"


def cubic_resizes(graph: ir.Graph, spec_of: Callable[[str], TensorSpec]) -> dict[ir.Node, str]:
    """Returns the cubic Resizes of codes, and the operators in front that move values to nothing else, with the reason.

    1. Those to 8-bit codes. Before 1.27 the optimizer of onnxruntime drops the pairs around a Resize where both have
       the same scale, as powers of two often do. Its cubic kernel then fails in the first run: "Tensor type mismatch".
       It also moves a pair across a Reshape or the like that stands in front of the Resize.
    2. Those of a constant, to integers of any width: transformers for images resize the table of their positions.
       onnxruntime computes what moves the constant once; behind a pair it does not, moves the Transpose through the
       Resize instead, and its kernel refuses to make images smaller in that layout ("'Cubic' mode only supports").

    Args:
        graph: The graph.
        spec_of: Returns the spec that a tensor would have.
    """
    found: dict[ir.Node, str] = {}
    for node in reversed(graph):
        if not is_standard(node):
            continue
        reason = _objection(node, spec_of) or (_leads_to(node, found) if node.op_type in RUNTIME_DROPPERS else "")
        if reason:
            found[node] = reason
    return found


def _objection(node: ir.Node, spec_of: Callable[[str], TensorSpec]) -> str:
    if node.op_type != "Resize" or node.attributes.get_string("mode", "nearest") != "cubic":
        return ""
    row = spec_of(name_of(node.outputs[0])).format
    if not row.is_integer:
        return ""
    return _CODES if row.bits <= 8 else _CONSTANT if _moves_a_constant(node.inputs[0]) else ""


def _moves_a_constant(value: ir.Value | None) -> bool:
    """Whether `value` is a constant, or one that has only been moved."""
    while value is not None and not is_constant(value):
        node = value.producer()
        value = node.inputs[0] if node is not None and is_standard(node) and node.op_type in RUNTIME_DROPPERS else None
    return value is not None


def _leads_to(node: ir.Node, found: dict[ir.Node, str]) -> str:
    """Returns the reason of the nodes that read what `node` moves, if nothing else does."""
    output = node.outputs[0]
    readers = [reader for reader, _ in output.uses() if reader.op_type not in SHAPE_READERS]
    if not readers or output.is_graph_output() or any(reader not in found for reader in readers):
        return ""
    return found[readers[0]]
