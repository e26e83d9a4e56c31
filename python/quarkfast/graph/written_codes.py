"""Scales and types of a model that is quantized already: in front of the inputs of nodes, and behind their outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of
from quarkfast.graph.operators import CODE_READERS, CODE_WRITERS, find_operator

__all__ = ["Codes", "codes_of_input", "codes_of_output", "codes_of_pair", "is_dequantize", "is_pair", "reads_floats"]


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
