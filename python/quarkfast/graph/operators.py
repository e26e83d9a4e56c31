"""What the standard's operators do with their constants: which input is a weight, which a bias, where channels lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.contrib import key_of

__all__ = [
    "DEQUANTIZERS",
    "MOVERS",
    "OPERATORS",
    "QUANTIZERS",
    "SHAPE_READERS",
    "Operator",
    "find_operator",
    "is_dequantized",
    "is_quantized",
]

_ROUNDERS = {"BFPQuantizeDequantize", "BFPFixNeuron", "MXQuantizeDequantize", "MXFixNeuron"}

QUANTIZERS = frozenset({"QuantizeLinear", "ExtendedQuantizeLinear", "VitisQuantizeLinear"} | _ROUNDERS)
"""Operators whose output holds what a narrower type can: codes, or rounded floats."""

DEQUANTIZERS = frozenset(
    {"DequantizeLinear", "ExtendedDequantizeLinear", "VitisDequantizeLinear", "DequantizeBlock"} | _ROUNDERS
)
"""Operators that give back floats which a narrower type can hold."""

MOVERS = frozenset({"Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that move numbers of one tensor, or leave some out, and compute nothing."""

SHAPE_READERS = frozenset({"Shape", "Size"})
"""Operators that read no values."""

ChannelAxis = Callable[[ir.Node, int], int]


class Operator(NamedTuple):
    """Where an operator's constants are.

    Attributes:
        weight: Index of the input that is a weight.
        bias: Index of the input that is added to the sum of products, or None.
        channel_axis: From the node and the weight's rank (at least 2) to the axis of the weight's output channels.
    """

    weight: int
    bias: int | None
    channel_axis: ChannelAxis


def _first(node: ir.Node, rank: int) -> int:
    return 0


def _second(node: ir.Node, rank: int) -> int:
    return 1


def _last(node: ir.Node, rank: int) -> int:
    return rank - 1


def _gemm(node: ir.Node, rank: int) -> int:
    return 0 if node.attributes.get_int("transB", 0) else 1


def _fused_matmul(node: ir.Node, rank: int) -> int:
    return rank - 2 if node.attributes.get_int("transB", 0) else rank - 1


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "Conv": Operator(1, 2, _first),
        "ConvTranspose": Operator(1, 2, _second),
        "Gemm": Operator(1, 2, _gemm),
        "MatMul": Operator(1, None, _last),
        "InstanceNormalization": Operator(1, 2, _first),
        "com.microsoft::Attention": Operator(1, 2, _last),
        "com.microsoft::FusedConv": Operator(1, 2, _first),
        "com.microsoft::FusedGemm": Operator(1, 2, _gemm),
        "com.microsoft::FusedMatMul": Operator(1, None, _fused_matmul),
    }
)
"""Operator, as `key_of` names it, -> where its constants are."""


def find_operator(node: ir.Node) -> Operator | None:
    """Returns the row for `node`, or None if it has no weights."""
    return OPERATORS.get(key_of(node))


def is_dequantized(value: ir.Value | None) -> bool:
    """Whether a DequantizeLinear gives `value`: the model is quantized already, or its author wrote that pair."""
    producer = None if value is None else value.producer()
    return producer is not None and producer.op_type in DEQUANTIZERS


def is_quantized(value: ir.Value) -> bool:
    """Whether nothing but a QuantizeLinear reads `value`."""
    uses = tuple(value.uses())
    return bool(uses) and all(reader.op_type in QUANTIZERS for reader, _ in uses) and not value.is_graph_output()
