"""Shift rules of AMD's XINT8 accelerator, one function each; the limits are Quark's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant
from quarkfast.graph.written_codes import is_pair

__all__ = ["ALIGNED", "MOVES", "NAMES", "POOLS", "RULES", "Refiner"]


class Positions(Protocol):
    """Numbers of bits behind the point of a node's tensors, which rules read and move."""

    gates: Collection[str]
    """Operators that are HardSigmoid in the end."""

    def of_input(self, node: ir.Node, index: int) -> int | None:
        """Returns the position of an input of `node`; None if it is left out or float."""

    def of_output(self, node: ir.Node) -> int | None:
        """Returns the position of the first output of `node`, or of the activation that absorbs it; None if float."""

    def is_zero(self, node: ir.Node, index: int) -> bool:
        """Whether an input of `node` is a constant of zeros, whose position says nothing."""

    def move_input(self, node: ir.Node, index: int, position: int) -> None:
        """Gives an input of `node` another position."""

    def move_output(self, node: ir.Node, position: int) -> None:
        """Gives the first output of `node` another position."""


Refiner: TypeAlias = "Callable[[ir.Node, Positions], None]"


def align(node: ir.Node, positions: Positions) -> None:
    """Concat and pools move values without shifting: all inputs and the output take the least position.

    A Concat whose result is float moves nothing. Constants of zeros, with which a sequence is filled up, take any.
    """
    decisive = [index for index in range(len(node.inputs)) if not positions.is_zero(node, index)]
    known = [positions.of_input(node, index) for index in decisive] + [positions.of_output(node)]
    present = [position for position in known if position is not None]
    if len(present) < 2 or positions.of_output(node) is None:
        return
    for index in range(len(node.inputs)):
        positions.move_input(node, index, min(present))
    positions.move_output(node, min(present))


def align_first(node: ir.Node, positions: Positions) -> None:
    """Pad and Slice move values without shifting: their data and the output take the least position."""
    data, out = positions.of_input(node, 0), positions.of_output(node)
    if data is not None and out is not None:
        positions.move_input(node, 0, min(data, out))
        positions.move_output(node, min(data, out))


def shift_read(node: ir.Node, positions: Positions) -> None:
    """Add and Sub shift one input against the other by at most 7 bits."""
    first, second = positions.of_input(node, 0), positions.of_input(node, 1)
    if first is None or second is None or abs(first - second) <= 7:
        return
    positions.move_input(node, 0 if first > second else 1, min(first, second) + 7)


def shift_write_sum(node: ir.Node, positions: Positions) -> None:
    """The sum is shifted by -7 to 25 bits to its output."""
    first, second, out = positions.of_input(node, 0), positions.of_input(node, 1), positions.of_output(node)
    if first is not None and second is not None and out is not None:
        least = min(first, second)
        positions.move_output(node, least - _within(least - out, -7, 25))


def shift_write_product(node: ir.Node, positions: Positions) -> None:
    """The product is shifted by 0 to 32 bits to its output."""
    first, second, out = positions.of_input(node, 0), positions.of_input(node, 1), positions.of_output(node)
    if first is not None and second is not None and out is not None:
        positions.move_output(node, first + second - _within(first + second - out, 0, 32))


def shift_cut(node: ir.Node, positions: Positions) -> None:
    """The sum of products is shifted right by 0 to 16 bits to its output.

    Where that is more, the weight gets coarser steps. Where the output has finer steps than the products, it gets
    theirs: a weight of finer steps, as Quark has it, would be clipped.
    """
    data, weight, out = positions.of_input(node, 0), positions.of_input(node, 1), positions.of_output(node)
    if data is not None and weight is not None and out is not None:
        positions.move_output(node, min(out, weight + data))
        positions.move_input(node, 1, min(weight, 16 + out - data))


def shift_bias(node: ir.Node, positions: Positions) -> None:
    """The bias is shifted to the sum of products by at most 15 bits left, and right no further than its bits reach.

    Where that is more, the weight gets coarser steps, as far as its products have those of the output: a bias of
    finer steps, as Quark has it, would be clipped.
    """
    data, weight, bias = (positions.of_input(node, index) for index in range(3))
    out = positions.of_output(node)
    if data is None or weight is None or bias is None or out is None:
        return
    weight = max(min(weight, bias + 15 - data), min(weight, out - data))
    positions.move_input(node, 1, weight)
    cut = weight + data - out
    lowest = 0 if _feeds_leaky_relu(node) else min(0, -(24 - (8 + cut)))
    positions.move_input(node, 2, weight + data - _within(weight + data - bias, lowest, 15))


def hard_sigmoid(node: ir.Node, positions: Positions) -> None:
    """HardSigmoid reads 0 to 15 bits behind the point and writes at least 7, at most 14 more than it reads."""
    data, out = positions.of_input(node, 0), positions.of_output(node)
    if data is not None and out is not None:
        data = _within(data, 0, 15)
        positions.move_input(node, 0, data)
        positions.move_output(node, _within(out, 7, 14 + data))


def shift_swish(node: ir.Node, positions: Positions) -> None:
    """The product of a tensor and its own HardSigmoid is shifted by 0 to 15 bits to its output."""
    if not _is_swish(node, positions.gates):
        return
    first, second, out = positions.of_input(node, 0), positions.of_input(node, 1), positions.of_output(node)
    if first is not None and second is not None and out is not None:
        positions.move_output(node, first + second - _within(first + second - out, 0, 15))


def _is_swish(node: ir.Node, hard_sigmoids: Collection[str]) -> bool:
    """Whether one factor is the HardSigmoid of the other, with or without pairs of Q/DQ between.

    Behind HardSigmoid may stand the Mul that gives it the slope of the accelerator.
    """
    factors = [_behind_pairs(value) for value in node.inputs]
    gates = [_behind_factor(value.producer()) if value is not None else None for value in factors]
    return any(
        gate is not None and gate.op_type in hard_sigmoids and _behind_pairs(gate.inputs[0]) is other
        for gate, other in zip(gates, reversed(factors), strict=True)
    )


def _behind_pairs(value: ir.Value | None) -> ir.Value | None:
    """Returns the float that `value` was before it became codes and floats again."""
    while value is not None and (producer := value.producer()) is not None and is_pair(producer):
        value = producer.inputs[0]
    return value


def _behind_factor(node: ir.Node | None) -> ir.Node | None:
    """Returns what computes the values that `node` multiplies by a constant, or `node` itself."""
    if node is None or node.op_type != "Mul" or not is_constant(node.inputs[1]) or node.inputs[0] is None:
        return node
    return node.inputs[0].producer()


def _within(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _feeds_leaky_relu(node: ir.Node) -> bool:
    return any(reader.op_type == "LeakyRelu" for reader, _ in node.outputs[0].uses())


POOLS = ("AveragePool", "GlobalAveragePool", "MaxPool")
"""Operators that move or average values."""

ALIGNED = ("Concat", *POOLS)
"""Operators whose inputs and output have one scale."""

RULES: tuple[tuple[Refiner, Mapping[str, str]], ...] = tuple(
    (rule, MappingProxyType(names))
    for rule, names in (
        (align, {"Concat": "concat"} | dict.fromkeys(POOLS, "pool")),
        (shift_read, dict.fromkeys(("Add", "Sub"), "shift_read")),
        (shift_write_sum, {"Add": "shift_write"}),
        (shift_write_product, {"Mul": "shift_write"}),
        (shift_cut, dict.fromkeys(("Conv", "Gemm"), "shift_cut")),
        (shift_bias, dict.fromkeys(("Conv", "Gemm"), "shift_bias")),
        (hard_sigmoid, {"HardSigmoid": "hard_sigmoid"}),
        (shift_swish, {"Mul": "shift_swish"}),
    )
)
"""The rules in the order in which a round applies them: operator type -> the name that turns the rule off for it."""

MOVES: tuple[Refiner, Mapping[str, str]] = (align_first, MappingProxyType({"Pad": "pad", "Slice": "slice"}))
"""A rule that placement keeps by itself: it gives what only moves values the scale of its input."""

NAMES = tuple(dict.fromkeys(name for _, names in RULES for name in names.values()))
"""Names of the rules, in that order."""
