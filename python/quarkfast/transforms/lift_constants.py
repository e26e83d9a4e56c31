"""Constant nodes become initializers."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.graph.access import graph_of
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["lift_constants"]


def lift_constants(model: ir.Model) -> bool:
    """Makes initializers of the Constant nodes of `model`, in place, but for those that are graph outputs.

    Returns whether there were such nodes.

    An initializer has the name, the metadata and the readers of the node's output, and lies in the node's graph. As
    onnx-ir's LiftConstantsToInitializersPass does, which holds each tensor against a protocol (0.1 ms each) and is
    left with models in which a constant is no tensor. Idempotent; error 0.
    """
    constants = [node for node in nodes_of(model.graph) if node.op_type == "Constant" and node.domain == ""]
    if not all(map(_holds_a_tensor, constants)):
        return passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).modified
    lifted = [node for node in constants if not node.outputs[0].is_graph_output()]
    for node in lifted:
        _lift(node)
    return bool(lifted)


def _holds_a_tensor(node: ir.Node) -> bool:
    value = node.attributes.data.get("value")
    return len(node.attributes) == 1 and value is not None and value.type == ir.AttributeType.TENSOR


def _lift(node: ir.Node) -> None:
    output, tensor, graph = node.outputs[0], node.attributes["value"].value, graph_of(node.outputs[0])
    value = ir.Value(
        name=output.name,
        shape=tensor.shape,
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
        metadata_props=output.metadata_props.copy(),
    )
    value.meta.update(output.meta)
    graph.register_initializer(value)
    output.replace_all_uses_with(value)
    graph.remove(node, safe=True)
