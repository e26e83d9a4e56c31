"""Power-of-two scales that an accelerator without multipliers for scales can shift between."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.quantizer import Quantizers
from quarkfast.targets.constraints.fixed_point import Positions
from quarkfast.targets.constraints.shift_rules import RULES

__all__ = ["limit_shifts"]

# One rule may break what an earlier one set right; Quark stops after 5 rounds as well.
_ROUNDS = 5


def limit_shifts(model: ir.Model, quantizers: Quantizers) -> Quantizers:
    """Returns `quantizers` with scales between which AMD's XINT8 accelerator can shift.

    Each round goes through the nodes once for each rule, in topological order; the rounds end when nothing moves.

    Args:
        model: The prepared model, before insertion.
        quantizers: From `quarkfast.quantization.compute_qparams`; every scale is a power of two, one for each tensor.
    """
    positions, total = Positions(quantizers), 0
    for _ in range(_ROUNDS):
        positions.moved = 0
        for rule in RULES:
            for node in model.graph:
                if is_standard(node) and node.op_type in rule:
                    rule[node.op_type](node, positions)
        total += positions.moved
        if not positions.moved:
            break
    refined = positions.quantizers()
    if not total:
        return refined
    note = f"{total} scales moved to what the accelerator can shift"
    return replace(refined, notes=(*refined.notes, note))
