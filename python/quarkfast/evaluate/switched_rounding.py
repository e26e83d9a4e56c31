"""Rounding of what layers read, as they do it that quantize activations when they run, each with a switch."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder

__all__ = ["add_switched_rounding"]


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
        codes = ir.node("DynamicQuantizeLinear", [read], num_outputs=3)
        values = ir.node("DequantizeLinear", list(codes.outputs))
        error = ir.node("Sub", [values.outputs[0], read])
        switched = ir.node("Mul", [error.outputs[0], switch])
        rounded = ir.node("Add", [read, switched.outputs[0]])
        added = [codes, values, error, switched, rounded]
        for each in added:
            builder.call(each, f"{name}_{each.op_type}")
        for output in codes.outputs[1:]:
            output.name = builder.fresh(f"{name}_DynamicQuantizeLinear_Output")
        model.graph.insert_before(node, added)
        node.replace_input_with(0, rounded.outputs[0])
        switches[name] = name_of(switch)
    return switches
