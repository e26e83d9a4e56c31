"""What a quantized model holds: codes with their scales, lookups in tables of codes, layers that are quantized."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.operators import (
    CODE_READERS,
    CODE_WRITERS,
    DEQUANTIZERS,
    ON_CODES,
    QUANTIZERS,
    find_operator,
    is_dequantized,
)
from quarkfast.graph.schemas import key_of
from quarkfast.graph.subgraphs import nodes_of

__all__ = [
    "Codes",
    "QuantizedBefore",
    "codes_of_input",
    "codes_of_output",
    "codes_of_pair",
    "is_dequantize",
    "is_pair",
    "quantized_before",
    "reads_floats",
    "table_behind",
    "takes_rows",
]


class Codes(NamedTuple):
    """A tensor of codes.

    Attributes:
        tensor: Name of the codes.
        dtype: Their type; None where nothing says so.
        scale: One scale, or several.
        zero_point: None where there is none, which is 0.
        values: The codes themselves, of a constant.
    """

    tensor: str
    dtype: ir.DataType | None
    scale: NDArray[Any]
    zero_point: NDArray[Any] | None
    values: ir.Value | None


def is_pair(node: ir.Node) -> bool:
    """Whether a node turns floats into codes or codes into floats."""
    return node.op_type in CODE_WRITERS or node.op_type in CODE_READERS


def is_dequantize(node: ir.Node) -> bool:
    """Whether a node turns codes into floats."""
    return node.op_type in CODE_READERS


def reads_floats(node: ir.Node) -> bool:
    """Whether a layer with weights reads floats as one factor of its products."""
    operator = find_operator(node)
    return operator is not None and any(codes_of_input(node, index) is None for index in (0, operator.weight))


def codes_of_pair(pair: ir.Node) -> Codes | None:
    """Returns the codes that a QuantizeLinear writes or a DequantizeLinear reads, if its scale is a constant."""
    return _codes(pair, 0 if pair.op_type in CODE_READERS else 1)


def codes_of_input(node: ir.Node, index: int) -> Codes | None:
    """Returns the codes that an input of `node` is dequantized from; None if it is left out or float."""
    value = node.inputs[index] if index < len(node.inputs) else None
    producer = None if value is None else value.producer()
    return _codes(producer, 0) if producer is not None and producer.op_type in CODE_READERS else None


def codes_of_output(node: ir.Node) -> Codes | None:
    """Returns the codes that the first output of `node` becomes, or that of the activation which alone reads it."""
    output = node.outputs[0]
    for _ in range(2):
        readers = [reader for reader, _ in output.uses()]
        found = next((reader for reader in readers if reader.op_type in CODE_WRITERS), None)
        if found is not None:
            return _codes(found, 1)
        if len(readers) != 1 or is_pair(readers[0]) or output.is_graph_output():
            return None
        output = readers[0].outputs[0]
    return None


def _codes(pair: ir.Node, side: int) -> Codes | None:
    """Returns the codes that a pair's node reads (0) or writes (1), if its scale is a constant."""
    value = pair.inputs[0] if side == 0 else pair.outputs[0]
    scale = pair.inputs[1] if len(pair.inputs) > 1 else None
    point = pair.inputs[2] if len(pair.inputs) > 2 else None
    if value is None or scale is None or not is_constant(scale) or (point is not None and not is_constant(point)):
        return None
    dtype = value.dtype if point is None else point.dtype or value.dtype
    zero = None if point is None else array_of(point).astype(np.float64)
    return Codes(name_of(value), dtype, array_of(scale), zero, value if is_constant(value) else None)


_ROWS = (0, -2)  # the first of two axes


def takes_rows(node: ir.Node) -> bool:
    """Whether a node takes whole rows of its first input, if that is a matrix: a Gather, or a Slice along rows."""
    if not is_standard(node):
        return False
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) in _ROWS
    if node.op_type != "Slice" or len(node.inputs) < 4 or not is_constant(node.inputs[3]):
        return False
    return all(int(axis) in _ROWS for axis in array_of(node.inputs[3]).ravel())


def table_behind(node: ir.Node) -> ir.Value | None:
    """Returns the table of codes whose rows `node` turns into floats, or None."""
    codes = node.inputs[0] if is_dequantize(node) else None
    lookup = None if codes is None else codes.producer()
    if lookup is None or not takes_rows(lookup) or not is_constant(lookup.inputs[0]):
        return None
    return lookup.inputs[0]


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
