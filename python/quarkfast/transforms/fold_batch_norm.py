"""BatchNormalization folding: it becomes part of the Conv, ConvTranspose or Gemm in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread, set_constant
from quarkfast.graph.operators import BIASED_LAYERS
from quarkfast.graph.rewriting import absorb

__all__ = ["fold_batch_norm"]

# ONNX's default of BatchNormalization's attribute.
_EPSILON = 1e-5


def fold_batch_norm(model: ir.Model) -> bool:
    """Folds BatchNormalization into the linear layer whose only reader it is, in place; returns whether there was one.

    1. ``W' = W * gamma / sqrt(var + epsilon)`` for each output channel; ``b' = (b - mean) * gamma / sqrt(...) + beta``.
    2. Weights and biases that another node reads too are left alone, and so is their BatchNormalization; so is one that
       takes mean and variance from its input (``training_mode``).
    3. The layer keeps its name, its weight keeps its name, its output takes the BatchNormalization's.

    Idempotent; graph inputs and outputs are kept; error: rounding of the folded weights to float32.
    """
    builder, folded = GraphBuilder(model), False
    for norm in [node for node in model.graph if is_standard(node) and node.op_type == "BatchNormalization"]:
        found = _layer_of(norm)
        if found is not None:
            _fold(builder, *found, norm)
            folded = True
    drop_unread(model.graph)
    return folded


def _layer_of(norm: ir.Node) -> tuple[ir.Node, ir.Value] | None:
    """Returns the layer that `norm` can become part of, and its weight, or None."""
    value = norm.inputs[0]
    layer = None if value is None else value.producer()
    if value is None or layer is None or not is_standard(layer) or layer.op_type not in BIASED_LAYERS:
        return None
    if norm.attributes.get_int("training_mode", 0) or len(norm.outputs) > 1:
        return None
    if value.is_graph_output() or len(tuple(value.uses())) > 1:
        return None
    own = [each for each in layer.inputs[1:] if each is not None]
    others = [each for each in norm.inputs[1:] if each is not None]
    if not own or not all(is_constant(each) and not each.is_graph_input() for each in (*own, *others)):
        return None
    return (layer, own[0]) if all(reader is layer for each in own for reader, _ in each.uses()) else None


def _fold(builder: GraphBuilder, layer: ir.Node, weight: ir.Value, norm: ir.Node) -> None:
    """Puts the factors of `norm` into the weight of `layer` and the rest into its bias, and removes `norm`."""
    gamma, beta, mean, variance = map(array_of, norm.inputs[1:])
    factor = gamma / np.sqrt(variance + norm.attributes.get_float("epsilon", _EPSILON))
    set_constant(weight, _scaled(layer, array_of(weight), factor))
    layer.resize_inputs(3)
    bias = layer.inputs[2]
    if bias is None:
        bias = builder.initializer(f"{name_of(weight)}_bias", np.zeros_like(mean))
        layer.replace_input_with(2, bias)
    scale = layer.attributes.pop("beta", None)  # Gemm's of its bias, which has it now
    before = array_of(bias) if scale is None else scale.as_float() * array_of(bias)
    set_constant(bias, (before - mean) * factor + beta)
    absorb(builder.graph, norm, layer)


def _scaled(layer: ir.Node, weight: NDArray[Any], factor: NDArray[Any]) -> NDArray[Any]:
    """Returns `weight` with each output channel multiplied by its factor."""
    grouped, shape = weight, (-1, *[1] * (weight.ndim - 1))
    if layer.op_type == "ConvTranspose":  # [inputs, outputs of a group, ...]; the inputs of a group lie together
        groups = layer.attributes.get_int("group", 1)
        grouped, shape = weight.reshape(groups, -1, *weight.shape[1:]), (groups, 1, -1, *[1] * (weight.ndim - 2))
    elif layer.op_type == "Gemm" and not layer.attributes.get_int("transB", 0):
        shape = (1, -1)
    scaled: NDArray[Any] = grouped * factor.reshape(shape)
    return scaled.reshape(weight.shape)
