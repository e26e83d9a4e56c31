"""Ranges that suit a normal distribution."""

from __future__ import annotations

import math
from typing import Literal

from quarkfast import kernels
from quarkfast.formats.scalar import qtype
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, histogram_of, mirrored

__all__ = ["distribution", "normal_clip"]


def distribution(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns mean and so many standard deviations as leave a normal distribution the least squared error."""
    root: Literal[1, 3] = 3 if spec.scenario == "p3" else 1
    mean, deviation = kernels.spread(histogram_of(summary), root=root)
    distance = normal_clip(qtype(spec.dtype).bits) * deviation
    low, high = mirrored((mean - distance) ** root, (mean + distance) ** root, spec)
    return max(low, min(summary.range.min, 0.0)), min(high, max(summary.range.max, 0.0))


def normal_clip(bits: int) -> float:
    """Returns how many standard deviations of a normal distribution `bits` bits should reach.

    Least of ``c^2 / (3 * 4^bits) + 2 * integral from c of (x - c)^2``, the squared error of uniform steps inside
    ``[-c, c]`` and of what saturates beyond.

    Source:
        R. Banner et al., "Post training 4-bit quantization of convolutional networks for rapid-deployment", 2019.

    Example:
        >>> [round(normal_clip(bits), 2) for bits in (2, 4, 8)]
        [1.71, 2.56, 3.92]
    """
    low, high = 0.0, 16.0
    for _ in range(60):  # the derivative grows with c: halve until float64 ends
        c = (low + high) / 2
        tail = math.erfc(c / math.sqrt(2)) / 2
        density = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
        falls = c / (3 * 4.0**bits) < 2 * (density - c * tail)
        low, high = (c, high) if falls else (low, c)
    return (low + high) / 2
