"""The graphs inside a model: its own and the bodies of If, Loop and Scan, by path."""

from __future__ import annotations

from collections.abc import Iterator

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of

__all__ = ["graphs_by_path", "values_by_path"]


def graphs_by_path(graph: ir.Graph, path: str = "") -> Iterator[tuple[str, ir.Graph]]:
    """Yields `graph` and every body in it, each behind the graph that holds it.

    The path of a body is that of the graph around it, the name of its node and of the attribute, each with a colon
    behind it: ``"choose:then_branch:"``. That of a model's own graph is empty.
    """
    yield path, graph
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from graphs_by_path(attribute.as_graph(), f"{path}{name_of(node)}:{attribute.name}:")


def values_by_path(model: ir.Model) -> dict[str, tuple[ir.Value, ir.Graph]]:
    """Returns graph inputs and outputs of nodes, with the graph each belongs to, by path and name, in order.

    The same name may stand in two bodies; the path tells them apart. Values of the model's own graph have no path.
    """
    return {
        path + name_of(value): (value, graph)
        for path, graph in graphs_by_path(model.graph)
        for value in (*graph.inputs, *(output for node in graph for output in node.outputs))
        if value.name
    }
