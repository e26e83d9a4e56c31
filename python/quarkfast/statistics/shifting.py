"""Statistics of a tensor that loses an offset, from those of the tensor as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quarkfast.kernels import Range
from quarkfast.statistics.scaling import move_histogram
from quarkfast.statistics.tensor import TensorStatistics

__all__ = ["shift_statistics"]


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
