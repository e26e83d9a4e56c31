"""Range search: of several kinds of ranges of activations, the one with which outputs have the least noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.activation_noise import activation_judge, gains_of, may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, Context, Settings
from quarkfast.algorithms.scale_alignment import with_one_scale
from quarkfast.config import Scheme
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.kernels import Range
from quarkfast.ranges.error_norm import POWERS, least_power_ranges
from quarkfast.statistics import StatisticsRequest

__all__ = ["RANGE_SEARCH", "RangeSearchSettings"]

Noises = NDArray[np.float64]

# Between independent errors, whose squares add up, and those of saturation, which add up themselves. On 600 other
# images it was best or within 0.2 dB of it for ResNet-20 and MobileNetV2, 64 and 256 images, A8W8 and XINT8.
_FIRST = 2.5

# Samples object where the mean of what they say is this many of its standard errors below nothing.
_DECISIVE = 2.0

# Every so many samples one is held apart.
_APART = 3


@dataclass(frozen=True, slots=True)
class RangeSearchSettings:
    """Settings of the range search. Every third sample is held apart, and judges what the rest choose.

    Attributes:
        samples: Most samples that are run.
        enough_numbers: Numbers of outputs, over all samples, that tell as much as more would.
        least_samples: Fewest samples, whatever the outputs; with fewer ranges stay as they are.
    """

    samples: int = 64
    enough_numbers: int = 100_000
    least_samples: int = 12


def _run(context: Context, settings: RangeSearchSettings) -> bool:
    """Chooses ranges of activations by what they do to the outputs, and keeps them if other samples do not object.

    1. For each power of `quarkfast.ranges.error_norm` every activation has the range of least error to that power; one
       power holds for all of them. Ranges of each tensor's own by the noise of outputs fit the few samples: on other
       images resnet20 and mobilenetv2 then lost 0.3 to 9 dB.
    2. The model with rounded activations and float weights runs with each kind of ranges and with those of the method.
    3. The power 2.5 is taken where no other kind, nor the method, is better by more than a standard error.
    4. Samples held apart, every third, judge that: where they show more noise than with the ranges of the method, by
       more than two standard errors, these stay.

    Of each sample the ratio of the noise of both is taken, and the mean of their logarithms.

    Ranges that the user or an operator gives, those of tensors with a method of their own, and those of tensors that
    the target gives one scale stay, and those that reach beyond the few values that were seen.
    """
    if context.shifted is not None or not may_judge_activations(context):  # offsets go with the ranges there are
        return False
    kinds, feeds = _kinds(context), context.read_samples(settings.samples)
    if _FIRST not in kinds or len(feeds) < settings.least_samples:
        return False
    plans = {power: plan for power, ranges in kinds.items() if _differs(plan := context.plan_with(ranges), context)}
    forms = context.simulate_activations([None, *plans.values()])
    own, *others = _noises(context, forms, feeds, settings)
    if not own.size:
        return False
    found = dict(zip(plans, others, strict=True))
    apart = np.arange(own.size) % _APART == _APART - 1
    power = _choose({None: own[~apart]} | {power: noise[~apart] for power, noise in found.items()})
    if power is None:
        context.notes.append("range search: no other ranges of activations make less noise than those of the method")
        return False
    return _keep_unless_worse(context, power, plans[power], own[apart], found[power][apart])


def _noises(
    context: Context, forms: Sequence[TriedForm], feeds: Sequence[Feed], settings: RangeSearchSettings
) -> list[Noises]:
    """Returns the noise of each form on as many samples as tell enough."""
    judge = activation_judge(context, forms)
    for count, feed in enumerate(feeds):
        if count >= settings.least_samples and judge.numbers >= settings.enough_numbers:
            break
        judge.see(feed)
    found = judge.noises()
    judge.close()
    return found


def _differs(plan: Any, context: Context) -> bool:
    """Whether a plan has another scale of an activation than that of `context`."""
    had = context.plan.quantizers
    return any(not np.array_equal(each.scale, had[name].scale) for name, each in plan.quantizers.quantizers.items())


def _choose(noises: Mapping[float | None, Noises]) -> float | None:
    """Returns the power whose noise is least, but the first where none is better by more than a standard error."""
    chosen: float | None = _FIRST if _FIRST in noises else None
    for power, noise in noises.items():
        gain, error = _gain(noises[chosen], noise)
        if gain > error:
            chosen = power
    return chosen


def _gain(one: Noises, other: Noises) -> tuple[float, float]:
    """Returns how much less noise there is in `other`, in dB on the mean of samples, and the standard error of that."""
    gains = gains_of(one, other)
    if gains.size < 2:
        return 0.0, 0.0
    return float(np.mean(gains)), float(np.std(gains, ddof=1)) / math.sqrt(gains.size)


def _kinds(context: Context) -> dict[float, Mapping[str, Range]]:
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


def _keep_unless_worse(context: Context, power: float, plan: object, had: Noises, has: Noises) -> bool:
    """Takes the plan unless samples held apart show that it is worse."""
    gain, error = _gain(had, has)
    measured = f"with rounded activations alone outputs gain {gain:.1f} dB in the mean of {had.size} samples held apart"
    if not gain >= -_DECISIVE * error:
        context.notes.append(f"range search was undone: {measured}")
        return False
    context.take_plan(plan)
    context.notes.append(f"range search: ranges of least error to the power {power:g}; {measured}")
    return True


def _settings(scheme: Scheme) -> Settings | None:
    return RangeSearchSettings() if scheme.searches_ranges else None


def _request(context: Context, settings: RangeSearchSettings) -> StatisticsRequest:
    return StatisticsRequest.of(context.placement.observed, histogram=True)


def _reread(settings: RangeSearchSettings) -> int:
    return settings.samples


RANGE_SEARCH = Algorithm("range search", "scales", _settings, _run, _request, reread=_reread)
