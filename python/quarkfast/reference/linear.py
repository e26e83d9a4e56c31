"""Linear quantization, told slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.dtypes import qtype

__all__ = ["dequantize_linear", "fake_quantize_linear", "per_element", "quantize_linear"]

Array = NDArray[Any]


def per_element(values: Any, shape: tuple[int, ...], axis: int = 1, block_size: int = 0) -> Array:
    """Broadcast scales or zero points (per tensor, channel or block) to one value per element of ``shape``."""
    values = np.asarray(values)
    if block_size:
        return np.repeat(values, block_size, axis=axis).take(range(shape[axis]), axis=axis)
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), shape)
    aligned = [1] * len(shape)
    aligned[axis] = -1
    return np.broadcast_to(values.reshape(aligned), shape)


def quantize_linear(
    x: Array, scale: Array, zero_point: Array, dtype: Any, qmin: int | None = None, qmax: int | None = None
) -> Array:
    """Divide in float32, round half to even, add the zero point exactly, saturate; NaN becomes qmin."""
    row = qtype(dtype)
    low = int(row.qmin if qmin is None else qmin)
    high = int(row.qmax if qmax is None else qmax)
    with np.errstate(all="ignore"):
        quotient = np.asarray(x, np.float32) / np.asarray(scale, np.float32)
        # float64 holds a rounded float32 plus any 32-bit zero point exactly as long as the sum is below 2^53;
        # larger sums saturate whatever their last bits.
        total = np.rint(quotient).astype(np.float64) + np.asarray(zero_point).astype(np.float64)
    total = np.where(np.isnan(quotient), low, np.clip(total, low, high))
    return total.astype(np.int64).astype(row.dtype)


def dequantize_linear(x: Array, scale: Array, zero_point: Array) -> Array:
    """Subtract exactly, round the difference to float32, multiply in float32."""
    difference = np.asarray(x).astype(np.int64) - np.asarray(zero_point).astype(np.int64)
    with np.errstate(all="ignore"):
        return difference.astype(np.float32) * np.asarray(scale, np.float32)


def fake_quantize_linear(
    x: Array, scale: Array, zero_point: Array, dtype: Any, qmin: int | None = None, qmax: int | None = None
) -> Array:
    """Quantize, then dequantize."""
    return dequantize_linear(quantize_linear(x, scale, zero_point, dtype, qmin, qmax), scale, zero_point)
