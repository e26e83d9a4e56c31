"""Range method: ranges of least squared error in place of the extremes, where outputs have less noise with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.activation_noise import activation_judge, gains_of, may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.config import Scheme
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.sample_noise import SampleNoise
from quarkfast.statistics import StatisticsRequest

__all__ = ["RANGE_METHOD", "RangeMethodSettings"]

# Samples have decided where the mean of what they say is this many of its standard errors from zero, either way. Of 47
# pairs of a model and a preset (24 models from the wild in A8W8 and U8S8; in nine pairs 16 samples lose 1.1 dB in the
# mean by least squares, in the others they gain 1.8) that takes 66 of the 67 dB to be had with 6.3 samples in the mean,
# and no pair loses. Two standard errors for least squares and a half against them take 65 with 9.1 samples.
_CLEAR = 1.0

# Three have decided where it is that many from zero, and so have four of many numbers: Student's t, which the mean of
# samples that say nothing exceeds by chance once in twenty times.
_FEW = 3
_DECISIVE_OF_FEW = {3: 4.30, 4: 3.18}


@dataclass(frozen=True, slots=True)
class RangeMethodSettings:
    """Settings of the range method.

    Attributes:
        samples: Most samples that judge.
        enough_numbers: Numbers of outputs, over all samples, with which four may decide.
        least_samples: From so many on the mean decides as soon as it is clear; with fewer in all, ranges stay.
    """

    samples: int = 16
    enough_numbers: int = 10_000
    least_samples: int = 5


def _run(context: AlgorithmContext, settings: RangeMethodSettings) -> bool:
    """Gives activations the ranges of least squared error, if samples show that outputs have less noise with them.

    The extremes of a few samples spend codes on what is seen once in thousands of values. Which of the two is better is
    not to be seen in a tensor: it depends on how much the outputs need the few large values.

    The model runs with rounded activations and float weights, with either kind of ranges. On each sample the ratio of
    the noise of both is taken, and the mean of their logarithms decides. Three samples are enough where they agree,
    either way, and four where outputs have many numbers; five and more as soon as the mean is a standard error above
    zero or below it. Where all samples leave it between these, ranges stay.
    """
    if context.shifted is not None or not may_judge_activations(context):  # offsets go with the ranges there are
        return False
    if any(each.histogram is None for name, each in context.statistics.items() if name in context.ranges):
        return False
    first = context.read_samples(settings.least_samples)
    if len(first) < settings.least_samples:
        return False
    planned = context.plan_by_method("minmse")
    if planned.ranges == context.ranges:
        return False
    feeds = _feeds(context, settings, first)
    gains = _gains(activation_judge(context, context.simulate_activations([None, planned])), feeds, settings)
    if gains.size < _FEW or not _is_clear(gains, _CLEAR):
        return False
    context.take_plan(planned)
    context.notes.append(
        "ranges of least squared error in place of the extremes: with rounded activations alone outputs gain "
        f"{gains.mean():.1f} dB in the mean of {gains.size} samples"
    )
    return True


def _feeds(context: AlgorithmContext, settings: RangeMethodSettings, first: Sequence[Feed]) -> Iterator[Feed]:
    """Yields samples; those after the first are read where these have not decided."""
    yield from first
    yield from context.read_samples(settings.samples)[len(first) :]


def _gains(judge: SampleNoise, feeds: Iterable[Feed], settings: RangeMethodSettings) -> NDArray[np.float64]:
    """Returns how much less noise there is in the second form of a model than in the first, in dB.

    It is that of as many samples as tell enough; those without any noise are left out.
    """
    gains = np.zeros(0)
    for feed in feeds:
        judge.see(feed)
        gains = gains_of(*judge.noises())
        if _have_decided(gains, judge.numbers, settings):
            break
    judge.close()
    return gains


def _have_decided(gains: NDArray[np.float64], numbers: int, settings: RangeMethodSettings) -> bool:
    """Whether further samples would say the same, or cost more than they may bring."""
    if gains.size >= settings.least_samples:
        return _is_clear(gains, _CLEAR) or _is_clear(-gains, _CLEAR)
    many = numbers >= settings.enough_numbers
    factor = _DECISIVE_OF_FEW.get(gains.size) if many or gains.size == _FEW else None
    return factor is not None and (_is_clear(gains, factor) or _is_clear(-gains, factor))


def _is_clear(gains: NDArray[np.float64], factor: float) -> bool:
    """Whether the mean of some gains is above zero by so many of its standard errors."""
    return bool(gains.mean() > factor * np.std(gains, ddof=1) / math.sqrt(gains.size))


def _settings(scheme: Scheme) -> Settings | None:
    spec = scheme.activation
    narrow = scheme.encoding == "qdq" and spec.format.is_integer and spec.format.bits <= 8
    left = scheme.search_ranges is None and scheme.rounding == "nearest" and not scheme.strict
    return RangeMethodSettings() if narrow and left and spec.method == "minmax" else None


def _request(context: AlgorithmContext, settings: Any) -> StatisticsRequest:
    return StatisticsRequest.of(context.placement.observed, histogram=True)


def _reread(settings: Any) -> int:
    return int(settings.samples)


RANGE_METHOD = Algorithm("range method", "scales", _settings, _run, _request, reread=_reread)
