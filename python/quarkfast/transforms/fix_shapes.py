"""Inputs and outputs of a model: fixed shapes, constants in place of inputs, channels last (NHWC)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, ModelError, did_you_mean
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.rewriting import splice
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.infer_types import infer_types, open_outputs

__all__ = ["fix_inputs", "fix_shapes", "move_channels_last"]

# What files call a dimension of which nothing is known, each time anew: PaddlePaddle's exporter, for one.
_UNKNOWN = "?"
# More elements than this in one tensor are taken for a mistake: 64 GiB of float32.
_LARGEST = 1 << 34


def fix_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Gives inputs and outputs of `model` the shapes that are named, in place; returns whether one was open.

    1. A symbolic dimension that becomes a number becomes that everywhere, but for ``?``, which is no name.
    2. What depends on shapes alone is computed, and shapes of all other tensors are inferred anew.

    Idempotent; names, types and values are kept; error 0.

    Raises:
        ConfigError: If a name is neither an input nor an output, or a shape is none.
        ModelError: If a shape contradicts what the model says.
    """
    open_outputs(model)
    ends = {name_of(value): value for value in (*model.graph.inputs, *model.graph.outputs)}
    symbols: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in ends:
            raise ConfigError(f"shapes: expected {', '.join(ends)}, got {name!r}{did_you_mean(name, ends)}")
        _check(name, shape)
        for symbol, size in _open(name, ends[name], shape):
            if symbols.setdefault(symbol, size) != size:
                raise ModelError(f"shapes: expected one size for {symbol!r}, got {symbols[symbol]} and {size}")
    before = [str(value.shape) for value in ends.values()]
    given = {name: value for name, value in ends.items() if name in shapes}
    _fix_symbols(model, symbols)
    for name, value in given.items():
        value.shape = ir.Shape(shapes[name]) if value.is_graph_input() else None
    _infer_open_shapes(model)
    for name, value in given.items():
        found = list(shapes[name]) if value.shape is None or not value.shape.is_static() else list(value.shape)
        if found != list(shapes[name]):
            raise ModelError(
                f"shapes: expected {name!r} to be {found}, as the inputs give it, got {list(shapes[name])}"
            )
        value.shape = ir.Shape(found)
    return before != [str(value.shape) for value in ends.values()]


def _check(name: str, shape: Sequence[int]) -> None:
    count = 1
    for size in shape:
        if not isinstance(size, int) or size < 1:
            raise ConfigError(f"shapes: {name}: expected whole numbers greater than 0, got {size!r}")
        count *= size
    if count > _LARGEST:
        raise ConfigError(f"shapes: {name}: expected at most {_LARGEST} elements, got {count}")


def _open(name: str, value: ir.Value, shape: Sequence[int]) -> list[tuple[str, int]]:
    """Returns the symbols that `shape` gives a number to.

    Raises:
        ModelError: If the model says something else.
    """
    if value.shape is None:
        return []
    known = list(value.shape)
    if len(known) != len(shape) or any(
        isinstance(old, int) and old != new for old, new in zip(known, shape, strict=True)
    ):
        words = ", ".join(str(size) if isinstance(size, int) else str(size.value or "?") for size in known)
        raise ModelError(f"shapes: expected {name!r} to be [{words}], got {list(shape)}")
    pairs = zip(known, shape, strict=True)
    symbols = [(str(old.value), new) for old, new in pairs if isinstance(old, ir.SymbolicDim) and old.value is not None]
    return [pair for pair in symbols if pair[0] != _UNKNOWN]


def _fix_symbols(model: ir.Model, symbols: Mapping[str, int]) -> None:
    """Gives every symbolic dimension that has a number that number."""
    for value in _values(model):
        if value.shape is not None:
            value.shape = ir.Shape(
                symbols.get(str(size.value), size) if isinstance(size, ir.SymbolicDim) else size for size in value.shape
            )


def _infer_open_shapes(model: ir.Model) -> None:
    """Infers shapes anew that a file calls open: onnx keeps to what it finds."""
    open_ones = {
        value: value.shape
        for value in _values(model)
        if value.producer() is not None and value.shape is not None and not value.shape.is_static()
    }
    for value in open_ones:
        value.shape = None
    infer_types(model)
    while fold_constants(model):  # what it computes tells onnx more, which tells it more
        infer_types(model)
    for value, shape in open_ones.items():
        if value.shape is None:
            value.shape = shape


def _values(model: ir.Model) -> list[ir.Value]:
    graphs = list(graphs_of(model))
    return [value for graph in graphs for value in (*graph.inputs, *(out for node in graph for out in node.outputs))]


# More elements than this are taken for a mistake: an input of that size is data.
_LARGEST_CONSTANT = 1 << 20


def fix_inputs(model: ir.Model, values: Mapping[str, ArrayLike]) -> None:
    """Makes constants of the inputs of `model` that are named, in place.

    What follows from constants alone is computed, and an If whose condition does becomes the branch that it takes.
    A single number fills an input of any fixed shape. Other inputs and all outputs keep their names and types; error 0.

    Raises:
        ConfigError: If a name is no input, a value does not fit, or no input would be left.
    """
    inputs = {name_of(value): value for value in model.graph.inputs}
    for name in values:
        if name not in inputs:
            raise ConfigError(f"inputs: expected {', '.join(inputs)}, got {name!r}{did_you_mean(name, inputs)}")
    if not inputs.keys() - values.keys():
        raise ConfigError("inputs: expected an input that stays one, got values for all of them")
    fixed = {name: _fitted(inputs[name], np.asarray(value)) for name, value in values.items()}
    for name, array in fixed.items():
        value = inputs[name]
        model.graph.inputs.remove(value)
        value.const_value, value.shape = ir.Tensor(array, name=name), ir.Shape(array.shape)
        model.graph.register_initializer(value)
    infer_types(model)
    while fold_constants(model):  # what it computes tells onnx more, which tells it more
        infer_types(model)
    for graph in graphs_of(model):
        drop_unread(graph)


def _fitted(value: ir.Value, given: NDArray[Any]) -> NDArray[Any]:
    """Returns what is given in the type and the shape of an input.

    Raises:
        ConfigError: If it does not fit.
    """
    name, dtype = name_of(value), None if value.dtype is None else value.dtype.numpy()
    if dtype is None or dtype == np.object_:
        raise ConfigError(f"inputs: {name}: expected an input of numbers, got one of strings or of no type")
    if not _holds(dtype, given):
        raise ConfigError(f"inputs: {name}: expected numbers that {dtype} holds, got {given.tolist()}")
    array = given.astype(dtype)
    if value.shape is None:
        return array
    known = [size for size in value.shape if isinstance(size, int)]
    if array.ndim == 0 and len(known) == len(value.shape) and math.prod(known) <= _LARGEST_CONSTANT:
        return np.full(known, array, dtype)
    wanted = list(value.shape)
    if len(wanted) != array.ndim or any(
        isinstance(size, int) and size != other for size, other in zip(wanted, array.shape, strict=True)
    ):
        words = ", ".join(str(size) if isinstance(size, int) else "?" for size in wanted)
        raise ConfigError(f"inputs: {name}: expected values of shape [{words}], got {list(array.shape)}")
    return array


def _holds(dtype: np.dtype[Any], given: NDArray[Any]) -> bool:
    """Whether a type holds numbers: integers as they are, others but for their last digits."""
    if given.dtype.kind not in "biuf":
        return False
    with np.errstate(all="ignore"):
        array = given.astype(dtype).astype(np.float64)
    exact = given.astype(np.float64)
    same = array == exact if dtype.kind in "biu" else np.isfinite(array) == np.isfinite(exact)
    return bool(same.all())


_IN, _OUT = (0, 3, 1, 2), (0, 2, 3, 1)


def move_channels_last(model: ir.Model) -> bool:
    """Puts a Transpose behind each input of four dimensions, and one in front of each such output, in place.

    1. Inputs keep their names; ``[N, C, H, W]`` becomes ``[N, H, W, C]``. The Transpose is called after the input, with
       ``_transpose`` behind it.
    2. Outputs get other names, with ``_transpose`` behind them, since they hold other values; an output that is an
       input is left alone.

    Types are known beforehand. Not idempotent: it turns whatever the layout is. Returns whether there was an end of
    four dimensions. Error 0.
    """
    builder, graph = GraphBuilder(model), model.graph
    outputs = [value for value in dict.fromkeys(graph.outputs) if _has_four(value) and not value.is_graph_input()]
    inputs = [value for value in graph.inputs if _has_four(value)]
    for value in outputs:
        node = _transpose(value, _OUT, builder)
        producer = value.producer()
        if producer is not None:
            graph.insert_after(producer, node)
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = node.outputs[0]
    for value in inputs:
        node = _transpose(value, _IN, builder)
        node.outputs[0].shape = value.shape
        value.shape = _turned(value.shape, _OUT)
        splice(graph, value, (node,), node.outputs[0], "")
    return bool(inputs or outputs)


def _has_four(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == 4 and value.const_value is None


def _transpose(value: ir.Value, order: tuple[int, ...], builder: GraphBuilder) -> ir.Node:
    name = builder.fresh(f"{name_of(value)}_transpose")
    node = ir.node("Transpose", [value], {"perm": list(order)}, name=name)
    result = node.outputs[0]
    result.name, result.type, result.shape = name, value.type, _turned(value.shape, order)
    return node


def _turned(shape: ir.Shape | None, order: tuple[int, ...]) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[axis] for axis in order])
