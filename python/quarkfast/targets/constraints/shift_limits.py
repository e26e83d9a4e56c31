"""Power-of-two scales that an accelerator without multipliers for scales can shift between."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.placement import Quantizers
from quarkfast.targets.constraints.fixed_point import FixedPointPositions
from quarkfast.targets.constraints.shift_rules import RULES

__all__ = ["ShiftLimits", "limit_shifts"]

# One rule may break what an earlier one set right; Quark stops after 5 rounds as well.
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class ShiftLimits:
    """The constraint of a target that applies all rules but some.

    Attributes:
        off: Names of the rules that do not hold (`quarkfast.targets.constraints.shift_rules.NAMES`).
        gates: Operators that are HardSigmoid in the end.
    """

    off: frozenset[str] = frozenset()
    gates: frozenset[str] = frozenset({"HardSigmoid"})

    def __call__(self, model: ir.Model, quantizers: Quantizers) -> Quantizers:
        """Returns `quantizers` with scales that keep to the rules."""
        return limit_shifts(model, quantizers, self.off, self.gates)


def limit_shifts(
    model: ir.Model, quantizers: Quantizers, off: Collection[str] = (), gates: Collection[str] = ("HardSigmoid",)
) -> Quantizers:
    """Returns `quantizers` with scales between which AMD's XINT8 accelerator can shift.

    Each round goes through the nodes once for each rule, in topological order; the rounds end when nothing moves.

    Args:
        model: The prepared model, before insertion.
        quantizers: From `quarkfast.quantization.compute_qparams`; every scale is a power of two, one for each tensor.
        off: Names of rules that do not hold.
        gates: Operators that are HardSigmoid in the end.
    """
    positions, total = FixedPointPositions(quantizers, gates), 0
    for _ in range(_ROUNDS):
        positions.moved = 0
        for rule, names in RULES:
            for node in model.graph:
                op_type = "HardSigmoid" if node.op_type in gates else node.op_type
                if is_standard(node) and op_type in names and names[op_type] not in off:
                    rule(node, positions)
        total += positions.moved
        if not positions.moved:
            break
    refined = positions.quantizers()
    if not total:
        return refined
    note = f"{total} scales moved to what the accelerator can shift"
    return replace(refined, notes=(*refined.notes, note))
