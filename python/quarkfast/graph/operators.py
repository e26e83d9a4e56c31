"""What the standard's operators do with their constants: which input is a weight, which a bias, where channels lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from quarkfast.graph.access import is_standard

__all__ = ["OPERATORS", "Operator", "find_operator"]

ChannelAxis = Callable[[ir.Node, int], int]


@dataclass(frozen=True, slots=True)
class Operator:
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


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "Conv": Operator(1, 2, _first),
        "ConvTranspose": Operator(1, 2, _second),
        "Gemm": Operator(1, 2, _gemm),
        "MatMul": Operator(1, None, _last),
        "InstanceNormalization": Operator(1, 2, _first),
    }
)
"""Operator type of the standard domain -> where its constants are."""


def find_operator(node: ir.Node) -> Operator | None:
    """Returns the row for `node`, or None if it has no weights."""
    return OPERATORS.get(node.op_type) if is_standard(node) else None
