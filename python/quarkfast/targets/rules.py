"""How one operator takes part in quantization: a row of a target's table."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Literal, NamedTuple

from quarkfast.deferred import ir

__all__ = ["Flow", "Rule"]


def _no_objection(node: ir.Node) -> str:
    return ""


def _always(node: ir.Node) -> bool:
    return True


class Flow(Enum):
    """What an operator does with the scale of its input."""

    COMPUTE = "compute"
    """The output has a range of its own."""

    PASS_THROUGH = "pass_through"
    """The output holds values of the data input, so it has the same scale (MaxPool, Reshape, Transpose, ...)."""

    ACTIVATION = "activation"
    """An activation function: a range of its own, and the operator in front of it may compute it along."""


class Rule(NamedTuple):
    """One row of a placement table.

    Attributes:
        flow: What happens to the scale.
        inputs: Indices of the inputs that hold data; None means every float input.
        constants: Whose spec a constant operand takes; None leaves it to the target.
        output_range: Range of the output when the operator's definition gives it (Softmax).
        objection: Why this very node cannot be quantized; empty if it can.
        passes_through: For `Flow.PASS_THROUGH`, whether this very node can keep its input's scale; otherwise it
            computes.

    Example:
        >>> Rule(Flow.PASS_THROUGH, inputs=(0,)).flow.value
        'pass_through'
    """

    flow: Flow = Flow.COMPUTE
    inputs: tuple[int, ...] | None = None
    constants: Literal["activation", "weight"] | None = None
    output_range: tuple[float, float] | None = None
    objection: Callable[[ir.Node], str] = _no_objection
    passes_through: Callable[[ir.Node], bool] = _always
