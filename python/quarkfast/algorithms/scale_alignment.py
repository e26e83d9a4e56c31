"""Power-of-two scale alignment: tensors are multiplied so that the powers of two fit them well."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quarkfast.algorithms.activation_noise import may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.alignment_search import Alignment, AlignmentSearch, Powers
from quarkfast.algorithms.judged_kinds import judge_kinds
from quarkfast.algorithms.scale_groups import Groups
from quarkfast.algorithms.scale_noise import range_of_scale
from quarkfast.config import Policy, Scheme
from quarkfast.deferred import ir
from quarkfast.evaluate.partial_model import Feed
from quarkfast.graph.access import array_of, name_of
from quarkfast.graph.builder import GraphBuilder, set_constant
from quarkfast.graph.walks import clip_limits
from quarkfast.kernels import Range
from quarkfast.ranges.decibels import ratio_of
from quarkfast.statistics.scaling import scale_statistics

__all__ = ["SCALE_ALIGNMENT", "ScaleAlignmentSettings"]

# The powers of the error where samples do not judge, and those that others have to beat where they do. What saturates
# behind a Relu has one sign, and its mean goes into biases.
_UNJUDGED, _FIRST = Powers(2.0, 2.0), Powers(2.0, 2.5)

# Ranges that are judged beside these, of tensors that are not multiplied.
_ALONE = Powers(2.5, 2.5)

_NAME = "power-of-two scale alignment"


@dataclass(frozen=True, slots=True)
class ScaleAlignmentSettings:
    """Settings of scale alignment.

    Attributes:
        policy: What the expected noise has to fall by, and how many samples judge.
        sweeps: How many times each group gets its turn at most; fewer where nothing changes any more.
        weight_part: What is left of the noise of nearest codes of weights.
        powers: Powers of the error of activations, for each of which there are factors to be judged.
        judged: Whether samples judge.
    """

    policy: Policy
    sweeps: int = 50
    weight_part: float = 1.0
    powers: tuple[Powers, ...] = (_UNJUDGED, _FIRST, Powers(2.5, 2.5))
    judged: bool = False


def _settings(scheme: Scheme) -> Settings | None:
    if not scheme.aligned:
        return None
    policy = scheme.policy
    part = 1.0 if scheme.rounding == "nearest" else policy.alignment_left_by_rounding
    return ScaleAlignmentSettings(policy, weight_part=part, judged=scheme.searches_ranges)


def _reread(settings: ScaleAlignmentSettings) -> int:
    return settings.policy.kinds_samples if settings.judged else 0


def _run(context: AlgorithmContext, settings: ScaleAlignmentSettings) -> bool:
    """Multiplies tensors so that powers of two fit them well, in place.

    1. Tensors between which a positive factor passes through (`quarkfast.algorithms.scale_groups`) have one factor;
       graph inputs and outputs keep theirs. Layers lie between groups: their weights and biases take up the ratio.
    2. A tensor whose best scale lies between two powers of two loses up to 6 dB. Expected noise, as a ratio to the
       power of the tensor, is periodic in a factor's octaves; sixteen factors of an octave are tried for every
       activation and for the weights of every layer. The noise of a term counts beside the power of its sum, that of
       weights a tenth where their codes are chosen by the outputs of layers.
    3. The sum of these ratios is brought down by coordinate descent over the groups, from factors of 1 and from those
       that suit the activations of a group, so that it is never larger than it was.
    4. The upper limit of a Clip moves along, where codes saturate at it or below.
    5. Where ranges are searched, there are such factors for several powers of the error, which weigh what saturates
       against what is rounded, and samples judge them beside the model as it is (`quarkfast.algorithms.judged_kinds`).
    6. Statistics are multiplied along. Ranges are those of the scales that were found; tensors that the target gives
       one scale get that of the least sum.

    Error: the rounding of weights, biases and constants to float32. No statistics are gathered again.
    """
    if not context.has_real_samples:
        return False
    search = AlignmentSearch(context, settings.weight_part)
    feeds, policy = [], settings.policy
    if settings.judged and may_judge_activations(context):
        feeds = context.read_samples(policy.kinds_samples)
    judged = settings.judged and len(feeds) >= policy.kinds_least_samples
    tried = {powers: search.find(powers, settings.sweeps) for powers in (settings.powers if judged else (_UNJUDGED,))}
    least = ratio_of(policy.alignment_gain)
    found = {(powers, True): each for powers, each in tried.items() if each.gain >= least}
    if not found:
        return False
    if not judged:
        return _align(context, search, found[_UNJUDGED, True], "")
    return _align_by_samples(context, search, found, feeds, policy)


def _align_by_samples(
    context: AlgorithmContext,
    search: AlignmentSearch,
    found: dict[tuple[Powers, bool], Alignment],
    feeds: Sequence[Feed],
    policy: Policy,
) -> bool:
    """Takes the factors with which outputs have the least noise, if any; `found` tells factors from ranges alone."""
    found[_ALONE, False] = search.find(_ALONE, 0)
    # The model as it is comes last: factors are left out where that is better by more than chance.
    plans = [*(_trial(context, search, each) for each in found.values()), context.plan_with(context.ranges)]
    forms = dict(zip((*found, None), context.simulate_activations(plans), strict=True))
    chosen = judge_kinds(context, forms, feeds, (_FIRST, True), policy)
    context.ranges_judged = chosen is not None
    if chosen is None or chosen.kind is None:
        context.notes.append(f"{_NAME} was left out: outputs have no less noise with it")
        return False
    said = f"; with rounded activations alone outputs gain {chosen.measured}"
    if chosen.is_worse:
        context.notes.append(f"{_NAME} was left out{said}")
        return False
    return _align(context, search, found[chosen.kind], said)


def _align(context: AlgorithmContext, search: AlignmentSearch, alignment: Alignment, said: str) -> bool:
    """Multiplies the model, and has statistics and ranges follow."""
    context.factors = _factors_of(context, search, alignment)
    context.ranges = _ranges_of(context, alignment, context.factors)
    context.statistics = {
        name: scale_statistics(seen, context.factors[name]) if name in context.factors else seen
        for name, seen in context.statistics.items()
    }
    _multiply(context.model, search.groups, alignment.factors)
    if alignment.factors:
        context.notes.append(
            f"{_NAME}: {len(alignment.factors)} of {alignment.free} groups of tensors are multiplied; "
            f"expected noise is {10 * math.log10(alignment.gain):.1f} dB lower{said}"
        )
    else:
        power = f"{_ALONE.others:g}"
        context.notes.append(f"{_NAME} was left out for ranges of least error to the power {power} alone{said}")
    return True


def _factors_of(context: AlgorithmContext, search: AlignmentSearch, alignment: Alignment) -> dict[str, float]:
    """Returns the factors of activations by name, those of 1 left out."""
    known = {name: search.values[name] for name in context.placement.activations if name in search.values}
    found = {name: alignment.factors.get(search.groups.of(value), 1.0) for name, value in known.items()}
    return {name: factor for name, factor in found.items() if factor != 1}


def _ranges_of(context: AlgorithmContext, alignment: Alignment, factors: Mapping[str, float]) -> dict[str, Range]:
    """Returns the ranges of activations once they are multiplied."""
    found = {}
    for name, kept in context.ranges.items():
        if name in alignment.scales:
            seen, spec = context.statistics[name].range, context.placement.specs[name]
            low, high = range_of_scale(seen, alignment.scales[name], spec)
        else:
            low, high = kept.min * factors.get(name, 1.0), kept.max * factors.get(name, 1.0)
        found[name] = replace(kept, min=low, max=high)
    return found


def _trial(context: AlgorithmContext, search: AlignmentSearch, alignment: Alignment) -> Any:
    """Returns a plan for the model as it is that rounds as the multiplied one would: its scales are divided instead."""
    factors = _factors_of(context, search, alignment)
    planned = context.plan_with(_ranges_of(context, alignment, factors))
    quantizers = {
        root: replace(each, scale=(each.scale / np.float32(factors[root])).astype(np.float32))
        if root in factors
        else each
        for root, each in planned.plan.quantizers.items()
    }
    return planned._replace(plan=replace(planned.plan, quantizers=quantizers))


def _multiply(model: ir.Model, groups: Groups, factors: Mapping[ir.Value, float]) -> None:
    """Multiplies the weights of layers, the constants that have the factor of a tensor, and upper limits."""
    for layer in groups.layers:
        ratio = factors.get(groups.of(layer.output), 1.0) / factors.get(groups.of(layer.data), 1.0)
        _change(layer.weight, 1 / ratio if layer.divides else ratio)
    for constant, value in groups.constants:
        _change(constant, factors.get(groups.of(value), 1.0))
    builder = GraphBuilder(model)
    for node in groups.limits:
        factor, (_, high) = factors.get(groups.of(node.outputs[0]), 1.0), clip_limits(node) or (None, None)
        if factor != 1 and high is not None:
            limit = np.array(high * factor, np.float32)
            node.replace_input_with(2, builder.initializer(f"{name_of(node.outputs[0])}_max", limit))


def _change(value: ir.Value, factor: float) -> None:
    if factor != 1:
        set_constant(value, (array_of(value).astype(np.float64) * factor).astype(np.float32))


SCALE_ALIGNMENT = Algorithm(_NAME, "float weights", _settings, _run, reread=_reread)
