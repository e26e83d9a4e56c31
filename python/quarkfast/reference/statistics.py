"""Statistics, slow and obvious."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_histogram", "merge_histograms", "reduce_absmax", "reduce_extremes", "reduce_range", "sum_moments"]

Array = NDArray[Any]

_SIDE = 2048
_SMALLEST_NORMAL = {"float16": 2.0**-14}


def _wide(x: Array) -> Array:
    """In float64, in which every float32, float16 and bfloat16 is exact; NumPy warns of signalling NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x).astype(np.float64)


def _finite(x: Array) -> Array:
    wide = _wide(x).ravel()
    return wide[np.isfinite(wide)]


def reduce_range(x: Array) -> dict[str, float | int]:
    """Extremes of the finite values, counts of the special ones; zero has no sign."""
    wide = _wide(x)
    finite = _finite(x)
    normal = _SMALLEST_NORMAL.get(np.asarray(x).dtype.name, 2.0**-126)
    return {
        "min": float(finite.min()) + 0.0 if finite.size else np.inf,
        "max": float(finite.max()) + 0.0 if finite.size else -np.inf,
        "count": wide.size,
        "nan": int(np.isnan(wide).sum()),
        "pos_inf": int(np.isposinf(wide).sum()),
        "neg_inf": int(np.isneginf(wide).sum()),
        "zero": int((finite == 0).sum()),
        "subnormal": int(((finite != 0) & (np.abs(finite) < normal)).sum()),
    }


def count_histogram(x: Array) -> tuple[Array, int]:
    """Counts and exponent of the bin width: the least with which the largest magnitude fits, at least -126."""
    finite = _finite(x)
    exponent = -126
    while np.abs(finite).max(initial=0.0) >= _SIDE * 2.0**exponent:
        exponent += 1
    bins = np.floor(np.abs(finite) / 2.0**exponent).astype(np.int64)
    index = np.where(finite < 0, _SIDE - 1 - bins, _SIDE + bins)
    return np.bincount(index, minlength=2 * _SIDE).astype(np.uint64), exponent


def merge_histograms(a: tuple[Array, int], b: tuple[Array, int]) -> tuple[Array, int]:
    """Merge neighbouring bins outwards from zero until the widths agree, then add."""
    while a[1] != b[1]:
        fine, coarse = (a, b) if a[1] < b[1] else (b, a)
        merged = np.zeros_like(fine[0])
        half = _SIDE // 2
        merged[half : 3 * half] = fine[0].reshape(-1, 2).sum(axis=1)
        a, b = (merged, fine[1] + 1), coarse
    return a[0] + b[0], a[1]


def sum_moments(x: Array) -> tuple[int, Fraction, Fraction]:
    """Count, sum and sum of squares of the finite values, in fractions."""
    values = [Fraction(float(v)) for v in _finite(x)]
    return len(values), sum(values, Fraction()), sum((v * v for v in values), Fraction())


def reduce_absmax(x: Array, axis: int) -> Array:
    """Largest finite magnitude of each index along an axis."""
    wide = np.abs(np.moveaxis(_wide(x), axis, 0))
    finite = np.where(np.isfinite(wide), wide, 0.0)
    top: Array = finite.max(axis=tuple(range(1, wide.ndim)), initial=0.0)
    return top.astype(np.float32)


def reduce_extremes(x: Array, axis: int, block_size: int = 0) -> tuple[Array, Array]:
    """Least and greatest value of each index along an axis, or of each block of indices: NaN where one is, never -0."""
    values = np.asarray(x)
    length, step = values.shape[axis], block_size or 1
    others = tuple(other for other in range(values.ndim) if other != axis % values.ndim)
    found = []
    for reduce in (np.min, np.max):
        parts = [
            reduce(_wide(np.take(values, range(first, min(first + step, length)), axis)), axis=axis, keepdims=True)
            for first in range(0, length, step)
        ]
        extremes = np.concatenate(parts, axis)
        extremes = extremes if block_size else reduce(extremes, axis=others)
        found.append((np.where(np.isnan(extremes), np.nan, extremes) + 0.0).astype(values.dtype))
    return found[0], found[1]
