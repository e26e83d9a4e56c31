"""The range in front of a function: it may end where the function is flat."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.ranges.decibels import decibels
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec

__all__ = ["FunctionRange", "range_for_function"]

Values: TypeAlias = NDArray[np.float64]

# Ends are tried at every 64th of themselves: that moves the step of codes by 1.6 % at most, the error by 0.14 dB.
_PLACES = 64
_SHARES = np.arange(_PLACES - 1, 0, -1, dtype=np.float64) / _PLACES

# Values of a bin are taken for evenly spread: each stands for as many numbers, in the middle of equal parts.
_PARTS = 4


class FunctionRange(NamedTuple):
    """A range for the input of a function.

    Attributes:
        low: The least value to keep.
        high: The largest.
        sqnr: Ratio of the function's results to the noise that codes of the range leave in them, in dB.
    """

    low: float
    high: float
    sqnr: float


def range_for_function(
    histogram: Histogram,
    kept: ClippingRange,
    spec: RangeSpec,
    compute: Callable[[Values], Values],
    worth: float,
) -> FunctionRange | None:
    """Returns the range within `kept` that leaves the results of a function of the values the least squared error.

    None where that is `kept` itself.

    Hard-swish gives 0 for all below -3: of codes that reach from -12 to 3 three fifths tell nothing. So an end moves
    where the function is flat: as long as the results for all that lies beyond differ by half a step of codes of their
    own from that for the end, which their rounding hides. Where it rises or falls, no end moves.

    Args:
        histogram: Of the values.
        kept: The range that a method has found for them; codes reach to zero in any case.
        spec: Their type, of 8 bits at most, since a step must hold several bins.
        compute: The function, of a float64 array.
        worth: The part of the error with `kept` that another range may leave at the most.

    Example:
        >>> from quarkfast.config import TensorSpec
        >>> from quarkfast.kernels import histogram
        >>> h = histogram(np.linspace(-12, 3, 1001, dtype=np.float32))
        >>> spec = TensorSpec("uint8", symmetric=False)
        >>> found = range_for_function(h, (-12.0, 3.0), spec, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 0.8)
        >>> found.low, found.high
        (-3.0, 3.0)
    """
    low, high = min(max(kept[0], histogram.range.min), 0.0), max(min(kept[1], histogram.range.max), 0.0)
    if not low < high:
        return None
    error = _FunctionError(histogram, compute, spec)
    best, least = (low, high), None if (low, high) == tuple(kept) else error(low, high)
    for scan in (_both_ends, _low_end, _high_end):
        ends = scan(*best)
        found = ends[:, : error.count_hidden(*ends)]
        if not found.size:
            continue
        left = error.of(*found)
        least = error(low, high) if least is None else least
        if left.min() < least:
            place = int(left.argmin())
            best, least = (float(found[0, place]), float(found[1, place])), float(left[place])
    if least is None or best == tuple(kept) or least > worth * error(*kept):
        return None
    return FunctionRange(*best, error.decibels(least))


def _both_ends(low: float, high: float) -> Values:
    ends = max(-low, high) * _SHARES
    return np.stack([np.maximum(low, -ends), np.minimum(high, ends)])


def _low_end(low: float, high: float) -> Values:
    return np.stack([low * _SHARES, np.full_like(_SHARES, high)])


def _high_end(low: float, high: float) -> Values:
    return np.stack([np.full_like(_SHARES, low), high * _SHARES])


class _FunctionError:
    """The squared error that codes leave in the results of a function, from sums over sorted values.

    Within a code the results ``f`` of values with weights ``w`` have the error ``sum(w f^2) - 2 g sum(w f) + g^2
    sum(w)``, with ``g`` the result of what the code stands for.
    """

    def __init__(self, histogram: Histogram, compute: Callable[[Values], Values], spec: RangeSpec) -> None:
        self._compute, self._spec = compute, spec
        weights = histogram.counts.astype(np.float64)
        weights[HISTOGRAM_SIDE] -= histogram.range.zero  # zeros have a code of their own
        bins = np.flatnonzero(weights)
        parts = (np.arange(_PARTS) + 0.5) / _PARTS
        middles = (bins[:, None] - HISTOGRAM_SIDE + parts).reshape(-1)
        self._values = np.ldexp(middles, histogram.exponent).clip(histogram.range.min, histogram.range.max)
        self._shares = np.repeat(weights[bins] / _PARTS, _PARTS)
        self._results = compute(self._values)
        params = params_for(-1.0, 1.0, spec)
        self._half = float(np.ptp(self._results)) / (params.qmax - params.qmin) / 2

    @cached_property
    def _sums(self) -> list[Values]:
        powers = (self._results**2, self._results, 1.0)
        return [np.concatenate([[0.0], np.cumsum(self._shares * power)]) for power in powers]

    @cached_property
    def _extremes(self) -> tuple[list[Values], list[Values]]:
        """Extremes of the results for all values up to each, and from each on: of those, an end needs no others."""
        kinds = (np.minimum.accumulate, np.maximum.accumulate)
        return [each(self._results) for each in kinds], [each(self._results[::-1])[::-1] for each in kinds]

    def __call__(self, low: float, high: float) -> float:
        return float(self.of(np.array([low]), np.array([high]))[0])

    def of(self, lows: Values, highs: Values) -> Values:
        """Returns the error with each of some ranges, none of which is NaN."""
        params = params_for(lows, highs, self._spec)
        scale, zero_point = (np.asarray(each, np.float64)[:, None] for each in (params.scale, params.zero_point))
        codes = np.arange(params.qmin, params.qmax + 1, dtype=np.float64) - zero_point
        inner = np.searchsorted(self._values, (codes[:, :-1] + 0.5) * scale)
        ends = np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (0, self._values.size)))
        squares, products, shares = (np.diff(sums[ends]) for sums in self._sums)
        given = self._compute(codes * scale)
        found = (squares - 2 * given * products + given**2 * shares).sum(axis=1)
        return np.where(np.isnan(found), np.inf, found)

    def count_hidden(self, lows: Values, highs: Values) -> int:
        """Returns of how many ranges, from the first, rounding of the results hides what lies beyond.

        That is that of all values below the low end, and of all above the high one, there is one result each.
        """
        below, above = np.searchsorted(self._values, lows), np.searchsorted(self._values, highs)
        at_low, at_high, last = self._compute(lows), self._compute(highs), self._values.size - 1
        if not (
            self._is_one(self._results[: below[0]], at_low[0]) and self._is_one(self._results[above[0] :], at_high[0])
        ):
            return 0
        hidden, (up_to, from_on) = np.ones(len(lows), np.bool_), self._extremes
        for found in up_to:
            hidden &= (below == 0) | (np.abs(found[below - 1] - at_low) <= self._half)
        for found in from_on:
            hidden &= (above > last) | (np.abs(found[np.minimum(above, last)] - at_high) <= self._half)
        return len(hidden) if hidden.all() else int(hidden.argmin())

    def _is_one(self, results: Values, at_end: float) -> bool:
        """Whether rounding hides how results differ from that for an end."""
        return not results.size or bool(np.abs(np.array([results.min(), results.max()]) - at_end).max() <= self._half)

    def decibels(self, noise: float) -> float:
        """Returns the ratio of the signal of the results to noise in them."""
        signal = float(self._sums[0][-1])
        return decibels(signal, noise) if signal > 0 and noise > 0 else math.inf
