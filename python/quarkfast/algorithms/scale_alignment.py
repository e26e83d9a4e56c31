"""Power-of-two scale alignment: tensors are multiplied so that the powers of two fit them well."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quarkfast.algorithms.algorithm import Algorithm, Context, Settings
from quarkfast.algorithms.scale_factors import FactorProblem, at
from quarkfast.algorithms.scale_groups import Groups, Layer, find_groups
from quarkfast.algorithms.scale_noise import (
    Noise,
    factor_of,
    noise_of_activations,
    noise_of_weight,
    range_of_scale,
    searches,
)
from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_standard, name_of
from quarkfast.graph.builder import set_constant
from quarkfast.graph.placement import ConstantSlot
from quarkfast.kernels import Range
from quarkfast.statistics.scaling import scale_statistics

__all__ = ["SCALE_ALIGNMENT", "ScaleAlignmentSettings", "with_one_scale"]


@dataclass(frozen=True, slots=True)
class ScaleAlignmentSettings:
    """Settings of scale alignment.

    Attributes:
        sweeps: How many times each group gets its turn at most; fewer where nothing changes any more.
        least_gain: What the expected noise has to fall by, as a ratio; below it the model stays as it is.
    """

    sweeps: int = 50
    least_gain: float = 10**0.01


def _settings(scheme: Scheme) -> Settings | None:
    return ScaleAlignmentSettings() if scheme.aligned else None


def _run(context: Context, settings: ScaleAlignmentSettings) -> bool:
    """Multiplies tensors so that powers of two fit them well, in place.

    1. Tensors between which a positive factor passes through (`quarkfast.algorithms.scale_groups`) have one factor;
       graph inputs and outputs keep theirs. Layers lie between groups: their weights and biases take up the ratio.
    2. A tensor whose best scale lies between two powers of two loses up to 6 dB. Expected noise, as a ratio to the
       power of the tensor, is periodic in a factor's octaves; sixteen factors of an octave are tried for every
       activation and for the weights of every layer.
    3. The sum of these ratios is brought down by coordinate descent over the groups, from factors of 1 and from those
       that suit the activations of a group, so that it is never larger than it was.
    4. Statistics are multiplied along. Ranges are those of the scales that were found; tensors that the target gives
       one scale get that of the least sum.

    Error: the rounding of weights, biases and constants to float32. Samples are not run again.
    """
    if not context.has_real_samples:
        return False
    groups = find_groups(context.model.graph)
    values = {name_of(value): value for node in context.model.graph for value in node.outputs}
    groups.pin(values.get(name) for name in context.placement.fixed)
    groups.keep(context.placement.fixed)
    problem, noises = FactorProblem(), list[tuple[tuple[str, ...], Noise]]()
    for members in with_one_scale(context):
        noise = _noise_of(context, members)
        if noise is None or members[0] not in values:
            continue
        noises.append((members, noise))
        group = problem.index(groups, values[members[0]])
        if group is not None:
            problem.own[group] += noise.ratios
    _add_layers(problem, groups, context)
    positions, gain = problem.solve(settings.sweeps)
    if gain < settings.least_gain:
        return False
    factors = {group: factor_of(positions[index]) for group, index in problem.groups.items() if positions[index]}
    _multiply(groups, factors)
    of = {name: factors.get(groups.of(values[name]), 1.0) for name in context.placement.activations if name in values}
    context.factors = {name: factor for name, factor in of.items() if factor != 1}
    _rescale(context, context.factors)
    _choose(
        context, noises, {root: problem.index(groups, values[root]) for each, _ in noises for root in each}, positions
    )
    context.notes.append(
        f"power-of-two scale alignment: {len(factors)} of {len(problem.groups)} groups of tensors are multiplied; "
        f"expected noise is {10 * math.log10(gain):.1f} dB lower"
    )
    return True


def with_one_scale(context: Context) -> list[tuple[str, ...]]:
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


def _noise_of(context: Context, members: Sequence[str]) -> Noise | None:
    found = [context.statistics[name].histogram for name in members]
    return noise_of_activations([each for each in found if each is not None], context.placement.specs[members[0]])


def _add_layers(problem: FactorProblem, groups: Groups, context: Context) -> None:
    slots: dict[str, list[ConstantSlot]] = {}
    for slot in context.placement.constants:
        slots.setdefault(slot.tensor, []).append(slot)
    for layer in groups.layers:
        data, output = problem.index(groups, layer.data), problem.index(groups, layer.output)
        noise = (
            None if data is None and output is None else _noise_of_layer(layer, slots.get(name_of(layer.weight), []))
        )
        if noise is not None:
            ratios = noise.ratios if not layer.divides else np.roll(noise.ratios[::-1], 1)
            problem.layers.append((data, output, ratios))


def _noise_of_layer(layer: Layer, slots: Sequence[ConstantSlot]) -> Noise | None:
    """Returns the noise of a weight; None where it has no one scale: many have each a position of their own."""
    if len(slots) != 1 or slots[0].axis is not None or not searches(slots[0].spec):
        return None
    return noise_of_weight(array_of(layer.weight).astype(np.float32, copy=False), slots[0].spec)


def _multiply(groups: Groups, factors: Mapping[ir.Value, float]) -> None:
    """Multiplies the weights of layers, and the constants that have the factor of a tensor."""
    for layer in groups.layers:
        ratio = factors.get(groups.of(layer.output), 1.0) / factors.get(groups.of(layer.data), 1.0)
        _change(layer.weight, 1 / ratio if layer.divides else ratio)
    for constant, value in groups.constants:
        _change(constant, factors.get(groups.of(value), 1.0))


def _change(value: ir.Value, factor: float) -> None:
    if factor != 1:
        set_constant(value, (array_of(value).astype(np.float64) * factor).astype(np.float32))


def _rescale(context: Context, factors: Mapping[str, float]) -> None:
    """Multiplies statistics and ranges of activations by their factors."""
    context.statistics = {
        name: scale_statistics(seen, factors[name]) if name in factors else seen
        for name, seen in context.statistics.items()
    }
    context.ranges = {
        name: replace(kept, min=kept.min * factors[name], max=kept.max * factors[name]) if name in factors else kept
        for name, kept in context.ranges.items()
    }


def _choose(
    context: Context,
    noises: Sequence[tuple[tuple[str, ...], Noise]],
    groups: Mapping[str, int | None],
    positions: Sequence[int],
) -> None:
    """Gives activations the ranges of the scales of least noise."""
    ranges = dict(context.ranges)
    for members, noise in noises:
        position = at(positions, groups[members[0]])
        if position == 0 and len(members) == 1:
            continue
        scale = float(noise.scales[position])
        for name in members:
            ranges[name] = _reach(context, name, scale)
    context.ranges = ranges


def _reach(context: Context, name: str, scale: float) -> Range:
    low, high = range_of_scale(context.statistics[name].range, scale, context.placement.specs[name])
    return replace(context.ranges[name], min=low, max=high)


SCALE_ALIGNMENT = Algorithm("power-of-two scale alignment", "float weights", _settings, _run)
