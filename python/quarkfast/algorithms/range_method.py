"""Range method: ranges of least squared error in place of the extremes, where outputs have less noise with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from quarkfast.algorithms.activation_noise import activation_judge, may_judge_activations
from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.config import Policy, Scheme
from quarkfast.evaluate.noise import Gains
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.sample_noise import SampleNoise
from quarkfast.statistics import StatisticsRequest

__all__ = ["RANGE_METHOD"]

# Fewer say nothing of how far they differ.
_FEW = 3


def _run(context: AlgorithmContext, policy: Policy) -> bool:
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
    first = context.read_samples(policy.range_method_least_samples)
    if len(first) < policy.range_method_least_samples:
        return False
    planned = context.plan_by_method("minmse")
    if planned.ranges == context.ranges:
        return False
    feeds = _feeds(context, policy, first)
    gains = _gains(activation_judge(context, context.simulate_activations([None, planned])), feeds, policy)
    if gains.size < _FEW or not gains.better(errors=policy.range_method_certainty):
        return False
    context.take_plan(planned)
    context.notes.append(
        "ranges of least squared error in place of the extremes: with rounded activations alone outputs gain "
        f"{gains.mean:.1f} dB in the mean of {gains.size} samples"
    )
    return True


def _feeds(context: AlgorithmContext, policy: Policy, first: Sequence[Feed]) -> Iterator[Feed]:
    """Yields samples; those after the first are read where these have not decided."""
    yield from first
    yield from context.read_samples(policy.range_method_samples)[len(first) :]


def _gains(judge: SampleNoise, feeds: Iterable[Feed], policy: Policy) -> Gains:
    """Returns what the second form of a model gains over the first, on as many samples as tell enough."""
    gains = Gains.of_noise(*np.zeros((2, 0)))
    for feed in feeds:
        judge.see(feed)
        gains = Gains.of_noise(*judge.noises())
        if _have_decided(gains, judge.numbers, policy):
            break
    judge.close()
    return gains


def _have_decided(gains: Gains, numbers: int, policy: Policy) -> bool:
    """Whether further samples would say the same, or cost more than they may bring."""
    if gains.size >= policy.range_method_least_samples:
        factor = policy.range_method_certainty
    elif gains.size == _FEW:
        factor = policy.range_method_certainty_of_three
    elif gains.size == _FEW + 1 and numbers >= policy.range_method_enough_outputs:
        factor = policy.range_method_certainty_of_four
    else:
        return False
    return gains.better(errors=factor) or gains.worse(errors=factor)


def _settings(scheme: Scheme) -> Settings | None:
    spec = scheme.activation
    narrow = scheme.encoding == "qdq" and spec.format.is_integer and spec.format.bits <= scheme.policy.narrow_bits
    left = scheme.search_ranges is None and scheme.rounding == "nearest" and not scheme.strict
    return scheme.policy if narrow and left and spec.method == "minmax" else None


def _request(context: AlgorithmContext, policy: Policy) -> StatisticsRequest:
    return StatisticsRequest.of(context.placement.observed, histogram=True)


def _reread(policy: Policy) -> int:
    return policy.range_method_samples


RANGE_METHOD = Algorithm("range method", "scales", _settings, _run, _request, reread=_reread)
