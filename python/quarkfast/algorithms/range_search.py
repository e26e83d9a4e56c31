"""Range search: of several kinds of ranges of activations, the one with which outputs have the least noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from quarkfast.algorithms.activation_noise import may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.alignment_search import with_one_scale
from quarkfast.algorithms.judged_kinds import judge_kinds
from quarkfast.config import Policy, Scheme
from quarkfast.graph.access import name_of
from quarkfast.graph.walks import limits_of
from quarkfast.kernels import Range
from quarkfast.ranges.error_norm import POWERS, least_power_ranges
from quarkfast.statistics import StatisticsRequest

__all__ = ["RANGE_SEARCH"]

# Between independent errors, whose squares add up, and those of saturation, which add up themselves. On 600 other
# images it was best or within 0.2 dB of it for a residual and a depthwise network, 64 and 256 images, A8W8 and XINT8.
_FIRST = 2.5


def _run(context: AlgorithmContext, policy: Policy) -> bool:
    """Chooses ranges of activations by the noise of outputs, unless the holdout has more noise with them.

    1. For each power of `quarkfast.ranges.error_norm` every activation has the range of least error to that power, and
       one that ends sooner where a function alone reads it that is flat there; one power holds for all of them. Ranges
       of each tensor's own by the noise of outputs fit the few samples: on other images two classifiers then lost 0.3
       to 9 dB.
    2. The model with rounded activations and float weights runs with each kind of ranges and with those of the method.
    3. The power 2.5 is taken where no other kind, nor the method, is better by more than a standard error.
    4. The holdout, every third sample, judges that: where they show more noise than with the ranges of the method, by
       more than two standard errors, these stay.

    Of each sample the ratio of the noise of both is taken, and the mean of their logarithms.

    Where activations have lost offsets, those that no Relu or Clip limits have the power 2.5, unjudged: limits have
    codes by now. The offsets are judged together with that.

    Ranges that the user or an operator gives, those of tensors with a method of their own, and those of tensors that
    the target gives one scale stay, and those that reach beyond the few values that were seen.
    """
    if context.shifted is not None:
        return _fit_without_limits(context)
    if context.ranges_judged or not may_judge_activations(context):
        return False
    kinds, feeds = _kinds(context), context.read_samples(policy.kinds_samples)
    if _FIRST not in kinds or len(feeds) < policy.kinds_least_samples:
        return False
    plans = {power: plan for power, ranges in kinds.items() if _differs(plan := context.plan_fitted(ranges), context)}
    forms = context.simulate_activations([None, *plans.values()])
    kept = judge_kinds(context, dict(zip((None, *plans), forms, strict=True)), feeds, _FIRST, policy)
    if kept is None:
        return False
    if kept.kind is None:
        context.notes.append("range search: no other ranges of activations make less noise than those of the method")
        return False
    measured = f"with rounded activations alone outputs gain {kept.measured}"
    if kept.is_worse:
        context.notes.append(f"range search was undone: {measured}")
        return False
    context.take_plan(plans[kept.kind])
    context.notes.append(f"range search: ranges of least error to the power {kept.kind:g}; {measured}")
    return True


def _fit_without_limits(context: AlgorithmContext) -> bool:
    """Gives activations that no Relu or Clip limits the ranges of least error to the power that is tried first."""
    values = {name_of(value): value for node in context.model.graph for value in node.outputs}
    ranges = dict(context.ranges)
    for name, fitted in _kinds(context).get(_FIRST, {}).items():
        if name not in values or limits_of(values[name]) == (None, None):
            ranges[name] = fitted
    plan = context.plan_with(ranges)
    if not _differs(plan, context):
        return False
    context.take_plan(plan)
    return True


def _differs(plan: Any, context: AlgorithmContext) -> bool:
    """Whether a plan has another scale of an activation than that of `context`."""
    had = context.plan.quantizers
    return any(not np.array_equal(each.scale, had[name].scale) for name, each in plan.quantizers.quantizers.items())


def _kinds(context: AlgorithmContext) -> dict[float, Mapping[str, Range]]:
    """Returns the ranges of all activations for each power."""
    method, specs = context.scheme.activation.method, context.placement.specs
    together = {name for names in with_one_scale(context) if len(names) > 1 for name in names}
    kinds: dict[float, dict[str, Range]] = {power: dict(context.ranges) for power in POWERS}
    for name, seen in context.statistics.items():
        known = name in context.ranges and name in specs and name not in together and seen.histogram is not None
        known = known and name not in context.wider
        if not known or specs[name].method != method or not specs[name].format.is_integer or not seen.range.finite:
            continue
        assert seen.histogram is not None
        for power, (low, high) in least_power_ranges(seen.histogram, specs[name]).items():
            kinds[power][name] = replace(context.ranges[name], min=low, max=high)
    return {power: ranges for power, ranges in kinds.items() if ranges != context.ranges}


def _settings(scheme: Scheme) -> Settings | None:
    return scheme.policy if scheme.searches_ranges else None


def _request(context: AlgorithmContext, policy: Policy) -> StatisticsRequest:
    return StatisticsRequest.of(context.placement.observed, histogram=True)


def _reread(policy: Policy) -> int:
    return policy.kinds_samples


RANGE_SEARCH = Algorithm("range search", "scales", _settings, _run, _request, reread=_reread)
