"""Limits of power-of-two scales as fixed-point positions: ``position = -log2(scale)``, the bits behind the point."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Edge, Quantizer, Quantizers
from quarkfast.targets.constraints.shift_rules import RULES

__all__ = ["FixedPointPositions", "ShiftLimits", "limit_shifts"]


class FixedPointPositions:
    """Positions of tensors, readable and writable; :meth:`quantizers` returns the quantizers with the new scales.

    Codes of weights are computed when they are written, so that a weight whose position moved is quantized with
    its new scale. (Quark's refinement changes the scale of codes that are there already.)
    """

    def __init__(self, given: Quantizers, gates: Collection[str] = ("HardSigmoid",)) -> None:
        self.gates = gates
        self._given = given
        self._quantizers = dict(given.quantizers)
        self._constants = dict(given.constants)
        self._slots = {edge: slot for slot, _ in given.constants for edge in slot.edges}
        self.moved = 0

    def quantizers(self) -> Quantizers:
        """Returns the quantizers with the positions as they are now."""
        biases = tuple((slot, self._bias(slot, quantizer)) for slot, quantizer in self._given.biases)
        constants = tuple(self._constants.items())
        return replace(self._given, quantizers=self._quantizers, constants=constants, biases=biases)

    def _bias(self, slot: BiasSlot, quantizer: Quantizer) -> Quantizer:
        """Returns the quantizer of a bias with the scale of the products as it is now: of two powers of two."""
        weight = self._slots.get(slot.weight) or self._given.activations[slot.weight_tensor]
        data = self._given.activations.get(slot.data)
        if data is None:
            return quantizer
        scale = np.asarray(self._quantizers[data].scale * self._quantizer(weight).scale, np.float32)
        return replace(quantizer, scale=np.broadcast_to(scale, quantizer.scale.shape).copy())

    def of_input(self, node: ir.Node, index: int) -> int | None:
        """Returns the position of an input of `node`; None if it is left out or float."""
        found = self._at_input(node, index)
        return None if found is None else _position(self._quantizer(found))

    def of_output(self, node: ir.Node) -> int | None:
        """Returns the position of the first output of `node`, or of the activation that absorbs it."""
        root = self._root_of_output(node)
        return None if root is None else _position(self._quantizers[root])

    def is_zero(self, node: ir.Node, index: int) -> bool:
        """Whether an input of `node` is a constant of zeros, whose position says nothing."""
        return is_constant(node.inputs[index]) and not array_of(node.inputs[index]).any()

    def move_input(self, node: ir.Node, index: int, position: int) -> None:
        """Gives an input of `node` another position."""
        found = self._at_input(node, index)
        if found is not None:
            self._move(found, position)

    def move_output(self, node: ir.Node, position: int) -> None:
        """Gives the first output of `node` another position."""
        root = self._root_of_output(node)
        if root is not None:
            self._move(root, position)

    def _at_input(self, node: ir.Node, index: int) -> ConstantSlot | str | None:
        if index >= len(node.inputs) or node.inputs[index] is None:
            return None
        slot = self._slots.get(Edge(name_of(node), index))
        return slot if slot is not None else self._given.activations.get(name_of(node.inputs[index]))

    def _root_of_output(self, node: ir.Node) -> str | None:
        output = node.outputs[0]
        root = self._given.activations.get(name_of(output))
        if root is not None:
            return root
        readers = [reader for reader, _ in output.uses()]
        return self._given.activations.get(name_of(readers[0].outputs[0])) if len(readers) == 1 else None

    def _quantizer(self, item: ConstantSlot | str) -> Quantizer:
        return self._quantizers[item] if isinstance(item, str) else self._constants[item]

    def _move(self, item: ConstantSlot | str, position: int) -> None:
        quantizer = self._quantizer(item)
        if _position(quantizer) == position:
            return
        moved = replace(quantizer, scale=np.ldexp(np.float32(1), -position).astype(np.float32))
        if isinstance(item, str):
            self._quantizers[item] = moved
        else:
            self._constants[item] = moved
        self.moved += 1


def _position(quantizer: Quantizer) -> int:
    return 1 - int(np.frexp(np.float64(quantizer.scale))[1])


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
