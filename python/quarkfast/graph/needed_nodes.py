"""The nodes of a protobuf that some of its tensors take."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx

__all__ = ["end_at", "names_read", "needed_nodes"]


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
