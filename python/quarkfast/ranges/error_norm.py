"""Ranges of the least expected error, raised to a power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.ranges.params import params_for
from quarkfast.ranges.summary import ClippingRange, RangeSpec

__all__ = ["POWERS", "least_power_ranges"]

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
    places, counts = _places(h)
    best = dict.fromkeys(POWERS, (np.inf, full))
    for octave in octaves:
        scale = full * 2.0**octave
        codes = np.clip(np.rint(places / scale), low - zero, high - zero)
        error = np.abs(places - codes * scale)
        for power, raised in POWERS.items():
            # One after the other: the order in which a sum adds may depend on the processor.
            total = float(np.cumsum(counts * raised(error))[-1])
            best[power] = min(best[power], (total, scale))
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
