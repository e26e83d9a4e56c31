"""Layers of a model that a tool has quantized before."""

from __future__ import annotations

from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of
from quarkfast.graph.contrib import key_of
from quarkfast.graph.operators import DEQUANTIZERS, ON_CODES, QUANTIZERS, find_operator, is_dequantized
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["QuantizedBefore", "quantized_before"]


_NARROW_FLOATS = frozenset({ir.DataType.BFLOAT16, ir.DataType.FLOAT16})


class QuantizedBefore(NamedTuple):
    """Layers by what they are.

    Attributes:
        layers: Names of those whose weights and inputs are codes, or were rounded to a narrower type.
        floats: How many others there are.
    """

    layers: tuple[str, ...]
    floats: int

    @property
    def whole(self) -> bool:
        """Whether there are layers, and none is float."""
        return bool(self.layers) and not self.floats


def quantized_before(graph: ir.Graph) -> QuantizedBefore:
    """Returns the layers with weights of a graph and its bodies that are quantized, and how many are not.

    Weights alone in codes leave a layer float: what it reads may still be quantized.

    Args:
        graph: The graph of a model.
    """
    layers, floats = list[str](), 0
    for node in nodes_of(graph):
        if key_of(node) in ON_CODES:
            layers.append(name_of(node))
        elif (operator := find_operator(node)) is not None and len(node.inputs) > operator.weight:
            weight, data = node.inputs[operator.weight], node.inputs[0]
            if not is_dequantized(data):
                floats += is_constant(weight) or is_dequantized(weight)
            elif is_dequantized(weight) or _is_narrow(weight) or _is_rounded(data):
                layers.append(name_of(node))
            else:
                floats += is_constant(weight)
    return QuantizedBefore(tuple(layers), floats)


def _is_narrow(weight: ir.Value | None) -> bool:
    """Whether a weight is a constant of 16-bit floats that a Cast widens."""
    producer = None if weight is None else weight.producer()
    if producer is None or producer.op_type != "Cast" or producer.inputs[0] is None:
        return False
    return producer.inputs[0].dtype in _NARROW_FLOATS


def _is_rounded(data: ir.Value | None) -> bool:
    """Whether an activation was rounded to 16-bit floats, or by one operator that stores no codes.

    The weights beside it were rounded when they were written, and are constants of floats.
    """
    producer = None if data is None else data.producer()
    if producer is None or producer.op_type in QUANTIZERS & DEQUANTIZERS:
        return producer is not None
    zero_point = producer.inputs[2] if len(producer.inputs) > 2 else None
    return zero_point is not None and zero_point.dtype in _NARROW_FLOATS
