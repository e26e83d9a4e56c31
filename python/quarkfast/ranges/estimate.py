"""From the statistics of tensors to the ranges to keep, by the methods of their specs."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from quarkfast.errors import CalibrationError
from quarkfast.kernels import Range
from quarkfast.kernels.isa import num_threads
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary

__all__ = ["estimate_range", "estimate_ranges", "needs_histogram"]


def needs_histogram(spec: RangeSpec) -> bool:
    """Whether the method of `spec` reads histograms."""
    return METHODS[spec.method].needs_histogram


def estimate_range(summary: TensorSummary, spec: RangeSpec, name: str) -> ClippingRange:
    """Returns the range of values that the codes of `spec` should hold; what lies outside saturates.

    Args:
        summary: Statistics of the tensor.
        spec: An integer type and a method.
        name: Name of the tensor, for the message.

    Returns:
        Lowest and highest value, finite; ``(inf, -inf)`` where no finite value was seen.

    Raises:
        CalibrationError: If the method reads histograms and there is none.

    Example:
        >>> import numpy as np
        >>> from quarkfast.config import TensorSpec
        >>> from quarkfast.kernels import histogram
        >>> from quarkfast.ranges.summary import ValuesSummary
        >>> summary = ValuesSummary(histogram(np.arange(-1000, 1001, dtype=np.float32)))
        >>> estimate_range(summary, TensorSpec("int8", method="percentile", percentile=90.0), "x")
        (-900.475, 900.475)
    """
    row = METHODS[spec.method]
    if row.needs_histogram and summary.histogram is None:
        raise CalibrationError(
            f"calibration: expected a histogram of tensor {name!r}, which method {spec.method!r} reads, got its range "
            "alone; calibrate with histogram=True, or use method minmax"
        )
    if summary.range.min > summary.range.max:
        return summary.range.min, summary.range.max
    return row.estimate(summary, spec)


def estimate_ranges(summaries: Mapping[str, TensorSummary], specs: Mapping[str, RangeSpec]) -> dict[str, Range]:
    """Returns :func:`estimate_range` for every tensor of `summaries`, with the counts of what was seen.

    Several at once: methods run without Python's lock.

    Raises:
        CalibrationError: As there.
    """

    def estimate(name: str) -> Range:
        low, high = estimate_range(summaries[name], specs[name], name)
        return replace(summaries[name].range, min=low, max=high)

    if not any(needs_histogram(specs[name]) for name in summaries):
        return {name: estimate(name) for name in summaries}
    with ThreadPoolExecutor(num_threads()) as pool:
        return dict(zip(summaries, pool.map(estimate, summaries), strict=True))
