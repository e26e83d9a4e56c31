"""A mean over all places of an image becomes a GlobalAveragePool, which NPUs have."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.builder import drop_unread

__all__ = ["convert_reduce_mean"]


def convert_reduce_mean(model: ir.Model) -> bool:
    """Turns ReduceMean into GlobalAveragePool, in place; returns whether there was one to turn.

    1. Its input has four dimensions, it takes the mean over the last two, and keeps them (``keepdims``); its axes are
       an attribute or a constant.
    2. The pool has its name and output.

    Idempotent; graph inputs and outputs are kept; error: that of a sum in another order.
    """
    converted = False
    for node in model.graph:
        if is_standard(node) and node.op_type == "ReduceMean" and _is_plane(node):
            node.op_type = "GlobalAveragePool"
            node.resize_inputs(1)
            node.attributes.clear()
            converted = True
    drop_unread(model.graph)
    return converted


def _is_plane(node: ir.Node) -> bool:
    data = node.inputs[0]
    if data is None or data.shape is None or len(data.shape) != 4 or not node.attributes.get_int("keepdims", 1):
        return False
    axes = [*node.attributes.get_ints("axes", ())]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        if not is_constant(node.inputs[1]) or node.inputs[1].is_graph_input():
            return False
        axes = array_of(node.inputs[1]).tolist()
    return sorted(axis % 4 for axis in axes) == [2, 3]
