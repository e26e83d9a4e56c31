"""Statistics of a tensor that is multiplied, from those of the tensor as it was."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram, Range
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.statistics.tensor import TensorStatistics

__all__ = ["scale_statistics"]

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
        histogram=None if histogram is None else _rebinned(histogram, scaled, factor),
        channel_absmax=None if channels is None else (channels.astype(np.float64) * factor).astype(np.float32),
    )


def _multiplied(value: float, factor: float) -> float:
    return float(np.float32(value * factor))


def _rebinned(histogram: Histogram, scaled: Range, factor: float) -> Histogram:
    if scaled.min > scaled.max:  # no finite value
        return Histogram(histogram.counts, histogram.exponent, scaled)
    _, octave = math.frexp(max(abs(scaled.min), abs(scaled.max)))
    exponent = min(max(octave - int(math.log2(HISTOGRAM_SIDE)), _EXPONENTS[0]), _EXPONENTS[1])
    counts = histogram.counts.astype(np.int64)
    counts[HISTOGRAM_SIDE] -= scaled.zero  # zeros stay where they are
    below = np.concatenate([[0], counts.cumsum()])
    edges = np.ldexp(np.arange(-HISTOGRAM_SIDE, HISTOGRAM_SIDE + 1, dtype=np.float64), exponent)
    moved: NDArray[np.int64] = np.rint(np.interp(edges / factor, histogram.edges, below)).astype(np.int64)
    moved[0], moved[-1] = 0, below[-1]
    spread = np.diff(moved)
    spread[HISTOGRAM_SIDE] += scaled.zero
    return Histogram(spread.astype(np.uint64), exponent, scaled)
