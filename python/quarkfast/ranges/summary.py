"""Inputs of a range method: the statistics of a tensor, and the fields of its spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quarkfast.kernels import Histogram, Range

__all__ = ["ClippingRange", "RangeSpec", "TensorSummary", "ValuesSummary", "histogram_of", "mirrored"]

ClippingRange = tuple[float, float]
"""The lowest and the highest value that codes should hold; what lies outside saturates."""


class TensorSummary(Protocol):
    """Statistics of a tensor, as a method reads them."""

    @property
    def range(self) -> Range:
        """Extremes of the finite values, and counts."""

    @property
    def histogram(self) -> Histogram | None:
        """Histogram of the finite values, where one was gathered."""

    @property
    def mean_extremes(self) -> ClippingRange:
        """Mean of the minima and mean of the maxima of runs."""


class RangeSpec(Protocol):
    """The fields of `quarkfast.config.TensorSpec` that methods read; its docstring has their meaning."""

    @property
    def dtype(self) -> str:
        """Name of the format."""

    @property
    def symmetric(self) -> bool:
        """Whether zero maps to the middle of the codes."""

    @property
    def scale(self) -> str:
        """The set that scales are taken from."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def reduce_range(self) -> bool:
        """Whether integers use half of their codes."""

    @property
    def percentile(self) -> float:
        """Percent of the values to keep."""

    @property
    def percentiles(self) -> tuple[float, ...]:
        """Percents to choose from."""

    @property
    def metric(self) -> str:
        """What to choose by."""

    @property
    def scenario(self) -> str:
        """Which values a distribution describes."""

    @property
    def levels(self) -> int | None:
        """Groups of values."""

    @property
    def bins(self) -> int | None:
        """Bins of onnxruntime's arithmetic."""

    @property
    def range_symmetric(self) -> bool | None:
        """Whether ranges mirror themselves, or None."""

    @property
    def mirrored(self) -> bool:
        """Whether the range mirrors itself around zero."""


@dataclass(frozen=True, slots=True)
class ValuesSummary:
    """Statistics of values that are all at hand, such as those of a weight."""

    histogram: Histogram

    @property
    def range(self) -> Range:
        """Extremes of the finite values, and counts."""
        return self.histogram.range

    @property
    def mean_extremes(self) -> ClippingRange:
        """The extremes: there is one run."""
        return self.range.min, self.range.max


def histogram_of(summary: TensorSummary) -> Histogram:
    """Returns the histogram, which `quarkfast.ranges.estimate` has made sure of."""
    assert summary.histogram is not None
    return summary.histogram


def mirrored(low: float, high: float, spec: RangeSpec) -> ClippingRange:
    """Returns the range, mirrored around zero where that was asked for; symmetric codes do it themselves.

    Example:
        >>> from quarkfast.config import TensorSpec
        >>> mirrored(-1.0, 3.0, TensorSpec("uint8", symmetric=False, range_symmetric=True))
        (-3.0, 3.0)
    """
    absmax = max(-low, high)
    return (-absmax, absmax) if spec.range_symmetric else (low, high)
