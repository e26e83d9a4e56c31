"""Parts of a model: its own graph, the bodies of If, Loop and Scan, and the nodes of a protobuf that tensors take."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of

__all__ = [
    "bodies_of",
    "end_at",
    "graphs_by_path",
    "graphs_of",
    "names_read",
    "needed_nodes",
    "nodes_of",
    "values_by_path",
]

# Not a set: to hash an enumeration is a call of Python, and each attribute of each node is looked at.
_BODIES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def bodies_of(node: ir.Node) -> tuple[ir.Graph, ...]:
    """Returns the bodies of an If, Loop or Scan, in the order of its attributes; none of any other node."""
    found = [each for each in node.attributes.data.values() if each.type in _BODIES]
    if not found:
        return ()
    single = (((each.value,) if each.type == ir.AttributeType.GRAPH else each.value) for each in found)
    return tuple(graph for graphs in single for graph in graphs)


def graphs_of(model: ir.Model) -> list[ir.Graph]:
    """Returns the graph of `model` and every body in it, each behind the graph around it.

    onnx-ir's ``model.graphs()`` yields the same and takes 2.5 times as long: 0.8 ms of a model with 860 nodes, which is
    looked through some thirty times.
    """
    found, waiting = [], [model.graph]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed([body for node in found[-1] for body in bodies_of(node)])
    return found


def nodes_of(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yields the nodes of `graph`, and those of bodies behind the node that holds them; it may change meanwhile."""
    for node in graph:
        yield node
        for body in bodies_of(node):
            yield from nodes_of(body)


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


def needed_nodes(
    graph: onnx.GraphProto, wanted: Collection[str], given: Collection[str] = ()
) -> tuple[list[onnx.NodeProto], set[str]]:
    """Returns the nodes that `wanted` takes if `given` is known, in order, and the names that are read.

    Example:
        >>> graph = onnx.parser.parse_graph("g (float[2] x) => (float[2] z) { y = Neg (x) z = Abs (y) }")
        >>> nodes, read = needed_nodes(graph, ["y"])
        >>> [node.op_type for node in nodes], sorted(read)
        (['Neg'], ['x', 'y'])
    """
    known = set(given)
    nodes, read = [], set(wanted) - known
    for node in reversed(graph.node):
        if read.intersection(node.output) - known:
            nodes.append(node)
            read.update(names_read(node))
    return nodes[::-1], read


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names that a node reads, those in its bodies too."""
    yield from node.input
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                yield from names_read(inner)
            yield from (output.name for output in body.output)


def end_at(model: onnx.ModelProto, tensors: Collection[str]) -> None:
    """Makes tensors the outputs of a model, in place, and drops what they do not take, shapes that are known included.

    Where one of them is an input, or lies in a body, the model stays as it is.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[2] x) => (float[2] z) { y = Neg (x) z = Abs (y) }''')
        >>> end_at(model, ["y"])
        >>> [node.op_type for node in model.graph.node], [output.name for output in model.graph.output]
        (['Neg'], ['y'])
    """
    graph = model.graph
    if not {name for node in graph.node for name in node.output}.issuperset(tensors):
        return
    nodes, read = needed_nodes(graph, tensors)
    constants = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:], graph.initializer[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
