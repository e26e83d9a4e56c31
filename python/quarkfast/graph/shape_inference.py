"""The shape inference of onnx, on protobufs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["DEADLY", "FAILURES", "inferred", "may_propagate", "protos_of"]

# No real dimension is larger; tables of words have some 2^18 rows.
_LARGEST = 1 << 24

#: Operators at which onnx 1.23 ends the process if it does not know the type of their input: behind a custom operator.
DEADLY = frozenset({"RegexFullMatch"})

#: What onnx raises where a model contradicts itself.
FAILURES = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)


def inferred(proto: onnx.ModelProto, *, propagate: bool) -> onnx.ModelProto | None:
    """Returns the model with the types and shapes that onnx can tell, or None where it cannot be asked.

    That is where the model contradicts itself, or has an operator of `DEADLY`.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else.

    Args:
        proto: Less than 2 GiB; large constants may be references.
        propagate: Whether onnx follows the values of small integer tensors, from which shapes are made.
    """
    if any(node.op_type in DEADLY for graph in protos_of(proto.graph) for node in graph.node):
        return None
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=propagate)
    except FAILURES:
        return None


def may_propagate(model: ir.Model) -> bool:
    """Returns whether onnx may follow the values of `model`: none that it would write down takes memory for a claim."""
    return not any(map(_is_absurd, nodes_of(model.graph))) and not _has_absurd_input(model)


def protos_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields `graph` and its bodies in the order of :func:`quarkfast.graph.subgraphs.graphs_of`."""
    yield graph
    for attribute in (each for node in graph.node for each in node.attribute):
        for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from protos_of(body)


def _is_absurd(node: ir.Node) -> bool:
    """Whether onnx, which follows values through ConstantOfShape, would write down more of them than memory holds."""
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return False
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return shape is not None and any(int(size) > _LARGEST for size in shape.numpy().reshape(-1))


def _has_absurd_input(model: ir.Model) -> bool:
    shapes = (value.shape for value in model.graph.inputs if value.shape is not None)
    return any(isinstance(size, int) and size > _LARGEST for shape in shapes for size in shape)
