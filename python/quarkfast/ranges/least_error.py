"""Ranges of the least expected squared error."""

from __future__ import annotations

from collections.abc import Iterator

from quarkfast import kernels
from quarkfast.qparams import code_range
from quarkfast.ranges.error_metrics import squared_error
from quarkfast.ranges.extremes import minmax
from quarkfast.ranges.params import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, histogram_of, mirrored

__all__ = ["auto", "minmse"]

_PERCENTS = (99.9, 99.99, 99.999)


def minmse(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of the least expected squared error, among powers of two where scales are such."""
    codes = code_range(spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
    find = kernels.power_of_two_range if spec.scale == "power_of_two" else kernels.least_error_range
    return mirrored(*find(histogram_of(summary), *codes, symmetric=spec.symmetric), spec)


def auto(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of least expected squared error among those of several methods; the first of equals wins."""
    h = histogram_of(summary)
    return min(_candidates(summary, spec), key=lambda found: squared_error(h, params_for(found[0], found[1], spec)))


def _candidates(summary: TensorSummary, spec: RangeSpec) -> Iterator[ClippingRange]:
    """Yields what ``"auto"`` chooses from.

    Not entropy, which takes as long as all others: of 1115 tensors of four models and five types it won 2, by 0.02
    percent of the error.
    """
    yield minmax(summary, spec)
    yield minmse(summary, spec)
    h = histogram_of(summary)
    yield from (kernels.percentile_range(h, percent, symmetric=spec.mirrored) for percent in _PERCENTS)
