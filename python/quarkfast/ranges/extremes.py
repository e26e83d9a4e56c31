"""Ranges from extremes: of all values, or averaged over runs."""

from __future__ import annotations

from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, mirrored

__all__ = ["minmax", "moving_average", "nonoverflow"]


def minmax(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the extremes."""
    return mirrored(summary.range.min, summary.range.max, spec)


def moving_average(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the mean of the minima and the mean of the maxima of runs."""
    return mirrored(*summary.mean_extremes, spec)


nonoverflow = minmax
"""The extremes; the method is another in how power-of-two scales are rounded."""
