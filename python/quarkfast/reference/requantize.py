"""Requantization, slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.formats.scalar import qtype

__all__ = ["requantize_linear", "requantize_shift"]

Array = NDArray[Any]


def requantize_linear(x: Array, scale: Array, zero_point: Array, dtype: Any) -> Array:
    """Round to float32, multiply in float32, round half to even, add the zero point exactly, saturate."""
    row = qtype(dtype)
    with np.errstate(over="ignore"):
        product = np.asarray(x, np.int32).astype(np.float32) * np.asarray(scale, np.float32)
    total: Array = np.rint(product).astype(np.float64) + np.asarray(zero_point).astype(np.float64)
    return total.clip(row.qmin, row.qmax).astype(row.dtype)


def requantize_shift(x: Array, shift: Array, zero_point: Array, dtype: Any, rounding: str) -> Array:
    """Divide exactly in float64, round as asked, add the zero point, saturate."""
    row = qtype(dtype)
    quotient = np.ldexp(np.asarray(x).astype(np.float64), -np.asarray(shift).astype(np.int64))
    rounded: Array = np.floor(quotient + 0.5) if rounding == "half_up" else np.rint(quotient)
    total: Array = rounded + np.asarray(zero_point).astype(np.float64)
    return total.clip(row.qmin, row.qmax).astype(row.dtype)
