"""Whether the operands of layers have the shapes that layers take, which onnx's inference does not tell of all."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from quarkfast.errors import ModelError

__all__ = ["check_layers"]

# Operator -> input -> its number of dimensions, or the least of a kernel's. That of a layer over places
# has two axes of channels, and one for each axis of places.
_KERNEL = 3
_Shape = tuple[int | None, ...]
_DIMENSIONS: Mapping[str, Mapping[int, int]] = {
    "Conv": {1: _KERNEL, 2: 1},
    "ConvTranspose": {1: _KERNEL, 2: 1},
    "ConvInteger": {1: _KERNEL},
    "QLinearConv": {3: _KERNEL, 8: 1},
    "Gemm": {1: 2},
    "BatchNormalization": {1: 1, 2: 1, 3: 1, 4: 1},
    "InstanceNormalization": {1: 1, 2: 1},
    "LSTM": {1: 3, 2: 3, 3: 2},
    "GRU": {1: 3, 2: 3, 3: 2},
    "RNN": {1: 3, 2: 3, 3: 2},
}


def check_layers(model: onnx.ModelProto, where: str) -> None:
    """Makes sure of the number of dimensions of weights, biases and statistics, and that groups divide channels.

    Bodies count too.

    Args:
        model: With the shapes that onnx has inferred.
        where: The model's name for messages.

    Raises:
        ModelError: If an operand has another number of dimensions, or channels that the groups do not divide.
    """
    _check_graph(model.graph, {}, where)


def _check_graph(graph: onnx.GraphProto, around: Mapping[str, _Shape], where: str) -> None:
    shapes = {**around, **{each.name: tuple(each.dims) for each in graph.initializer}}
    for value in (*graph.input, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            sizes = value.type.tensor_type.shape.dim
            shapes[value.name] = tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
    for node in graph.node:
        rows = _DIMENSIONS.get(node.op_type, {}) if node.domain in ("", "ai.onnx") else {}
        for index, wanted in rows.items():
            shape = shapes.get(node.input[index]) if index < len(node.input) else None
            if shape is not None:
                _check_operand(node, index, shape, wanted, where)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _check_graph(body, shapes, where)


def _check_operand(node: onnx.NodeProto, index: int, shape: _Shape, wanted: int, where: str) -> None:
    kernel = wanted == _KERNEL and node.op_type.endswith(("Conv", "ConvTranspose", "ConvInteger"))
    place = f"{where}: node {node.name or node.op_type!r}: tensor {node.input[index]!r}"
    if len(shape) < wanted or (len(shape) > wanted and not kernel):
        expected = f"at least {wanted} dimensions" if kernel else f"{wanted} dimensions"
        raise ModelError(f"{place}: expected {expected}, got shape {_shown(shape)}")
    group = next((each.i for each in node.attribute if each.name == "group"), 1)
    if kernel and (group < 1 or (shape[0] or 0) % group):
        raise ModelError(f"{place}: expected a first axis that {group} groups divide, got shape {_shown(shape)}")


def _shown(shape: _Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
