"""Dynamic rounding of what layers read, written into a float model, each with a switch of its own where wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.placement import ConstantSlot

__all__ = ["add_rounding", "add_switched_rounding", "layers_that_round"]

# The input that is the weight of a layer, or the first of an LSTM's two, which reads what it rounds but once.
_FIRST_WEIGHT = 1


def layers_that_round(weights: Iterable[ConstantSlot]) -> set[str]:
    """Returns the names of the nodes that quantize their first input when they run, from where weights are read."""
    return {edge.node for slot in weights for edge in slot.edges if edge.index == _FIRST_WEIGHT}


def add_rounding(model: ir.Model, layers: Collection[str]) -> None:
    """Has some layers read their first input as its dynamic quantization leaves it, in place.

    Args:
        model: A model of operator set 11 or newer.
        layers: Names of the nodes.
    """
    builder = GraphBuilder(model)
    for node in [each for each in model.graph if each.name in layers]:
        _insert(builder, node, _rounded(node))


def add_switched_rounding(model: ir.Model, layers: Collection[str]) -> dict[str, str]:
    """Adds to the first input of some layers the error of its dynamic quantization, times a constant of 0, in place.

    Args:
        model: A float model of operator set 11 or newer.
        layers: Names of the nodes.

    Returns:
        The name of each layer's constant.
    """
    builder, switches = GraphBuilder(model), dict[str, str]()
    for node in [each for each in model.graph if each.name in layers]:
        name, read = name_of(node), node.inputs[0]
        switch = builder.initializer(f"{name}_switch", np.zeros((), np.float32))
        codes, values = _rounded(node)
        error = ir.node("Sub", [values.outputs[0], read])
        switched = ir.node("Mul", [error.outputs[0], switch])
        rounded = ir.node("Add", [read, switched.outputs[0]])
        _insert(builder, node, [codes, values, error, switched, rounded])
        switches[name] = name_of(switch)
    return switches


def _rounded(node: ir.Node) -> list[ir.Node]:
    """Returns what rounds the first input of a node."""
    codes = ir.node("DynamicQuantizeLinear", [node.inputs[0]], num_outputs=3)
    return [codes, ir.node("DequantizeLinear", list(codes.outputs))]


def _insert(builder: GraphBuilder, node: ir.Node, added: list[ir.Node]) -> None:
    """Puts nodes in front of another, whose first input is what the last of them gives."""
    name = name_of(node)
    for each in added:
        builder.call(each, f"{name}_{each.op_type}")
    for output in added[0].outputs[1:]:
        output.name = builder.fresh(f"{name}_DynamicQuantizeLinear_Output")
    builder.graph.insert_before(node, added)
    node.replace_input_with(0, added[-1].outputs[0])
