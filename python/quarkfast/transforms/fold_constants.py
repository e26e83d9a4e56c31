"""Constant folding: arithmetic on shapes in NumPy, other subgraphs without inputs by the optimizer of onnxscript."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir, passes
from quarkfast.graph.access import array_of, is_standard, shape_of, tensor_of
from quarkfast.graph.builder import add_initializer
from quarkfast.graph.operators import FOLDED_ARITHMETIC, PACKERS, RECURRENT_WEIGHTS, REDUCTIONS, is_recurrent
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.transforms.clean import lift_constants, remove_identities
from quarkfast.transforms.optimizer import may_simplify, optimize, type_casts

__all__ = ["fold_constants", "fold_shapes"]

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


_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


# A weight may be computed: by weight normalization, or as the windowed sines of a resampler. Results of arithmetic are
# folded where they have no more numbers than the largest operand, and that up to this many.
_COMPUTED = 64 << 20


# To load the optimizer takes 0.15 s and 25 MB, a third of preparing a model with 860 nodes, so it is loaded by models
# that have something to fold.
def _should_fold(node: ir.Node) -> bool | None:
    if node.op_type in PACKERS and _makes_recurrent_weights(node):
        return True
    if node.op_type in FOLDED_ARITHMETIC | REDUCTIONS and _adds_none(node):
        return True
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return None
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return True if shape is not None and math.prod(shape.numpy().tolist()) <= _SMALL else None


def _adds_none(node: ir.Node) -> bool:
    """Whether the result of arithmetic is no larger than the largest constant, which nothing but arithmetic reads."""
    constants = [value for value in node.inputs if value is not None]
    if any(value.const_value is None for value in constants):
        return False
    shapes = [shape_of(tensor_of(value)) for value in constants]
    if node.op_type in REDUCTIONS:
        shapes = shapes[:1]  # axes are no numbers to compute with
    largest = max(map(math.prod, shapes))
    try:
        size = 1 if node.op_type in REDUCTIONS else math.prod(np.broadcast_shapes(*shapes))
    except ValueError:  # of a model that does not run
        return False
    readers = [
        reader
        for value, shape in zip(constants, shapes, strict=False)
        if math.prod(shape) == largest
        for reader, _ in value.uses()
    ]
    small = size <= largest <= _COMPUTED
    return small and all(reader.op_type in FOLDED_ARITHMETIC | REDUCTIONS for reader in readers)


def _makes_recurrent_weights(node: ir.Node) -> bool:
    """Whether moves alone lead from a node, and from the constants that it moves, to weights of recurrent layers."""
    moved = [value for value in node.inputs if value is not None and value.dtype in _FLOATS]
    return all(map(_becomes_recurrent_weights, (*node.outputs, *moved)))


def _becomes_recurrent_weights(value: ir.Value) -> bool:
    waiting, seen = [value], {value}
    while waiting:
        moved = waiting.pop()
        if not moved.uses() or moved.is_graph_output():
            return False
        readers = [each for each, index in moved.uses() if not (is_recurrent(each) and index in RECURRENT_WEIGHTS)]
        if any(reader.op_type not in PACKERS for reader in readers):
            return False
        further = [each for reader in readers for each in reader.outputs if each not in seen]
        seen.update(further)
        waiting += further
    return True


def fold_constants(model: ir.Model) -> bool:
    """Replaces nodes with constant inputs by their results, in place; returns whether nodes are others than before.

    Moves of constants that become weights of recurrent layers and nothing else are folded at any size, and arithmetic
    among constants that nothing else reads where its results are no larger.
    QuantizeLinear and DequantizeLinear of a model that is quantized already are not folded; neither is what
    `quarkfast.transforms.optimizer` keeps from the optimizer.
    Idempotent; graph inputs and outputs are kept; error 0 (onnx's reference kernels compute in the same type).
    """
    before = list(model.graph)
    fold_shapes(model)
    type_casts(model)
    lift_constants(model)  # onnx's converter of operator sets writes axes as Constant nodes
    if model.functions or any(map(may_simplify, nodes_of(model.graph))):
        optimize(model, _should_fold)
        lift_constants(model)
    remove_identities(model)
    passes.RemoveUnusedNodesPass()(model)
    passes.NameFixPass()(model)
    return list(model.graph) != before
