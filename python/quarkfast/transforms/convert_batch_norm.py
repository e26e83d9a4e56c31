"""A BatchNormalization that no layer takes becomes a depthwise Conv, which NPUs have."""

from __future__ import annotations

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread

__all__ = ["convert_batch_norm"]

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
