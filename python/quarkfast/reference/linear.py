"""Linear quantization, slow and obvious."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.formats.scalar import qtype
from quarkfast.reference.casts import cast_f32_bf16, cast_f32_f16

__all__ = [
    "dequantize_float",
    "dequantize_linear",
    "fake_quantize_linear",
    "per_element",
    "quantize_float",
    "quantize_linear",
]

Array = NDArray[Any]

# How a float32 product becomes a narrower float.
_NARROW: dict[np.dtype[Any], Callable[[Array], Array]] = {
    np.dtype(np.float32): lambda product: product,
    np.dtype(np.float16): cast_f32_f16,
    np.dtype(ml_dtypes.bfloat16): cast_f32_bf16,
}


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


def dequantize_linear(x: Array, scale: Array, zero_point: Array, dtype: Any = np.float32) -> Array:
    """Subtract exactly, round the difference to float32, multiply in float32, round the product to the dtype."""
    difference = np.asarray(x).astype(np.int64) - np.asarray(zero_point).astype(np.int64)
    with np.errstate(all="ignore"):
        product: Array = difference.astype(np.float32) * np.asarray(scale, np.float32)
    return _NARROW[np.dtype(dtype)](product)


def fake_quantize_linear(
    x: Array, scale: Array, zero_point: Array, dtype: Any, qmin: int | None = None, qmax: int | None = None
) -> Array:
    """Quantize, then dequantize to the dtype of x."""
    codes = quantize_linear(x, scale, zero_point, dtype, qmin, qmax)
    return dequantize_linear(codes, scale, zero_point, np.asarray(x).dtype)


def quantize_float(x: Array, scale: Array, zero_point: Array) -> Array:
    """Divide and add in float32, round to the dtype of the zero point; float16 saturates and adds no zero."""
    zero = np.asarray(zero_point).astype(np.float32)
    half = np.asarray(zero_point).dtype == np.float16
    with np.errstate(all="ignore"):
        quotient = np.asarray(x, np.float32) / np.asarray(scale, np.float32)
        moved = np.where((zero == 0) & half, quotient, quotient + zero)
        return cast_f32_f16(np.clip(moved, -65504, 65504)) if half else cast_f32_bf16(moved)


def dequantize_float(x: Array, scale: Array, zero_point: Array) -> Array:
    """Subtract and multiply in float32."""
    with np.errstate(all="ignore"):
        difference: Array = np.asarray(x).astype(np.float32) - np.asarray(zero_point).astype(np.float32)
        return difference * np.asarray(scale, np.float32)
