"""Bias shrinking of cross-layer equalization: what a bias counts for beside its channel's weights, as Quark has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["shrunk_bias"]

Values = NDArray[np.float64]

# What stands for the weights of a channel that has none, and is still a number to divide by.
_NONE = 1e-7


def shrunk_bias(bias: Values, weights: Values) -> Values:
    """Returns a bias divided by what keeps it from outweighing the weights of its channel.

    With ``f`` the magnitude of the bias over that of each weight: if no bias reaches 10 nor 20 times the largest
    weight, it is divided by 5 where the median of ``f`` lies above 100 or its mean above 1000, else by 2; otherwise by
    20 where the median lies above 30 or the mean above 500, by 10 from 15 and 100 on, else by 5.

    Args:
        bias: ``[channels]``.
        weights: ``[channels, n]``. A weight of zero counts as the least magnitude of its channel; a channel of zeros
            has no bias to count.

    Source:
        AMD Quark 0.13, CLEScaleAppendBias.

    Example:
        >>> import numpy as np
        >>> shrunk_bias(np.array([1.0, 40.0]), np.array([[1.0, -2.0], [4.0, 0.0]])).tolist()
        [0.2, 8.0]
    """
    magnitudes = np.abs(weights)
    least = np.where(magnitudes > 0, magnitudes, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    live = np.isfinite(least)
    counted = np.where(live[:, 0], np.abs(bias), 0.0)
    filled = np.where(magnitudes > 0, magnitudes, np.where(live, least, _NONE))
    ratios = counted[:, None] / filled
    median, mean = float(np.median(ratios)), float(ratios.mean())
    if counted.max(initial=0.0) < 10 and counted.max(initial=0.0) < 20 * magnitudes.max(initial=0.0):
        divisor = 5 if median > 100 or mean > 1000 else 2
    elif median > 30 or mean > 500:
        divisor = 20
    else:
        divisor = 10 if median > 15 or mean > 100 else 5
    return np.where(live[:, 0], bias, 0.0) / divisor
