"""A constant that is added to each channel of a convolution becomes its bias."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, shape_of, tensor_of
from quarkfast.graph.builder import GraphBuilder, drop
from quarkfast.graph.rewriting import absorb

__all__ = ["fold_bias"]


def fold_bias(model: ir.Model) -> bool:
    """Folds an Add into the Conv without a bias whose only reader it is, in place; returns whether there was one.

    1. The other operand is a float32 constant with one value for each output channel, ``[M, 1, 1]`` or
       ``[1, M, 1, 1]`` for images.
    2. The layer keeps its name, its output takes the Add's; the bias is a new initializer named after the constant.

    A bias needs no range of its own, nor has the sum a pair in front of it. Idempotent; graph inputs and outputs are
    kept; error: rounding of a sum in another order, as by onnxruntime's own fusion.
    """
    builder, folded = GraphBuilder(model), False
    for add in [node for node in model.graph if is_standard(node) and node.op_type == "Add"]:
        for value, constant in (add.inputs, add.inputs[::-1]):
            layer = _bare_layer(value)
            if layer is not None and constant is not None and _is_bias(constant, layer):
                _fold(builder, layer, constant, add)
                folded = True
                break
    return folded


def _bare_layer(value: ir.Value | None) -> ir.Node | None:
    """Returns the Conv without a bias that hands `value` to one reader alone, or None."""
    node = None if value is None else value.producer()
    if value is None or node is None or not is_standard(node) or node.op_type != "Conv":
        return None
    if any(each is not None for each in node.inputs[2:]) or not is_constant(node.inputs[1]):
        return None
    return node if len(tuple(value.uses())) == 1 and not value.is_graph_output() else None


def _is_bias(constant: ir.Value, layer: ir.Node) -> bool:
    """Whether `constant` holds one float32 for each channel of the layer's output."""
    if not is_constant(constant) or constant.dtype != ir.DataType.FLOAT or constant.is_graph_input():
        return False
    weight = shape_of(tensor_of(layer.inputs[1]))
    per_channel = (weight[0], *[1] * (len(weight) - 2))
    return shape_of(tensor_of(constant)) in (per_channel, (1, *per_channel))


def _fold(builder: GraphBuilder, layer: ir.Node, constant: ir.Value, add: ir.Node) -> None:
    """Puts `constant` into the layer as its bias, and removes `add`."""
    bias = builder.initializer(f"{constant.name}_bias", array_of(constant).reshape(-1))
    layer.resize_inputs(3)
    layer.replace_input_with(2, bias)
    absorb(builder.graph, add, layer)
    drop(builder.graph, constant)
