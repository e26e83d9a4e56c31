"""Ranges of the least expected error, raised to a power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec

__all__ = ["POWERS", "ErrorNorm", "least_power_ranges"]

Values = NDArray[np.float64]

# Products and square roots are rounded alike by every processor; a power of any exponent is not.
POWERS: Mapping[float, Callable[[Values], Values]] = MappingProxyType(
    {
        2.0: lambda error: error * error,
        2.5: lambda error: error * error * np.sqrt(error),
        3.0: lambda error: error * error * error,
        4.0: lambda error: (error * error) * (error * error),
    }
)
"""Power -> what raises errors, which are not negative, to it."""

# Scales that are tried: eighths of an octave down from the one that reaches the extremes, to between a fifth and a
# sixth of it, where a step is still two bins wide; of powers of two the nearest, the next one up and four down.
_EIGHTHS, _OCTAVES = 20, (1, 0, -1, -2, -3, -4)


class ErrorNorm:
    """The error of integer codes over what was seen of a tensor, raised to a power.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
        >>> norm = ErrorNorm(histogram(x))
        >>> error = norm.of(0.125, -8, 7)
        >>> expected = float(norm.total(error, 3.0)) / norm.count
        >>> measured = (np.abs(x - 0.125 * np.clip(np.rint(x / 0.125), -8, 7)) ** 3).mean()
        >>> bool(abs(expected / measured - 1) < 0.02)
        True
    """

    def __init__(self, h: Histogram) -> None:
        """Takes two places in each bin that has values."""
        self._places, self._counts = _places(h)
        self.count = float(h.counts.sum())
        """How many values were seen, zeros among them."""

    def of(self, scale: float, lowest: int, highest: int) -> Values:
        """Returns the magnitude of the error at each place, with codes from `lowest` to `highest` around zero."""
        codes = np.clip(np.rint(self._places / scale), lowest, highest)
        error: Values = np.abs(self._places - codes * scale)
        return error

    def total(self, error: Values, power: float) -> float:
        """Returns the sum of errors raised to a power of `POWERS`, over all values."""
        # One after the other: the order in which a sum adds may depend on the processor.
        return float(np.cumsum(self._counts * POWERS[power](error))[-1])


def least_power_ranges(h: Histogram, spec: RangeSpec) -> dict[float, ClippingRange]:
    """Returns for each power the range under which the mean of the error of integer codes, raised to it, is least.

    With 2 it is the squared error. Higher powers let fewer values saturate: what saturation takes away adds up along
    the values of a sum that are large together, where errors of rounding cancel.

    Args:
        h: What was seen of a tensor, with finite values.
        spec: An integer type; its method decides nothing.

    Example:
        >>> import numpy as np
        >>> from quarkfast.config import TensorSpec
        >>> from quarkfast.kernels import histogram
        >>> x = np.random.default_rng(0).standard_t(3, 1_000_000).astype(np.float32)
        >>> found = least_power_ranges(histogram(x), TensorSpec("int8"))
        >>> bool(found[2.0][1] < found[2.5][1] < np.abs(x).max())
        True
    """
    reach = params_for(h.range.min, h.range.max, spec)
    full, zero, low, high = float(reach.scale), int(reach.zero_point), int(reach.qmin), int(reach.qmax)
    octaves = _OCTAVES if spec.scale == "power_of_two" else [-each / 8 for each in range(_EIGHTHS + 1)]
    norm = ErrorNorm(h)
    best = dict.fromkeys(POWERS, (np.inf, full))
    for octave in octaves:
        scale = full * 2.0**octave
        error = norm.of(scale, low - zero, high - zero)
        for power in POWERS:
            best[power] = min(best[power], (norm.total(error, power), scale))
    return {power: ((low - zero) * scale, (high - zero) * scale) for power, (_, scale) in best.items()}


def _places(h: Histogram) -> tuple[Values, Values]:
    """Returns two places in each bin that has values, and their counts; zeros are exact."""
    counts = h.counts.astype(np.float64)
    counts[HISTOGRAM_SIDE] -= h.range.zero
    held = np.flatnonzero(counts)
    if not held.size:
        return np.zeros(1), np.ones(1)
    edges = h.edges
    left, width = edges[held], edges[held + 1] - edges[held]
    return np.concatenate([left + width / 4, left + width * 0.75]), np.tile(counts[held] / 2, 2)
