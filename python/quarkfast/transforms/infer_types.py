"""Infers type and shape of every tensor, as far as onnx is able to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, shape_of
from quarkfast.graph.aside import large_tensors_aside
from quarkfast.graph.contrib import type_outputs
from quarkfast.graph.map_types import holds_map
from quarkfast.graph.shape_inference import inferred
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = ["infer_types"]

# No real dimension is larger; tables of words have some 2^18 rows.
_LARGEST = 1 << 24

# No array of NumPy has more, and a file may claim any number.
_MOST_DIMENSIONS = 64


def infer_types(model: ir.Model) -> bool:
    """Fills in types and shapes in place; what cannot be inferred stays unknown.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else; of those
    of onnxruntime whose outputs have the type of their input that is filled in. A Reshape to a computed shape gets as
    many dimensions as that has numbers, which onnx leaves unknown before operator set 14.
    Idempotent; changes no node, and returns that.
    """
    propagate = not any(map(_is_absurd, nodes_of(model.graph))) and not _has_absurd_input(model)
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    while True:
        found = inferred(proto, propagate=propagate)
        if found is not None:
            _take_over(model, proto, found)
            proto = found
        if not type_outputs(model) | _rank_reshapes(model):
            return False
        _tell(model.graph, proto.graph)


def _rank_reshapes(model: ir.Model) -> bool:
    """Gives outputs of Reshape whose shape is unknown their number of dimensions; returns whether there were any."""
    found = False
    for node in model.graph:
        if node.op_type != "Reshape" or not is_standard(node) or node.outputs[0].shape is not None:
            continue
        wanted = node.inputs[1] if len(node.inputs) > 1 else None
        sizes = None if wanted is None or wanted.shape is None else tuple(wanted.shape)
        if sizes is not None and len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] <= _MOST_DIMENSIONS:
            node.outputs[0].shape = ir.Shape([None] * sizes[0])
            found = True
    return found


def _take_over(model: ir.Model, before: onnx.ModelProto, found: onnx.ModelProto) -> None:
    """Gives values what onnx has found, types as they are: onnx_ir's own pass makes tensors of sequences.

    Args:
        model: The model.
        before: What onnx was given, which the values have already.
        found: What it made of that.
    """
    for graph, given, typed in zip(graphs_of(model), _graphs(before.graph), _graphs(found.graph), strict=True):
        _take_over_graph(graph, _types(given), _types(typed))


def _types(proto: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    return {info.name: info.type for info in (*proto.value_info, *proto.input, *proto.output)}


def _take_over_graph(graph: ir.Graph, given: Mapping[str, onnx.TypeProto], known: Mapping[str, onnx.TypeProto]) -> None:
    """Gives the values of `graph` the types of `known` that are others than those of `given`."""
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and value.name not in known:
            value.shape, value.type = ir.Shape(shape_of(tensor)) or value.shape, ir.TensorType(tensor.dtype)
    outputs = (output for node in graph for output in node.outputs)
    for value in (*graph.inputs, *graph.initializers.values(), *outputs):
        found = known.get(value.name or "")
        if found is not None and found != given.get(value.name or "") and not holds_map(found):
            value.shape = ir.serde.deserialize_type_proto_for_shape(found) or value.shape
            value.type = ir.serde.deserialize_type_proto_for_type(found) or value.type


def _tell(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Writes into `proto`, which was made of `graph`, what has become known since of outputs of nodes."""
    known = {info.name: info for info in (*proto.value_info, *proto.output)}
    for output in (output for node in graph for output in node.outputs):
        info = known.get(output.name or "")
        if output.name and (output.type or output.shape is not None) and (info is None or _is_partial(info)):
            told = proto.value_info.add() if info is None else info
            told.Clear()
            ir.serde.serialize_value_into(told, output)


def _is_partial(info: onnx.ValueInfoProto) -> bool:
    kind = info.type.tensor_type
    return not kind.elem_type or not kind.HasField("shape")


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields `graph` and its bodies in the order of :func:`quarkfast.graph.subgraphs.graphs_of`."""
    yield graph
    for attribute in (each for node in graph.node for each in node.attribute):
        for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from _graphs(body)


def _is_absurd(node: ir.Node) -> bool:
    """Whether onnx, which follows values through ConstantOfShape, would write down more of them than memory holds."""
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return False
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return shape is not None and any(int(size) > _LARGEST for size in shape.numpy().reshape(-1))


def _has_absurd_input(model: ir.Model) -> bool:
    shapes = (value.shape for value in model.graph.inputs if value.shape is not None)
    return any(isinstance(size, int) and size > _LARGEST for shape in shapes for size in shape)
