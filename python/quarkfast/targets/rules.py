"""How one operator takes part in quantization: a row of a target's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from quarkfast.deferred import ir

__all__ = ["Flow", "Rule", "always", "never"]


def never(node: ir.Node) -> str:
    """The objection of a rule that has none."""
    return ""


def always(node: ir.Node) -> bool:
    """The condition of a rule without one."""
    return True


class Flow(Enum):
    """What an operator does with the scale of its input."""

    COMPUTE = "compute"
    """The output has a range of its own."""

    CARRY = "carry"
    """The output holds values of the data input, so it carries the same scale (MaxPool, Reshape, Transpose, ...)."""

    ACTIVATE = "activate"
    """An activation function: a range of its own, and it can be absorbed by the operator in front of it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a placement table.

    Attributes:
        flow: What happens to the scale.
        inputs: Indices of the inputs that hold data; None means every float input.
        output_range: Range of the output when the operator's definition gives it (Softmax).
        objects: Why this very node cannot be quantized; empty if it can.
        carries: For `Flow.CARRY`, whether this very node can carry its input's scale; otherwise it computes.
    """

    flow: Flow = Flow.COMPUTE
    inputs: tuple[int, ...] | None = None
    output_range: tuple[float, float] | None = None
    objects: Callable[[ir.Node], str] = never
    carries: Callable[[ir.Node], bool] = always
