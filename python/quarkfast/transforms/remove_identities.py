"""Identity nodes are taken out wherever what reads them can read what they read."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["bypass", "remove_identities"]


def remove_identities(model: ir.Model) -> bool:
    """Removes Identity nodes, in place; returns whether there was one to remove.

    1. What reads ``y = Identity(x)`` reads ``x``; where ``x`` has no type or shape, it gets those of ``y``.
    2. If ``y`` is an output of a graph, ``x`` takes its place, name and type, provided that a node of the same graph
       computes ``x`` and that it is no output yet. Elsewhere the node stays: in bodies of If, Loop and Scan an output
       must be computed there, and no two outputs may be one value (ONNX Runtime hands out uninitialized memory).

    Idempotent; graph inputs and outputs keep names and types; error 0.
    """
    removed = False
    for node in nodes_of(model.graph):
        if node.op_type == "Identity" and is_standard(node):
            removed |= bypass(node)
    return removed


def bypass(node: ir.Node) -> bool:
    """Removes a node that gives its first input as it is, by the rules of `remove_identities`; tells whether it did."""
    source, result, graph = node.inputs[0], node.outputs[0], node.graph
    if source is None or graph is None:
        return False
    if result.is_graph_output():
        producer = source.producer()
        if producer is None or producer.graph is not graph or source.is_graph_output():
            return False
        source.type, source.shape = result.type or source.type, result.shape or source.shape
    elif source.type is None:
        source.type = result.type
    if source.shape is None:
        source.shape = result.shape
    handed_out, name = result.is_graph_output(), result.name
    ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    if handed_out:
        source.name = name
    return True
