"""Constraints of a target on scales, after they were chosen from ranges, and on how nodes are written."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.plan import Plan
from quarkfast.targets.constraints.attributes import spell_out
from quarkfast.targets.constraints.fixed_point import Positions
from quarkfast.targets.constraints.shift_rules import RULES

__all__ = ["refine"]

_NPU = "ryzenai-"

# One rule may break what an earlier one set right; Quark stops after 5 rounds as well.
_ROUNDS = 5


def refine(model: ir.Model, plan: Plan, target: str) -> Plan:
    """Returns `plan` with the scales that `target` can work with; other targets than XINT8 take it as it is.

    For the NPU, attributes of `model` are written out (`quarkfast.targets.constraints.attributes`).

    Each round goes through the nodes once for each rule, in topological order; the rounds end when nothing moves.

    Args:
        model: The prepared model, before insertion; changed in place.
        plan: From `quarkfast.quantization.compute_qparams`.
        target: Name of the placement table.
    """
    if target.startswith(_NPU):
        spell_out(model)
    if target != "ryzenai-xint8":
        return plan
    positions, total = Positions(plan), 0
    for _ in range(_ROUNDS):
        positions.moved = 0
        for rule in RULES:
            for node in model.graph:
                if is_standard(node) and node.op_type in rule:
                    rule[node.op_type](node, positions)
        total += positions.moved
        if not positions.moved:
            break
    refined = positions.plan()
    if not total:
        return refined
    note = f"{total} scales moved to what the accelerator can shift"
    return replace(refined, notes=(*refined.notes, note))
