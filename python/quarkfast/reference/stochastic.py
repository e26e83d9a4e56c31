"""Stochastic rounding, slow and obvious."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from quarkfast.reference.linear import quantize_linear

__all__ = ["cast_stochastic", "quantize_linear_stochastic", "random_bits"]

Array = NDArray[Any]

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
