"""Statistics of one tensor, with histograms in half the memory or less, as a model has hundreds of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import _core
from quarkfast.kernels import Histogram, Moments, Range
from quarkfast.statistics.request import TensorRequest

__all__ = ["CompactHistogram", "TensorStatistics", "merge_statistics", "read_collector"]


class CompactHistogram(Histogram):
    """A histogram whose counts have the fewest bytes that hold the largest of them; they are widened when asked for.

    Attributes:
        kept: The counts in these bytes.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> wide = histogram(np.float32([1.0, 2.0, 2.0]))
        >>> found = CompactHistogram(wide.counts, wide.exponent, wide.range)
        >>> found.counts.dtype, np.array_equal(found.counts, wide.counts), found.kept.dtype
        (dtype('uint64'), True, dtype('uint8'))
    """

    kept: NDArray[np.unsignedinteger]

    def __init__(self, counts: NDArray[np.uint64], exponent: int, range: Range) -> None:
        """Takes what a histogram has."""
        kept = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        self.__dict__.update(kept=kept, exponent=exponent, range=range)

    @property
    def counts(self) -> NDArray[np.uint64]:
        """The counts, as those of any histogram; widened anew each time."""
        widened: NDArray[np.uint64] = self.kept.astype(np.uint64)
        return widened


_UNIT = 1 << 149  # sums count multiples of the smallest subnormal float32


@dataclass(frozen=True, slots=True, eq=False)
class TensorStatistics:
    """The statistics of one tensor. Equal where every number is equal.

    Attributes:
        range: Extremes of the finite values, and counts of the special ones.
        extremes: Number of observations (runs that had a finite value), and the sums of their minima and of their
            maxima, in units of 2^-149; None where only a range is known.
        histogram: Dyadic histogram, where it was asked for.
        sums: Sum of the values in units of 2^-149 and of their squares in units of 2^-298, where they were asked for.
        channel_absmax: Largest finite magnitude in each channel, float32, where it was asked for.
    """

    range: Range
    extremes: tuple[int, int, int] | None = None
    histogram: Histogram | None = None
    sums: tuple[int, int] | None = None
    channel_absmax: NDArray[np.float32] | None = None

    @property
    def mean_extremes(self) -> tuple[float, float]:
        """Mean of the minima and mean of the maxima over observations, rounded once; the extremes where unknown."""
        if self.extremes is None or not self.extremes[0]:
            return self.range.min, self.range.max
        count, low, high = self.extremes
        return low / (count * _UNIT), high / (count * _UNIT)  # integers: correctly rounded

    @property
    def moments(self) -> Moments | None:
        """Mean and variance, where sums were gathered."""
        if self.sums is None:
            return None
        return Moments(self.range.finite, *self.sums)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorStatistics):
            return NotImplemented
        return (
            (self.range, self.extremes, self.sums) == (other.range, other.extremes, other.sums)
            and _same(self.histogram, other.histogram)
            and _alike(self.channel_absmax, other.channel_absmax)
        )

    __hash__ = None  # type: ignore[assignment]


def _same(a: Histogram | None, b: Histogram | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.exponent == b.exponent and np.array_equal(a.counts, b.counts)


def _alike(a: NDArray[np.float32] | None, b: NDArray[np.float32] | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def read_collector(collector: Any, slot: int, request: TensorRequest) -> TensorStatistics:
    """Returns what a slot of a ``_core.Collector`` holds, as far as it is asked for."""
    seen = Range(**collector.range(slot))
    counts, exponent = collector.histogram(slot) if request.histogram else (None, 0)
    return TensorStatistics(
        seen,
        collector.extremes(slot),
        None if counts is None else CompactHistogram(counts, exponent, seen),
        collector.moments(slot) if request.moments else None,
        collector.channel_absmax(slot) if request.channel_axis is not None else None,
    )


def merge_statistics(parts: Sequence[Iterable[TensorStatistics]]) -> list[TensorStatistics]:
    """Adds up the statistics of the same tensors, natively and exactly, in whatever order.

    What only some of the parts have (a histogram, sums, extremes) is left out of the result.

    Args:
        parts: For each part one entry a tensor, in the same order.
    """
    tensors = list(zip(*parts, strict=True))
    collector = _core.Collector(len(tensors), histogram=True, moments=True)
    merged = []
    for slot, each in enumerate(tensors):
        histogram, sums, extremes = (
            all(getattr(part, name) is not None for part in each) for name in ("histogram", "sums", "extremes")
        )
        for part in each:
            counts = (part.histogram.counts, part.histogram.exponent) if part.histogram and histogram else None
            collector.merge(slot, asdict(part.range), part.extremes or (0, 0, 0), counts, part.sums if sums else None)
        total = read_collector(collector, slot, TensorRequest(histogram, sums))
        known = total.extremes if extremes else None
        merged.append(replace(total, extremes=known, channel_absmax=_largest([part.channel_absmax for part in each])))
    return merged


def _largest(parts: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    """Returns the largest magnitude of each channel; None where a part has none, or no run in which to see any."""
    known = [part for part in parts if part is not None and part.size]
    if any(part is None for part in parts) or len({part.size for part in known}) > 1:
        return None
    found: NDArray[np.float32] = np.max(known, axis=0) if known else np.zeros(0, np.float32)
    return found
