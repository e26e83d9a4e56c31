"""Linear quantization, slow and obvious."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from quarkfast.formats.scalar import qtype
from quarkfast.reference.casts import cast_f32_bf16, cast_f32_f16

__all__ = [
    "cast_stochastic",
    "dequantize_float",
    "dequantize_linear",
    "fake_quantize_linear",
    "per_element",
    "quantize_float",
    "quantize_linear",
    "quantize_linear_stochastic",
    "quantize_rows",
    "random_bits",
    "requantize_linear",
    "requantize_shift",
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


def quantize_rows(x: Array) -> tuple[Array, Array]:
    """int8 codes of rows, and their scales."""
    magnitudes = np.where(np.isfinite(x), np.abs(np.asarray(x, np.float32)), np.float32(0))
    top = magnitudes.max(axis=-1, keepdims=True, initial=np.float32(0))
    scales: Array = np.maximum(top / np.float32(127), np.finfo(np.float32).tiny)
    each = np.broadcast_to(scales, x.shape)
    return quantize_linear(x, each, np.zeros(x.shape, np.int64), np.int8), scales


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


_MASK = (1 << 64) - 1


def _key(seed: int) -> int:
    """The finalizer of SplitMix64."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _scrambled(h: Array) -> Array:
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    return h


def random_bits(places: Array, seed: int) -> Array:
    """32 random bits for each place of an array, counted from its beginning."""
    key = _key(int(seed))
    low, high = (places & np.uint64(0xFFFFFFFF)).astype(np.uint32), (places >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):  # of scalars, about which NumPy warns
        upper = np.uint32(key >> 32) + high * np.uint32(0x9E3779B9)
        return _scrambled(_scrambled(low ^ np.uint32(key & 0xFFFFFFFF)) + upper)


def _places(x: Array) -> Array:
    return np.arange(x.size, dtype=np.uint64).reshape(x.shape)


def quantize_linear_stochastic(x: Array, scale: Array, zero_point: Array, dtype: DTypeLike, seed: int) -> Array:
    """Codes of x; scale and zero point have its shape."""
    limit = np.float32(2**20)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = np.asarray(x, np.float32) / np.asarray(scale, np.float32)
        quotient = np.where(quotient > -limit, np.minimum(quotient, limit), -limit).astype(np.float32)
    below = np.floor(quotient)
    threshold = (random_bits(_places(quotient), seed) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
    whole = np.where(quotient - below > threshold, below + 1, below).astype(np.float32)
    return quantize_linear(whole, np.ones_like(whole), zero_point, dtype)


def cast_stochastic(x: Array, seed: int) -> Array:
    """bfloat16 values of float32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    random = random_bits(_places(bits), seed) >> np.uint32(16)
    rounded = np.where(magnitude < 0x7F800000, bits + random, bits)
    rounded = np.where(magnitude > 0x7F800000, bits & np.uint32(0x80000000) | np.uint32(0x7FC00000), rounded)
    return (rounded >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)
