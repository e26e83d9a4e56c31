"""The error that integer codes leave, from a histogram."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from quarkfast import kernels
from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.qparams import QParams

__all__ = ["ERROR_METRICS", "absolute_error", "squared_error"]


def squared_error(h: Histogram, params: QParams) -> float:
    """Returns the expected mean squared error of integer codes."""
    return kernels.quantization_error(h, float(params.scale), int(params.zero_point), params.qmin, params.qmax)


def absolute_error(h: Histogram, params: QParams) -> float:
    """Returns the expected mean absolute error of integer codes, values evenly spread inside a bin, zeros exact.

    With ``u = x / scale`` and ``n`` the nearest code, its antiderivative is ``n / 4 + (u - n)|u - n| / 2``, inside the
    codes and beyond them.
    """
    weights = h.counts.astype(np.float64)
    weights[HISTOGRAM_SIDE] -= h.range.zero
    scale, zero = float(params.scale), int(params.zero_point)
    u = h.edges / scale
    n = np.rint(np.clip(u, params.qmin - zero, params.qmax - zero))
    integral = n / 4 + (u - n) * np.abs(u - n) / 2
    width = math.ldexp(1.0, h.exponent) / scale
    return float((weights * np.diff(integral)).sum() * scale / (width * max(h.range.finite, 1)))


ERROR_METRICS: Mapping[str, Callable[[Histogram, QParams], float]] = MappingProxyType(
    {"mae": absolute_error, "mse": squared_error}
)
"""Name -> metric."""
