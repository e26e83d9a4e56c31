"""Signal-to-noise ratio in dB, defined for every pair of sums."""

from __future__ import annotations

import math

__all__ = ["decibels", "ratio_of"]


def decibels(signal: float, noise: float) -> float:
    """Returns ``10 log10(signal / noise)`` in dB, also where the quotient is beyond what a float holds.

    Infinity without noise, minus infinity without signal or where noise alone is infinite, NaN where both are.

    Example:
        >>> decibels(100.0, 1.0), decibels(1.0, 0.0), decibels(0.0, 1.0)
        (20.0, inf, -inf)
        >>> round(decibels(1e-300, 1e300))
        -6000
    """
    if noise == 0:
        return math.inf
    ratio = signal / noise
    if 0 < ratio < math.inf or math.isnan(ratio):
        return 10 * math.log10(ratio)
    if signal == 0 or math.isinf(noise):
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def ratio_of(decibels: float) -> float:
    """Returns the ratio of two powers that differ by so many dB.

    Example:
        >>> ratio_of(20.0), ratio_of(-20.0)
        (100.0, 0.01)
    """
    return float(10 ** (decibels / 10))
