"""Arithmetic on shapes, with which exporters spell paddings and reshapes, is done once, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_standard
from quarkfast.graph.builder import add_initializer

__all__ = ["fold_shapes"]

_Integers = NDArray[np.int64]
_Kernel = Callable[[list[NDArray[Any]], Mapping[str, Any]], NDArray[Any] | None]

# Shapes, paddings and indices are shorter.
_SMALL = 1024

# Arithmetic is that of int64; PaddlePaddle's sizes are int32, each behind a Cast, and its biases are shaped by a node.
_INT64 = frozenset({ir.DataType.INT64})
_CAST = _INT64 | {ir.DataType.INT32}
_SHAPED = _CAST | {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BOOL}

# Operator -> the types that its first input may have, where they are more than int64.
_TYPES = {"Cast": _CAST, "Reshape": _SHAPED, "Unsqueeze": _SHAPED}


def fold_shapes(model: ir.Model) -> None:
    """Replaces nodes by what they compute from int64 constants of at most 1024 elements, in place.

    1. They are the operators of `_KERNELS`, and Shape of a tensor whose shape is known. A Cast may read int32, and what
       gets another shape alone may have any type of NumPy's.
    2. What is a graph output, has more elements, or is not valid stays.

    Idempotent; graph inputs and outputs are kept; error 0.
    """
    for node in model.graph:
        if is_standard(node) and len(node.outputs) == 1 and not node.outputs[0].is_graph_output():
            result = _result(node)
            if result is not None and result.size <= _SMALL:
                _replace(model.graph, node, result)


def _result(node: ir.Node) -> NDArray[Any] | None:
    if node.op_type == "Shape":
        return _shape(node)
    kernel = _KERNELS.get(node.op_type)
    if kernel is None or not all(
        _is_small(value, _INT64 if place else _TYPES.get(node.op_type, _INT64))
        for place, value in enumerate(node.inputs)
    ):
        return None
    attributes = {name: each.value for name, each in node.attributes.items()}
    try:
        result = kernel([array_of(value) for value in node.inputs], attributes)
    except (LookupError, ValueError):
        return None  # the node is not valid, and ONNX Runtime reports that best
    return None if result is None else np.asarray(result)


def _is_small(value: ir.Value | None, types: frozenset[ir.DataType]) -> bool:
    if value is None or value.is_graph_input() or value.const_value is None:
        return False
    return value.const_value.dtype in types and value.const_value.size <= _SMALL


def _replace(graph: ir.Graph, node: ir.Node, result: NDArray[Any]) -> None:
    output = node.outputs[0]
    value = add_initializer(graph, ir.Tensor(result, name=output.name))
    ir.convenience.replace_all_uses_with(output, value)
    graph.remove(node, safe=True)


def _shape(node: ir.Node) -> _Integers | None:
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    sizes = value.shape[node.attributes.get_int("start", 0) : node.attributes.get_int("end", None)]
    return np.array(sizes, np.int64) if all(isinstance(size, int) for size in sizes) else None


def _constant_of_shape(shape: _Integers, attributes: Mapping[str, Any]) -> _Integers | None:
    value = attributes.get("value")
    if value is None or value.dtype != ir.DataType.INT64 or math.prod(shape.tolist()) > _SMALL:
        return None
    return np.full(shape, value.numpy().reshape(()))


def _reshape(data: NDArray[Any], shape: _Integers, attributes: Mapping[str, Any]) -> NDArray[Any]:
    sizes = enumerate(shape.tolist())
    return data.reshape([size or (0 if attributes.get("allowzero") else data.shape[axis]) for axis, size in sizes])


def _slice(data: _Integers, starts: _Integers, ends: _Integers, axes: _Integers, steps: _Integers) -> _Integers:
    parts = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        parts[axis] = slice(start, end, step)
    return data[tuple(parts)]


# Forms of old operator sets, with attributes where there are inputs now, give None.
_KERNELS: dict[str, _Kernel] = {
    "Add": lambda x, _: x[0] + x[1],
    "Cast": lambda x, a: x[0].astype(np.int64) if a["to"] == ir.DataType.INT64 else None,
    "Concat": lambda x, a: np.concatenate(x, a["axis"]),
    "ConstantOfShape": lambda x, a: _constant_of_shape(x[0], a),
    "Gather": lambda x, a: np.take(x[0], x[1], a.get("axis", 0)),
    "Mul": lambda x, _: x[0] * x[1],
    "Reshape": lambda x, a: _reshape(x[0], x[1], a) if len(x) == 2 else None,
    "Slice": lambda x, _: _slice(*x) if len(x) == 5 else None,
    "Sub": lambda x, _: x[0] - x[1],
    "Transpose": lambda x, a: np.transpose(x[0], a.get("perm")),
    "Unsqueeze": lambda x, _: np.expand_dims(x[0], tuple(x[1])) if len(x) == 2 else None,
}
