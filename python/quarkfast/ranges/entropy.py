"""Ranges of the least Kullback-Leibler divergence."""

from __future__ import annotations

from quarkfast import kernels
from quarkfast.formats.scalar import qtype
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, histogram_of, mirrored

__all__ = ["entropy"]


def entropy(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range by TensorRT's definition, or by onnxruntime's arithmetic where ``spec.bins`` are given."""
    levels = spec.levels or min(1 << (qtype(spec.dtype).bits - 1), spec.bins or HISTOGRAM_SIDE)
    if spec.bins is None:
        return mirrored(*kernels.entropy_range(histogram_of(summary), levels=levels), spec)
    found = kernels.entropy_range(histogram_of(summary), levels=levels, rule="onnxruntime", bins=spec.bins)
    return mirrored(*found, spec)
