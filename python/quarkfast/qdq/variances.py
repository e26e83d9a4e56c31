"""Variances that a model computes node by node: small differences of large means, under a square root."""

from __future__ import annotations

import onnx_ir as ir

from quarkfast.graph.access import is_constant, is_standard

__all__ = ["variance_nodes"]

_STEPS = frozenset({"Abs", "Add", "Clip", "Div", "Expand", "Max", "Mul", "Reshape", "Squeeze", "Sub", "Unsqueeze"})
_MEANS = frozenset({"GlobalAveragePool", "ReduceMean", "ReduceSum"})


def variance_nodes(graph: ir.Graph) -> frozenset[ir.Node]:
    """Returns the nodes between the means and the square root of a normalization that is not fused.

    1. From the input of a Sqrt back over elementwise arithmetic and what moves values, until a mean; where anything
       else is met (a layer, an input of the model) it is no normalization.
    2. And the squares that such a mean is taken of: ``Mul(x, x)`` and ``Pow``.

    A block shares an exponent. Where channels with a small variance lie beside one with a large one they become zero,
    and ``1 / sqrt(0 + epsilon)`` a thousand times what it was.
    """
    found: set[ir.Node] = set()
    for node in graph:
        if is_standard(node) and node.op_type == "Sqrt":
            found |= _variance(node.inputs[0])
    return frozenset(found)


def _variance(value: ir.Value | None) -> set[ir.Node]:
    found: set[ir.Node] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        node = None if value is None else value.producer()
        if value is None or is_constant(value) or node in found:
            continue
        if node is None or not is_standard(node) or node.op_type not in _STEPS | _MEANS:
            return set()
        if node.op_type in _MEANS:
            found |= _square(node.inputs[0])
            continue
        found.add(node)
        # The second operand of these is a shape.
        pending += node.inputs[:1] if node.op_type in ("Expand", "Reshape", "Squeeze", "Unsqueeze") else node.inputs
    return found


def _square(value: ir.Value | None) -> set[ir.Node]:
    node = None if value is None else value.producer()
    if node is None or node.op_type not in ("Mul", "Pow"):
        return set()
    return {node} if node.op_type == "Pow" or node.inputs[0] is node.inputs[1] else set()
