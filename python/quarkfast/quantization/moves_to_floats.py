"""What moves numbers on to nodes that compute in float: codes would be turned back before anything computes on them."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.selection import Choices
from quarkfast.quantization.eligibility import Eligibility
from quarkfast.targets.rules import Flow

__all__ = ["moves_to_floats"]


def moves_to_floats(value: ir.Value, choices: Choices, nodes: Eligibility) -> set[ir.Node] | None:
    """Returns what moves a tensor on to float nodes, or None where codes or an output of the model are behind.

    Args:
        value: The tensor.
        choices: What the scheme says; a tensor that has a spec of its own may get codes.
        nodes: Which nodes stay float.
    """
    moves, pending = set[ir.Node](), [value]
    while pending:
        each = pending.pop()
        if each.is_graph_output() or choices.is_changed(name_of(each)):
            return None
        for node, index in each.uses():
            if nodes.objection(node) or node in moves:
                continue
            if nodes.rule(node).flow is not Flow.PASS_THROUGH or index != 0:
                return None
            moves.add(node)
            pending.extend(node.outputs)
    return moves
