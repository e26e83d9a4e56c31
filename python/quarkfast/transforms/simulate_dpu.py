"""Operators as the accelerator of Ryzen AI's CNNs, the DPU, computes them (specification of Quark, 11.2)."""

from __future__ import annotations

import math

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.rewriting import splice

__all__ = [
    "SIGMOID_ERROR",
    "average_factor",
    "clip_to_relu",
    "extended_instance_norm",
    "hard_sigmoid_for_sigmoid",
    "round_clip_bounds",
    "round_leaky_slope",
    "scale_average_pool",
    "scale_hard_sigmoid",
    "scale_reduce_mean",
]

# (2731 / 2^14) / (1 / 6): the slope in 14 bits against the slope.
_SLOPE_FACTOR = (2731 / 16384) * 6
_SLOPE = 1 / 6
_SAME_SLOPE = 1e-6

SIGMOID_ERROR = 1 / (2 * math.sqrt(3)) - math.log(2 + math.sqrt(3)) / 6
"""How far apart Sigmoid and HardSigmoid with a slope of 1/6 can be: at ln(2 + sqrt(3)), where both have that slope."""

# Side of a square window -> the multiplier and the shift that stand for dividing by its area.
_WINDOWS = {3: (7, 6), 5: (10, 8), 6: (7, 8), 7: (21, 10), 14: (21, 12)}
_LARGEST_SIDE = 255

_INT8 = (-128, 127)


def average_factor(count: int, side: int | None = None) -> float:
    """Returns what an average over `count` values becomes a multiple of, as the DPU divides by a product and a shift.

    The multiplier k and the shift n are those with ``k / 2^n`` nearest to ``1 / count``, n below ``7 + log2(count)``,
    the least n of several; square windows of 3, 5, 6, 7 and 14 have their own. Windows with a side above 255 are
    divided exactly.

    Args:
        count: Values in the window.
        side: Side of the window, where it is a square of a pool.

    Example:
        >>> average_factor(49, 7), average_factor(64, 8)
        (1.0048828125, 1.0)
    """
    if side is not None and side > _LARGEST_SIDE:
        return 1.0
    if side in _WINDOWS:
        multiplier, shift = _WINDOWS[side]
        return float(count * multiplier / 2**shift)
    shifts = range(7 + math.ceil(math.log2(count)))
    best = min(shifts, key=lambda shift: abs(round(2**shift / count) / 2**shift - 1 / count))
    return float(round(2**best / count) / 2**best * count)


def round_leaky_slope(builder: GraphBuilder, node: ir.Node) -> bool:
    """LeakyRelu: the slope in 8 bits behind the point."""
    slope = node.attributes.get_float("alpha", 0.01)
    rounded = round(slope * 256) / 256
    node.attributes["alpha"] = ir.AttrFloat32("alpha", rounded)
    return rounded != slope


def hard_sigmoid_for_sigmoid(builder: GraphBuilder, node: ir.Node) -> bool:
    """Sigmoid: HardSigmoid with a slope of 1/6, which differs by 0.0692 at most (`SIGMOID_ERROR`)."""
    node.op_type = "HardSigmoid"
    node.attributes["alpha"] = ir.AttrFloat32("alpha", _SLOPE)
    return True


def scale_hard_sigmoid(builder: GraphBuilder, node: ir.Node) -> bool:
    """HardSigmoid with a slope of 1/6: the slope is 2731 / 2^14."""
    slope, offset = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
    return abs(slope - _SLOPE) <= _SAME_SLOPE and offset == 0.5 and _multiply(builder, node, _SLOPE_FACTOR)


def scale_average_pool(builder: GraphBuilder, node: ir.Node) -> bool:
    """AveragePool and GlobalAveragePool over squares: the division is a product and a shift."""
    sizes = list(node.attributes.get_ints("kernel_shape", ()))
    if node.op_type == "GlobalAveragePool":
        shape = None if node.inputs[0] is None else node.inputs[0].shape
        sizes = [size for size in (shape or ())[2:] if isinstance(size, int)]
    if len(sizes) != 2 or sizes[0] != sizes[1] or sizes[0] < 1:
        return False
    return _multiply(builder, node, average_factor(sizes[0] ** 2, sizes[0]))


def scale_reduce_mean(builder: GraphBuilder, node: ir.Node) -> bool:
    """ReduceMean: the division is a product and a shift."""
    data, axes = node.inputs[0], [*node.attributes.get_ints("axes", ())]
    if len(node.inputs) > 1 and is_constant(node.inputs[1]):
        axes = array_of(node.inputs[1]).tolist()
    if data is None or data.shape is None or not axes:
        return False
    sizes = [data.shape[axis] for axis in axes]
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    return len(known) == len(sizes) and _multiply(builder, node, average_factor(math.prod(known)))


def round_clip_bounds(builder: GraphBuilder, node: ir.Node) -> bool:
    """Clip: bounds are whole numbers of 8 bits."""
    for name, missing in zip(("min", "max"), _INT8, strict=True):
        if len(node.inputs) == 1 and name in node.attributes:
            bound = _nearest_int8(node.attributes.get_float(name))
            node.attributes[name] = ir.AttrFloat32(name, bound)
            continue
        index = 1 if name == "min" else 2
        given = node.inputs[index] if index < len(node.inputs) else None
        if given is not None and not is_constant(given):
            continue
        bound = float(missing) if given is None else _nearest_int8(float(array_of(given).item()))
        node.resize_inputs(max(index + 1, len(node.inputs)))
        node.replace_input_with(
            index, builder.initializer(f"{name_of(node)}_dpu_{name}", np.asarray(bound, np.float32))
        )
    return True


def clip_to_relu(builder: GraphBuilder, node: ir.Node) -> bool:
    """Clip that begins at zero: Relu, where the largest code is the upper bound."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None:
        begins_at_zero = node.attributes.get_float("min", -1.0) == 0
    else:
        begins_at_zero = is_constant(given) and not array_of(given).any()
    if begins_at_zero:
        node.op_type = "Relu"
        node.resize_inputs(1)
        node.attributes.clear()
    return begins_at_zero


def extended_instance_norm(builder: GraphBuilder, node: ir.Node) -> bool:
    """InstanceNormalization: Quark's operator, which computes in bfloat16 as the DPU does."""
    node.op_type, node.domain = "ExtendedInstanceNormalization", "com.amd.quark"
    return True


def _multiply(builder: GraphBuilder, node: ir.Node, factor: float) -> bool:
    """Puts a Mul behind `node`, in front of whatever reads it; returns whether `factor` is not 1."""
    if factor == 1:
        return False
    value, graph = node.outputs[0], node.graph
    assert isinstance(graph, ir.Graph)
    name = name_of(value)
    inner = builder.fresh(f"{name}_Mul")
    product = ir.node("Mul", [value, builder.initializer(f"{name}_Scale", np.asarray(factor, np.float32))], name=inner)
    result = product.outputs[0]
    result.type, result.shape = value.type, value.shape
    result.name = builder.fresh(f"{name}_result")
    splice(graph, value, (product,), result, inner)
    value.name, result.name = inner, name
    return True


def _nearest_int8(value: float) -> float:
    return float(max(_INT8[0], min(_INT8[1], round(value))))
