"""Ranges that keep a percentage of the values."""

from __future__ import annotations

from quarkfast import kernels
from quarkfast.ranges.error_metrics import ERROR_METRICS
from quarkfast.ranges.params import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, histogram_of, mirrored

__all__ = ["layerwise_percentile", "percentile"]


def percentile(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range that keeps ``spec.percentile`` percent."""
    return mirrored(*kernels.percentile_range(histogram_of(summary), spec.percentile, symmetric=spec.mirrored), spec)


def layerwise_percentile(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of that percentile of ``spec.percentiles`` which leaves the least error by ``spec.metric``."""
    h, error = histogram_of(summary), ERROR_METRICS[spec.metric]
    ranges = [kernels.percentile_range(h, percent, symmetric=spec.mirrored) for percent in spec.percentiles]
    found = min(ranges, key=lambda found: error(h, params_for(found[0], found[1], spec)))
    return mirrored(*found, spec)
