"""Statistics of tensors whose channels are multiplied, or shifted, afterwards."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram, Range
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.statistics.tensor import TensorStatistics

__all__ = ["move_histogram", "scale_statistics", "shift_statistics"]

_EXPONENTS = -126, 117


def scale_statistics(found: TensorStatistics, factor: float) -> TensorStatistics:
    """Returns the statistics of a tensor whose values are multiplied by `factor`, without another look at them.

    Extremes are exact but for a rounding to float32. A histogram gets other bins: counts move as if values were spread
    evenly inside a bin, and their sum stays. Sums of values and of extremes are left out.

    Args:
        found: Of the tensor as it was.
        factor: Above 0.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> seen = histogram(np.float32([-1, 0, 3]))
        >>> scaled = scale_statistics(TensorStatistics(seen.range, histogram=seen), 1.5)
        >>> scaled.range.min, scaled.range.max, int(scaled.histogram.counts.sum())
        (-1.5, 4.5, 3)
    """
    seen = found.range
    scaled = replace(seen, min=_multiplied(seen.min, factor), max=_multiplied(seen.max, factor))
    histogram, channels = found.histogram, found.channel_absmax
    return TensorStatistics(
        scaled,
        histogram=None if histogram is None else move_histogram(histogram, scaled, factor),
        channel_absmax=None if channels is None else (channels.astype(np.float64) * factor).astype(np.float32),
    )


def _multiplied(value: float, factor: float) -> float:
    return float(np.float32(value * factor))


def move_histogram(histogram: Histogram, moved: Range, factor: float = 1.0, offset: float = 0.0) -> Histogram:
    """Returns the histogram of ``factor * x - offset``, as if values were spread evenly inside a bin.

    Args:
        histogram: Of ``x``.
        moved: The range of the result.
        factor: Above 0.
        offset: Finite.
    """
    if moved.min > moved.max:  # no finite value
        return Histogram(histogram.counts, histogram.exponent, moved)
    _, octave = math.frexp(max(abs(moved.min), abs(moved.max)))
    exponent = min(max(octave - int(math.log2(HISTOGRAM_SIDE)), _EXPONENTS[0]), _EXPONENTS[1])
    counts = histogram.counts.astype(np.int64)
    zeros = histogram.range.zero
    counts[HISTOGRAM_SIDE] -= zeros  # which are one number behind as well
    below = np.concatenate([[0], counts.cumsum()])
    edges = np.ldexp(np.arange(-HISTOGRAM_SIDE, HISTOGRAM_SIDE + 1, dtype=np.float64), exponent)
    ends: NDArray[np.int64] = np.rint(np.interp((edges + offset) / factor, histogram.edges, below)).astype(np.int64)
    ends[0], ends[-1] = 0, below[-1]
    spread = np.diff(ends)
    place = math.floor(math.ldexp(abs(offset), -exponent))
    spread[HISTOGRAM_SIDE - 1 - place if offset > 0 else HISTOGRAM_SIDE + place] += zeros
    return Histogram(spread.astype(np.uint64), exponent, moved)


def shift_statistics(found: TensorStatistics, offset: float) -> TensorStatistics:
    """Returns the statistics of a tensor less `offset`, without another look at it.

    Extremes are exact but for a rounding to float32. Counts of a histogram move as if values were spread evenly inside
    a bin, and zeros as the one number that they become. A channel's largest magnitude is the largest that it may have:
    one that has no values below zero is known on either side. Sums of values and of extremes are left out.

    Args:
        found: Of the tensor as it was.
        offset: Finite.

    Example:
        >>> from quarkfast.kernels import histogram
        >>> seen = histogram(np.float32([0, 0, 3]))
        >>> shifted = shift_statistics(TensorStatistics(seen.range, histogram=seen), 1.5)
        >>> shifted.range.min, shifted.range.max, int(shifted.histogram.counts.sum())
        (-1.5, 1.5, 3)
    """
    seen, histogram, channels = found.range, found.histogram, found.channel_absmax
    moved = replace(seen, min=_less(seen.min, offset), max=_less(seen.max, offset), zero=0)
    return TensorStatistics(
        moved,
        histogram=None if histogram is None else move_histogram(histogram, moved, offset=offset),
        channel_absmax=None if channels is None else _channels(channels, seen, offset),
    )


def _less(value: float, offset: float) -> float:
    return float(np.float32(value - offset))


def _channels(channels: np.ndarray, seen: Range, offset: float) -> np.ndarray:
    wide = channels.astype(np.float64)
    low = np.zeros_like(wide) if seen.min >= 0 else -wide
    return np.maximum(np.abs(wide - offset), np.abs(low - offset)).astype(np.float32)
