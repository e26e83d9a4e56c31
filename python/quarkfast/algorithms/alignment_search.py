"""Search of scale alignment: factors of tensors with which the noise of power-of-two scales is least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from quarkfast import kernels
from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.algorithms.scale_factors import FactorProblem, at
from quarkfast.algorithms.scale_groups import ScaledLayer, find_groups
from quarkfast.algorithms.scale_noise import (
    Noise,
    anchor_of,
    factor_of,
    noise_of_activations,
    noise_of_weight,
    searches,
)
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_read_once, is_standard, name_of
from quarkfast.graph.placement import ConstantSlot
from quarkfast.graph.walks import clip_limits

__all__ = ["Alignment", "AlignmentSearch", "Powers", "with_one_scale"]


class Alignment(NamedTuple):
    """Factors of groups of tensors, and the scales that suit what they multiply.

    Attributes:
        factors: Of the groups that are multiplied, by the tensor that stands for each.
        scales: The power of two for each activation, once it is multiplied; those whose range stays are left out.
        free: How many groups there are that may be multiplied.
        gain: Expected noise as it was, as a ratio to what it is.
    """

    factors: Mapping[ir.Value, float]
    scales: Mapping[str, float]
    free: int
    gain: float


class Powers(NamedTuple):
    """Powers that errors are raised to (`quarkfast.ranges.error_norm`): larger ones let fewer values saturate.

    Attributes:
        never_negative: For activations that are never negative, such as those behind a Relu.
        others: For the others.
    """

    never_negative: float
    others: float


class AlignmentSearch:
    """What is known of a model before factors are chosen.

    Attributes:
        groups: The groups of its tensors.
        values: Its tensors that are computed, by name.
    """

    def __init__(self, context: AlgorithmContext, weight_part: float) -> None:
        """Finds the groups, and the noise of weights.

        Args:
            context: With a placement, statistics and ranges.
            weight_part: What is left of the noise of nearest codes of weights.
        """
        self._context = context
        self.groups = find_groups(context.model.graph)
        self.values = {name_of(value): value for node in context.model.graph for value in node.outputs}
        self.groups.pin(self.values.get(name) for name in context.placement.fixed)
        self.groups.keep(context.placement.fixed)
        self._members = [each for each in with_one_scale(context) if each[0] in self.values]
        self._limits = self._free_limits()
        self._anchors = {
            self.groups.of(self.values[name]): anchor_of(limit, context.placement.specs[name])
            for name, limit in self._limits.items()
        }
        self._layers = self._noise_of_layers(weight_part)
        self._noises: dict[tuple[tuple[str, ...], float], Noise | None] = {}

    def find(self, powers: Powers, sweeps: int) -> Alignment:
        """Returns the factors of least noise.

        Args:
            powers: That errors of activations are raised to.
            sweeps: How many times each group gets its turn at most; 0 keeps every factor at 1.
        """
        problem, noises = FactorProblem(), list[tuple[tuple[str, ...], int | None, Noise]]()
        for members in self._members:
            noise = self._noise_of(members, powers)
            if noise is not None:
                group = problem.index(self.groups, self.values[members[0]])
                noises.append((members, group, noise))
                if group is not None:
                    problem.own[group] += noise.ratios * self._part_of_sum(members)
        for layer, ratios in self._layers:
            data, output = (problem.index(self.groups, value) for value in (layer.data, layer.output))
            if data is not None or output is not None:
                problem.layers.append((data, output, ratios))
        positions, gain = problem.solve(sweeps) if sweeps else ([0] * len(problem.own), 1.0)
        factors = {
            group: factor_of(positions[index]) * self._anchors.get(group, 1.0)
            for group, index in problem.groups.items()
            if positions[index]
        }
        scales = {
            name: float(noise.scales[at(positions, group)])
            for members, group, noise in noises
            for name in members
            if at(positions, group) or len(members) > 1 or self._loses_range(name, powers)
        }
        return Alignment(factors, scales, len(problem.groups), gain)

    def _loses_range(self, name: str, powers: Powers) -> bool:
        """Whether an activation that no factor multiplies has another range than that of least squared error."""
        context = self._context
        return self._power_of([name], powers) != 2 and name not in context.wider and name not in context.cut

    def _power_of(self, members: Sequence[str], powers: Powers) -> float:
        below = any(self._context.statistics[name].range.min < 0 for name in members)
        return powers.others if below else powers.never_negative

    def _noise_of(self, members: tuple[str, ...], powers: Powers) -> Noise | None:
        power = self._power_of(members, powers)
        if (members, power) not in self._noises:
            limit = min((self._limits[name] for name in members if name in self._limits), default=np.inf)
            found = [self._context.statistics[name].histogram for name in members]
            histograms, spec = [each for each in found if each is not None], self._context.placement.specs[members[0]]
            anchor = self._anchors.get(self.groups.of(self.values[members[0]]), 1.0)
            self._noises[members, power] = noise_of_activations(histograms, spec, power, limit, anchor)
        return self._noises[members, power]

    def _free_limits(self) -> dict[str, float]:
        """Returns the upper limits of Clips that may move, by what they compute; pins the others.

        Such a limit has the last code, so that a Relu does the same: devices compute that along with a layer, and no
        Clip but ReLU6.
        """
        placement, found = self._context.placement, dict[str, float]()
        known = {name for members in self._members for name in members}
        for node in self.groups.limits:
            output, (_, high) = node.outputs[0], clip_limits(node) or (None, None)
            name = name_of(output)
            floats = any(edge.node == name_of(reader) for reader, _ in output.uses() for edge in placement.float_edges)
            if name in known and high is not None and not floats and name not in placement.float_outputs:
                found[name] = high
            else:
                self.groups.pin([output])
        return found

    def _part_of_sum(self, members: Sequence[str]) -> float:
        """Returns the power of a tensor beside that of the sum that alone reads it, 1 at the most; 1 of any other.

        The noise of a term ends up in the sum, and counts beside what that is.
        """
        value = self.values[members[0]]
        reader = next((node for node, _ in value.uses()), None)
        if reader is None or len(members) > 1 or not is_read_once(value):
            return 1.0
        if not is_standard(reader) or reader.op_type not in ("Add", "Sub"):
            return 1.0
        own, whole = self._power(members[0]), self._power(name_of(_result(reader, self._context.placement.activations)))
        return min(own / whole, 1.0) if whole else 1.0

    def _power(self, name: str) -> float:
        """Returns the mean square of an activation; 0 where it is not known."""
        seen = self._context.statistics.get(self._context.placement.activations.get(name, ""))
        if seen is None or seen.histogram is None:
            return 0.0
        mean, deviation = kernels.spread(seen.histogram)
        return mean**2 + deviation**2

    def _noise_of_layers(self, part: float) -> list[tuple[ScaledLayer, np.ndarray]]:
        """Returns what weights add at each difference of positions."""
        slots: dict[str, list[ConstantSlot]] = {}
        for slot in self._context.placement.constants:
            slots.setdefault(slot.tensor, []).append(slot)
        found = []
        for layer in self.groups.layers:
            if not (self.groups.is_pinned(layer.data) and self.groups.is_pinned(layer.output)):
                noise = _noise_of_layer(layer, slots.get(name_of(layer.weight), []))
                if noise is not None:
                    ratios = noise.ratios if not layer.divides else np.roll(noise.ratios[::-1], 1)
                    found.append((layer, ratios * part))
        return found


def _noise_of_layer(layer: ScaledLayer, slots: Sequence[ConstantSlot]) -> Noise | None:
    """Returns the noise of a weight; None where it has no one scale: many have each a position of their own."""
    if len(slots) != 1 or slots[0].axis is not None or not searches(slots[0].spec):
        return None
    return noise_of_weight(array_of(layer.weight).astype(np.float32, copy=False), slots[0].spec)


def with_one_scale(context: AlgorithmContext) -> list[tuple[str, ...]]:
    """Returns the activations with a power-of-two scale of least error: those that the target gives one scale together.

    An operator's result may be computed along with the activation behind it, which then has the scale.
    """
    placement, known, one_scale = context.placement, context.statistics, context.target.one_scale
    roots = [
        name
        for name in placement.observed
        if searches(placement.specs[name]) and name in known and known[name].histogram is not None
    ]
    together = {name: [name] for name in roots}
    for node in context.model.graph:
        if not is_standard(node) or node.op_type not in one_scale:
            continue
        result = placement.activations.get(name_of(_result(node, placement.activations)))
        touched = [result, *(placement.activations.get(name_of(value)) for value in node.inputs)]
        found = [name for name in touched if name is not None and name in together]
        if result not in together or len({placement.specs[name] for name in found}) > 1:
            continue
        joined = list(dict.fromkeys(member for name in found for member in together[name]))
        together |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(tuple(members) for members in together.values()))


def _result(node: ir.Node, activations: Mapping[str, str]) -> ir.Value:
    output = node.outputs[0]
    readers = [reader for reader, _ in output.uses()]
    return output if name_of(output) in activations or len(readers) != 1 else readers[0].outputs[0]
