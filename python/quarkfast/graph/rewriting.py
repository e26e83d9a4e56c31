"""Rewriting: nodes inserted, replaced or kept float, whatever a target quantizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quarkfast.deferred import ir

__all__ = ["absorb", "keep_float", "splice", "why_kept_float"]


def absorb(graph: ir.Graph, node: ir.Node, layer: ir.Node) -> None:
    """Removes `node`, whose first output `layer` computes from now on, under the name and the type that it had."""
    old, new = node.outputs[0], layer.outputs[0]
    name = old.name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    new.type, new.shape = old.type, old.shape
    graph.remove(node, safe=True)
    new.name = name


def splice(
    graph: ir.Graph,
    value: ir.Value,
    nodes: Sequence[ir.Node],
    result: ir.Value,
    inner_name: str,
    readers: Iterable[tuple[ir.Node, int]] | None = None,
) -> None:
    """Puts `nodes`, which lead from `value` to `result`, between `value` and what reads it.

    A graph output keeps its name: `result` takes it over and `value` is called `inner_name` from then on. A graph input
    that is handed out unchanged as a graph output stays as it is there.

    Args:
        graph: The graph that `value` belongs to.
        value: A graph input or the output of a node.
        nodes: The new nodes, in order. They read `value` already.
        result: Output of the last of them.
        inner_name: New name of `value` if it was a graph output; if empty, it stays one.
        readers: Inputs that read `result` from then on; None means all that read `value`.
    """
    added = set(nodes)
    for node, index in tuple(value.uses()) if readers is None else readers:
        if node not in added:
            node.replace_input_with(index, result)
    producer = value.producer()
    if producer is None:
        graph.insert_before(graph[0], nodes)
        return
    graph.insert_after(producer, nodes)
    handed_out = [index for index, output in enumerate(graph.outputs) if output is value and inner_name]
    if handed_out:
        value.name, result.name = inner_name, value.name
    for index in handed_out:  # a body may hand out one value more than once
        graph.outputs[index] = result


_REASON = "quarkfast.float"


def keep_float(node: ir.Node, reason: str) -> None:
    """Has placement leave `node` float; what it reads, and what float nodes make of it, has no pair in front of it."""
    node.meta[_REASON] = reason


def why_kept_float(node: ir.Node) -> str:
    """Returns the reason, empty if there is none."""
    reason: str = node.meta.get(_REASON, "")
    return reason
