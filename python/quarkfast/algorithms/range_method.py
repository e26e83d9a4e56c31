"""Range method: ranges of least squared error in place of the extremes, where outputs have less noise with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.activation_noise import activation_noises, gains_of, may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, Context, Settings
from quarkfast.config import Scheme
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.statistics import StatisticsRequest

__all__ = ["RANGE_METHOD", "RangeMethodSettings"]

# Samples have decided where the mean of what they say is this many of its standard errors from nothing. Of the first
# three it is Student's t of two degrees of freedom, which they exceed by chance once in twenty times.
_DECISIVE, _DECISIVE_OF_FEW = 2.0, 4.3
_FEW = 3


@dataclass(frozen=True, slots=True)
class RangeMethodSettings:
    """Settings of the range method.

    Attributes:
        samples: Most samples that judge.
        enough_numbers: Numbers of outputs, over all samples, that tell as much as more would.
        least_samples: Fewest samples, whatever the outputs; with fewer ranges stay as they are.
    """

    samples: int = 16
    enough_numbers: int = 10_000
    least_samples: int = 6


def _run(context: Context, settings: RangeMethodSettings) -> bool:
    """Gives activations the ranges of least squared error, if samples show that outputs have less noise with them.

    The extremes of a few samples spend codes on what is seen once in thousands of values. Which of the two is better is
    not to be seen in a tensor: it depends on how much the outputs need the few large values.

    The model runs with rounded activations and float weights, with either kind of ranges. On each sample the ratio of
    the noise of both is taken; the mean of their logarithms has to be above zero by two standard errors. Three samples
    are enough where they agree, either way.
    """
    if not may_judge_activations(context):
        return False
    if any(each.histogram is None for name, each in context.statistics.items() if name in context.ranges):
        return False
    feeds = context.read_samples(settings.samples)
    if len(feeds) < settings.least_samples:
        return False
    planned = context.plan_by_method("minmse")
    if planned.ranges == context.ranges:
        return False
    forms = context.simulate_activations([None, planned])
    gains, factor = _gains(context, forms, feeds[:_FEW], _FEW, 0), _DECISIVE_OF_FEW
    if gains.size == _FEW and not _are_decided(abs(gains.mean()), gains, factor):
        others = _gains(context, forms, feeds[_FEW:], settings.least_samples - _FEW, settings.enough_numbers)
        gains, factor = np.concatenate([gains, others]), _DECISIVE
    if gains.size < _FEW or not _are_decided(gains.mean(), gains, factor):
        return False
    context.take_plan(planned)
    context.notes.append(
        "ranges of least squared error in place of the extremes: with rounded activations alone outputs gain "
        f"{gains.mean():.1f} dB in the mean of {gains.size} samples"
    )
    return True


def _gains(
    context: Context, forms: Sequence[TriedForm], feeds: Sequence[Feed], least: int, enough: int
) -> NDArray[np.float64]:
    """Returns how much less noise there is on samples in the second of two forms; samples without any are left out."""
    return gains_of(*activation_noises(context, forms, feeds, least, enough))


def _are_decided(gain: float, gains: NDArray[np.float64], factor: float) -> bool:
    """Whether a gain is above zero by so many standard errors of the mean of some gains."""
    return bool(gain > factor * np.std(gains, ddof=1) / math.sqrt(gains.size))


def _settings(scheme: Scheme) -> Settings | None:
    spec = scheme.activation
    narrow = scheme.encoding == "qdq" and spec.format.is_integer and spec.format.bits <= 8
    left = scheme.search_ranges is None and scheme.rounding == "nearest" and not scheme.strict
    return RangeMethodSettings() if narrow and left and spec.method == "minmax" else None


def _request(context: Context, settings: Any) -> StatisticsRequest:
    return StatisticsRequest.of(context.placement.observed, histogram=True)


def _reread(settings: Any) -> int:
    return int(settings.samples)


RANGE_METHOD = Algorithm("range method", "scales", _settings, _run, _request, reread=_reread)
