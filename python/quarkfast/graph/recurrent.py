"""Recurrent layers of the standard: where their weights are."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.operators import RECURRENT

__all__ = ["GATE_AXIS", "RECURRENT_WEIGHTS", "is_recurrent"]


RECURRENT_WEIGHTS = (1, 2)
"""The inputs that are weights: W of the inputs, and R of the state."""

GATE_AXIS = 1
"""The axis of the output channels of these: the rows of all gates of a direction."""


def is_recurrent(node: ir.Node) -> bool:
    """Whether a node is a recurrent layer."""
    return node.op_type in RECURRENT and is_standard(node)
