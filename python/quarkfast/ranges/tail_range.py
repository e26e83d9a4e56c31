"""Tail ranges: of a tensor of which few values were seen, as far as its tails are expected to reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec

__all__ = ["range_with_tails"]

# Ends are tried at every 32nd of themselves outwards, and none further than at twice its distance from zero, so that
# one sample of another kind does not decide alone.
_PLACES = 32


class _Tail(NamedTuple):
    """Values beyond a start, whose power of 1.5 falls off exponentially.

    Attributes:
        start: Power of 1.5 of where it begins.
        excess: Mean distance of its powers from there.
        part: Its part of all values.
    """

    start: float
    excess: float
    part: float

    def squares_beyond(self, end: float) -> float:
        """Returns the mean of the squares of what values lie beyond `end`, over all values."""
        root = math.sqrt(end)
        slope = self.excess / (1.5 * root)  # what the tail near the end takes to fall off by e
        return self.part * 2 * slope * slope * math.exp(-(end * root - self.start) / self.excess)


def range_with_tails(
    histogram: Histogram, kept: ClippingRange, spec: RangeSpec, samples: int, fewest: int
) -> ClippingRange:
    """Returns `kept`, an end moved outwards where that leaves values that were not seen the least squared error.

    Other samples exceed the largest of a few hundred values, and what saturates then is the largest that there is. Of
    `n` values the `s` largest, ``sqrt(n)`` or half of the samples, are taken for a Weibull tail of shape 1.5, between
    an exponential and a normal one: with `u` where it begins and `m` the mean of ``x^1.5 - u^1.5`` over it, the share
    of values beyond `t` is ``s / n exp(-(t^1.5 - u^1.5) / m)``. They add ``2 (m / (1.5 sqrt(t)))^2`` times that share
    to the mean squared error, and a step `d` of codes adds ``d^2 / 12``. The end has the least sum of both; it moves
    neither inwards nor further than to twice its distance from zero.

    Args:
        histogram: Of the values.
        kept: The range that a method has found for them.
        spec: An integer type.
        samples: How many samples the values are from.
        fewest: Fewest values that make a tail.

    Example:
        >>> import numpy as np
        >>> from quarkfast.config import TensorSpec
        >>> from quarkfast.kernels import histogram
        >>> seen = np.random.default_rng(0).normal(0, 1, 160).astype(np.float32)
        >>> low, high = range_with_tails(histogram(seen), (seen.min(), seen.max()), TensorSpec("int8"), 16, 5)
        >>> bool(low < seen.min() or high > seen.max())
        True

    Source:
        Peaks over a threshold, as in S. Coles, "An Introduction to Statistical Modeling of Extreme Values", 2001,
        chapter 4, with a tail of given shape: a few dozen values do not tell the shape.
    """
    low, high = map(float, kept)
    params = params_for(low, high, spec)
    levels = int(params.qmax) - int(params.qmin)
    if spec.symmetric:
        end = max(-low, high)
        found = _end(
            _tail(histogram, _above(histogram) + _below(histogram), samples, fewest), end, lambda t: 2 * t / levels
        )
        return (low, high) if found == end else (low, found) if high >= -low else (-found, high)
    upper = _end(_tail(histogram, _above(histogram), samples, fewest), high, lambda t: (t - low) / levels)
    lower = _end(_tail(histogram, _below(histogram), samples, fewest), -low, lambda t: (high + t) / levels)
    return -lower, upper


def _above(histogram: Histogram) -> NDArray[np.int64]:
    """Returns how many values above zero lie in each bin, from zero outwards."""
    counts = histogram.counts[HISTOGRAM_SIDE:].astype(np.int64)
    counts[0] -= histogram.range.zero
    return counts


def _below(histogram: Histogram) -> NDArray[np.int64]:
    """Returns the same of values below zero."""
    return histogram.counts[HISTOGRAM_SIDE - 1 :: -1].astype(np.int64)


def _tail(histogram: Histogram, counts: NDArray[np.int64], samples: int, fewest: int) -> _Tail | None:
    """Returns the tail of magnitudes, given how many lie in each bin; None where too few of them are known.

    It has half as many as there are samples at the most, or a channel that stands out would be taken for the tail of
    the others.
    """
    total, outwards = int(histogram.counts.sum()), np.flatnonzero(counts)
    size = min(math.isqrt(total), samples // 2, int(counts.sum()) - 1)
    if size < fewest:
        return None
    powers, left = list[tuple[int, float]](), size
    for place in outwards[::-1].tolist():
        middle = math.ldexp(place + 0.5, histogram.exponent)
        start = middle * math.sqrt(middle)
        if counts[place] > left:  # the value behind the tail lies here
            break
        powers.append((int(counts[place]), start))
        left -= int(counts[place])
    excess = math.fsum(count * (power - start) for count, power in powers) / size
    return _Tail(start, excess, size / total) if excess > 0 else None


def _end(tail: _Tail | None, kept: float, step: Callable[[float], float]) -> float:
    """Returns the end of least error, which is `kept` or lies further out."""
    if tail is None or kept <= 0:
        return kept
    ends = [kept * (1 + each / _PLACES) for each in range(_PLACES + 1)]
    return min(ends, key=lambda end: step(end) ** 2 / 12 + tail.squares_beyond(end))
