"""Operators as a device has them: BatchNormalization, ReduceMean, Split and large pools, attributes of convolutions."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of, shape_of, tensor_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.notes import inherit_names
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import nodes_of

__all__ = [
    "LARGEST_WINDOW",
    "convert_batch_norm",
    "convert_reduce_mean",
    "convert_split",
    "split_large_pools",
    "write_conv_attributes",
]

# ONNX's default of the attribute.
_EPSILON = 1e-5


def convert_batch_norm(model: ir.Model) -> bool:
    """Turns BatchNormalization into Conv, in place; returns whether there was one to turn.

    1. ``W = gamma / sqrt(var + epsilon)`` as [C, 1, 1, ...] with C groups, ``b = beta - mean * W``, both computed in
       float64 (specification of Quark, "BN -> Conv", with ONNX's own default of epsilon).
    2. Its input has 3 dimensions or more, its parameters are constants of the input's type, and it takes mean and
       variance from them (no ``training_mode``).
    3. The Conv has its name and output.

    Idempotent; graph inputs and outputs are kept; error: one rounding of W and b each, and of the product's sum.
    """
    builder, converted = GraphBuilder(model), False
    for node in tuple(model.graph):
        if is_standard(node) and node.op_type == "BatchNormalization" and _may_convert(node):
            _convert(builder, node)
            converted = True
    drop_unread(model.graph)
    return converted


def _may_convert(node: ir.Node) -> bool:
    data, parameters = node.inputs[0], node.inputs[1:5]
    if data is None or data.shape is None or len(data.shape) < 3 or len(node.outputs) > 1:
        return False
    if node.attributes.get_int("training_mode", 0) or not node.attributes.get_int("spatial", 1):
        return False
    constants = [each for each in parameters if each is not None and is_constant(each) and not each.is_graph_input()]
    return len(constants) == 4 and all(each.dtype == data.dtype for each in constants)


def _convert(builder: GraphBuilder, node: ir.Node) -> None:
    assert node.inputs[0] is not None
    assert node.inputs[0].shape is not None
    given = array_of(node.inputs[1])
    gamma, beta, mean, variance = (array_of(each).astype(np.float64) for each in node.inputs[1:5])
    factor = gamma / np.sqrt(variance + node.attributes.get_float("epsilon", _EPSILON))
    ones, name = [1] * (len(node.inputs[0].shape) - 2), name_of(node.outputs[0])
    weight = factor.reshape(-1, 1, *ones).astype(given.dtype)
    bias = (beta - mean * factor).astype(given.dtype)
    node.op_type = "Conv"
    node.resize_inputs(3)
    node.replace_input_with(1, builder.initializer(f"{name}weights", weight))
    node.replace_input_with(2, builder.initializer(f"{name}bias", bias))
    node.attributes.clear()
    node.attributes["group"] = ir.AttrInt64("group", len(gamma))
    node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", ones)


def convert_reduce_mean(model: ir.Model) -> bool:
    """Turns ReduceMean into GlobalAveragePool, in place; returns whether there was one to turn.

    1. Its input has four dimensions, it takes the mean over the last two, and keeps them (``keepdims``); its axes are
       an attribute or a constant.
    2. The pool has its name and output.

    Idempotent; graph inputs and outputs are kept; error: that of a sum in another order.
    """
    converted = False
    for node in model.graph:
        if is_standard(node) and node.op_type == "ReduceMean" and _is_plane(node):
            node.op_type = "GlobalAveragePool"
            node.resize_inputs(1)
            node.attributes.clear()
            converted = True
    drop_unread(model.graph)
    return converted


def _is_plane(node: ir.Node) -> bool:
    data = node.inputs[0]
    if data is None or data.shape is None or len(data.shape) != 4 or not node.attributes.get_int("keepdims", 1):
        return False
    axes = [*node.attributes.get_ints("axes", ())]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        if not is_constant(node.inputs[1]) or node.inputs[1].is_graph_input():
            return False
        axes = array_of(node.inputs[1]).tolist()
    return sorted(axis % 4 for axis in axes) == [2, 3]


# Slice takes its bounds as inputs from this operator set on.
_BOUNDS_AS_INPUTS = 10


def convert_split(model: ir.Model) -> bool:
    """Turns Split into one Slice for each output, in place; returns whether there was one to turn.

    1. The sizes of its parts are constants, or follow from a known dimension: equal, the last one smaller where it does
       not come out even.
    2. The bounds are called after the output: ``<output>_starts_0``, ``_ends_0``, ``_axes_0``, ``_steps_0``, with the
       number of the part.

    Needs operator set 10. Idempotent; graph inputs and outputs are kept; error 0.
    """
    if opset_version(model) < _BOUNDS_AS_INPUTS:
        return False
    builder, converted = GraphBuilder(model), False
    for node in tuple(model.graph):
        if is_standard(node) and node.op_type == "Split" and (sizes := _sizes(node)):
            _slice(builder, node, sizes)
            converted = True
    drop_unread(model.graph)
    return converted


def _sizes(node: ir.Node) -> list[int]:
    """Returns the sizes of the parts of `node`; empty if they are not known."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None:
        known = is_constant(given) and not given.is_graph_input()
        return [int(size) for size in array_of(given)] if known else []
    if "split" in node.attributes:
        return list(node.attributes.get_ints("split", ()))
    shape, axis = node.inputs[0].shape if node.inputs[0] is not None else None, node.attributes.get_int("axis", 0)
    size = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
    count = len(node.outputs)
    if not isinstance(size, int):
        return []
    part = -(-size // count)
    return [min(part, size - start) for start in range(0, part * count, part)] if part * (count - 1) < size else []


def _slice(builder: GraphBuilder, node: ir.Node, sizes: list[int]) -> None:
    graph, axis = node.graph, node.attributes.get_int("axis", 0)
    assert graph is not None
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    for index, (output, (start, end)) in enumerate(zip(tuple(node.outputs), bounds, strict=True)):
        name = name_of(output)
        numbers = {"starts": start, "ends": end, "axes": axis, "steps": 1}
        inputs = [
            builder.initializer(f"{name}_{key}_{index}", np.array([number], np.int64))
            for key, number in numbers.items()
        ]
        part = ir.node("Slice", [node.inputs[0], *inputs], name=builder.fresh(f"{name_of(node)}_{index}"))
        inherit_names(part, node)
        graph.insert_before(node, part)
        result = part.outputs[0]
        result.type, result.shape = output.type, output.shape
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        output.name = builder.fresh(f"{name}_replaced")
        result.name = name
    graph.remove(node, safe=True)


LARGEST_WINDOW = 512
"""Places that the accelerator averages at once (specification of Quark, ``SplitLargeKernelPool``)."""


def split_large_pools(model: ir.Model) -> bool:
    """Puts an AveragePool in front of each GlobalAveragePool over more than 512 places; returns whether there was one.

    1. Its input has four dimensions, the last two of which are known. Each is cut into as many windows as the larger of
       the two factors nearest to its square root, so that all windows have one size and the mean of their means is the
       mean of all.
    2. Where a window or their number is more than 512 still, the pool stays as it is.
    3. The new tensor and node are called after the input, with ``_Split`` behind it.

    Idempotent; graph inputs and outputs are kept; error: that of a sum in another order.
    """
    builder, split = GraphBuilder(model), False
    for node in tuple(model.graph):
        if is_standard(node) and node.op_type == "GlobalAveragePool" and (window := _window(node.inputs[0])):
            _put_pool_before(builder, node, window)
            split = True
    return split


def _window(data: ir.Value | None) -> list[int]:
    """Returns the size of the windows to cut the last two dimensions into; empty where nothing is to be cut."""
    if data is None or data.shape is None or len(data.shape) != 4:
        return []
    sizes = [size for size in data.shape[2:] if isinstance(size, int) and size > 0]
    if len(sizes) < 2 or math.prod(sizes) <= LARGEST_WINDOW:
        return []
    window = [_factor(size) for size in sizes]
    count = math.prod(sizes) // math.prod(window)
    return window if max(math.prod(window), count) <= LARGEST_WINDOW else []


def _factor(size: int) -> int:
    """Returns the largest factor of `size` that is no larger than its square root."""
    return next(factor for factor in range(math.isqrt(size), 0, -1) if size % factor == 0)


def _put_pool_before(builder: GraphBuilder, node: ir.Node, window: list[int]) -> None:
    data = node.inputs[0]
    assert data is not None
    assert data.shape is not None
    assert node.graph is not None
    name = builder.fresh(f"{name_of(data)}_Split")
    pool = ir.node("AveragePool", [data], {"kernel_shape": window, "strides": window}, name=name)
    sizes = [size // step for size, step in zip(data.shape[2:], window, strict=True) if isinstance(size, int)]
    result = pool.outputs[0]
    result.name, result.type, result.shape = name, data.type, ir.Shape([*data.shape[:2], *sizes])
    node.graph.insert_before(node, pool)
    node.replace_input_with(0, result)


def write_conv_attributes(model: ir.Model) -> None:
    """Writes into every Conv the attributes that it leaves to their defaults, in place.

    1. ``kernel_shape``, ``strides``, ``dilations``, ``group`` and ``pads`` are written where they are missing, the
       first from a constant weight.
    2. ``auto_pad`` becomes the ``pads`` that it means, where the input's size is known.

    The compiler of Ryzen AI 1.8 ends the process at a Conv without them ("XIR conv2d stride REQUIRED",
    onnxsim/onnxsim#1404). Idempotent. Error: none.
    """
    for node in nodes_of(model.graph):
        if is_standard(node) and node.op_type == "Conv" and is_constant(node.inputs[1]):
            _write_attributes(node, list(shape_of(tensor_of(node.inputs[1]))[2:]))


def _write_attributes(node: ir.Node, kernel: list[int]) -> None:
    ones = [1] * len(kernel)
    if "group" not in node.attributes:
        node.attributes["group"] = ir.AttrInt64("group", 1)
    for name, value in (("kernel_shape", kernel), ("strides", ones), ("dilations", ones)):
        if name not in node.attributes:
            node.attributes[name] = ir.AttrInt64s(name, value)
    pads = _pads(node, kernel)
    if pads is not None:
        node.attributes.pop("auto_pad", None)
        node.attributes["pads"] = ir.AttrInt64s("pads", pads)


def _pads(node: ir.Node, kernel: list[int]) -> list[int] | None:
    """Returns the pads that `node` works with; None if they depend on a size that is not known."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        zeros = [0] * (2 * len(kernel))
        return zeros if mode == "VALID" else list(node.attributes.get_ints("pads", zeros))
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    sizes = [size for size in (shape or ())[2:] if isinstance(size, int)]
    if len(sizes) != len(kernel):
        return None
    begin, end = [], []
    steps = zip(node.attributes.get_ints("strides"), node.attributes.get_ints("dilations"), strict=True)
    for size, length, (stride, dilation) in zip(sizes, kernel, steps, strict=True):
        total = max((-(-size // stride) - 1) * stride + (length - 1) * dilation + 1 - size, 0)
        first = total // 2 if mode == "SAME_UPPER" else total - total // 2
        begin.append(first)
        end.append(total - first)
    return begin + end
