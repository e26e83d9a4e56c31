"""The percentile method told on the values themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def percentile_ends(values: NDArray[np.float64], percent: float, symmetric: bool) -> tuple[float, float]:
    """Returns the values whose ranks are the percentile's: of magnitudes, or half of what is cut off at either end."""
    if symmetric:
        reach = float(np.quantile(np.abs(values), percent / 100, method="inverted_cdf"))
        return max(-reach, float(values.min())), min(reach, float(values.max()))
    cut = (100 - percent) / 200
    low, high = (sign * float(np.quantile(sign * values, cut, method="inverted_cdf")) for sign in (1, -1))
    return low, high
