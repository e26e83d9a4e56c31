"""Casts to and from the 16-bit floats, slow and obvious."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "cast_bf16_f32",
    "cast_f16_f32",
    "cast_f32_bf16",
    "cast_f32_f16",
    "round_trip_f32_bf16",
    "round_trip_f32_f16",
]

Array = NDArray[Any]


def cast_f32_bf16(x: Array) -> Array:
    """Keep the upper 16 bits, rounded half to even in integers; NaN becomes the quiet NaN of the same sign."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    result = np.where(np.isnan(x), ((bits >> 16) & 0x8000) | 0x7FC0, rounded)
    return result.astype(np.uint16).view(ml_dtypes.bfloat16)


def cast_bf16_f32(x: Array) -> Array:
    """Append 16 zero bits."""
    return (np.asarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def round_trip_f32_bf16(x: Array) -> Array:
    """There and back."""
    return cast_bf16_f32(cast_f32_bf16(x))


def cast_f32_f16(x: Array) -> Array:
    """Round to the spacing of float16 at the value's exponent; NaN keeps sign and top payload bits, made quiet."""
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32)
    sign = (bits >> 16) & 0x8000
    magnitude = np.abs(x.astype(np.float64))
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, -14)
    rounded = np.ldexp(np.rint(np.ldexp(finite, 10 - exponent)), exponent - 10)
    rounded = np.where(np.isinf(magnitude) | (rounded > 65504.0), np.inf, rounded)
    result = sign | rounded.astype(np.float16).view(np.uint16)
    payload = 0x7E00 | ((bits >> 13) & 0x3FF)
    return np.where(np.isnan(x), sign | payload, result).astype(np.uint16).view(np.float16)


def cast_f16_f32(x: Array) -> Array:
    """Widen exactly; a signalling NaN becomes quiet."""
    bits = np.asarray(x).view(np.uint16).astype(np.uint32)
    sign, exponent, mantissa = (bits & 0x8000) << 16, (bits >> 10) & 31, bits & 1023
    value = np.ldexp(
        np.where(exponent == 0, mantissa, mantissa + 1024).astype(np.float64), np.maximum(exponent, 1).astype(int) - 25
    )
    finite = value.astype(np.float32).view(np.uint32)
    special = 0x7F800000 | (mantissa << 13) | np.where(mantissa > 0, 0x400000, 0)
    return (sign | np.where(exponent == 31, special, finite)).astype(np.uint32).view(np.float32)


def round_trip_f32_f16(x: Array) -> Array:
    """There and back."""
    return cast_f16_f32(cast_f32_f16(x))
