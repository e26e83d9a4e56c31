"""From the values of blocks to scales and zero points, without any data but the weights.

Signed integers: ``scale = absmax / ((high - low) / 2)``. Unsigned ones: ``scale = (max - min) / (high - low)`` of
a range that holds zero, and ``zero = round_half_to_even(low - min / scale)``. Floats: ``scale = absmax / high``. All in
float32, as AMD Quark and compressed-tensors have them. Scales are rounded to the type in which they are stored before
codes are chosen, so that what was meant is what a runtime reads. A block of zeros has float32's epsilon as its scale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.schemes import Element
from quarkfast.kernels import cast

__all__ = [
    "EPSILON",
    "Scales",
    "group_scales",
    "integer_scales",
    "least_error_scales",
    "percentile_ends",
    "power_of_two_scales",
]

#: The scale of a block of zeros.
EPSILON = np.float32(2.0**-23)
_ZERO = np.float32(0)
# Of groups: 99.9 % of 128 weights would be all of them.
_PERCENTILE = 0.99
_FACTORS = np.arange(100, 48, -2, dtype=np.float32) / np.float32(100)
_REFINEMENTS = 3


class Scales(NamedTuple):
    """Scales of blocks, of their stored dtype, and zero points as float32 or None."""

    scale: NDArray[Any]
    zero: NDArray[np.float32] | None


def integer_scales(
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    element: Element,
    dtype: np.dtype[Any],
    least: np.float32 = _ZERO,
) -> Scales:
    """Scales, and zero points of unsigned elements, for ranges from `low` to `high`.

    Args:
        low: Least value of each block, any shape.
        high: Greatest value of each block.
        element: The type of codes; for floats the range is mirrored.
        dtype: In which scales are stored.
        least: The least scale, as AMD Quark has `EPSILON`.
    """
    if element.signed:
        divisor = np.float32((element.high - element.low) / 2)
        largest: NDArray[np.float32] = np.maximum(np.abs(low), np.abs(high))
        return Scales(stored(np.maximum(largest / divisor, least), dtype), None)
    low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
    scale = stored(np.maximum((high - low) / np.float32(element.high - element.low), least), dtype)
    zero = np.rint(np.float32(element.low) - low / scale.astype(np.float32))
    return Scales(scale, np.clip(zero, np.float32(element.low), np.float32(element.high)))


def stored(scale: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rounds scales to the type in which they are stored; none becomes zero or infinite."""
    scale = np.where(scale == 0, EPSILON, scale).astype(np.float32)
    if dtype == np.float32:
        return np.maximum(scale, np.finfo(np.float32).tiny)
    rounded = cast(scale, dtype, saturate=True)
    smallest = np.asarray(ml_dtypes.finfo(dtype).smallest_subnormal, dtype)  # type: ignore[no-untyped-call]
    return np.where(rounded == 0, smallest, rounded)


def percentile_ends(blocks: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The 1st and the 99th percentile of each block ``[..., weights]``, of values below and above zero."""
    low, high = np.quantile(blocks, [1 - _PERCENTILE, _PERCENTILE], axis=-1).astype(np.float32)
    return low, high


def power_of_two_scales(largest: NDArray[np.float32], element: Element) -> NDArray[Any]:
    """Scales of microscaling: the exponent of the greatest magnitude, once that is rounded to the element's mantissa.

    Source:
        AMD Quark's rule ``even`` and compressed-tensors' ``generate_mx_scales``. The specification's own rule cuts the
        mantissa off, so that up to a quarter of the values above 1.75 times a power of two saturate.

    Example:
        >>> import numpy as np
        >>> from quarkfast.checkpoint.schemes import ELEMENTS
        >>> power_of_two_scales(np.float32([6.9, 7.0, 0.0]), ELEMENTS["fp4"]).astype(float).tolist()[:2]
        [1.0, 2.0]
    """
    bits = largest.view(np.uint32)
    if not element.is_integer:
        bits = bits + np.uint32(1 << (22 - element.mantissa))
    exponent = (bits >> np.uint32(23)).astype(np.int32) - 127 - element.exponent
    return (np.clip(exponent, -127, 127) + 127).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def group_scales(largest: NDArray[np.float32], element: Element, divisor: np.float32) -> NDArray[Any]:
    """FP8 scales of groups below a scale of the tensor, as NVFP4 has them.

    Args:
        largest: Greatest magnitude of each group.
        element: The type of codes.
        divisor: The tensor's own scale: 448 * 6 / the greatest magnitude of all.
    """
    scale = cast(divisor * (largest / np.float32(element.high)), ml_dtypes.float8_e4m3fn, saturate=True)
    return np.where(scale == 0, np.asarray(0.125, ml_dtypes.float8_e4m3fn), scale)


def least_error_scales(blocks: NDArray[np.float32], begin: Scales, element: Element) -> Scales:
    """Scales and zero points of the least squared error: of 26 narrower ranges, then by least squares.

    For given codes the best scale is ``sum(x q) / sum(q q)``, with ``q`` the codes less the zero point, and the best
    zero point is where the regression of values on codes crosses zero; codes and scales take turns three times. What
    does not lessen a block's error is not taken.

    Args:
        blocks: Weights ``[blocks, weights of a block]``.
        begin: The scales of the whole range, ``[blocks]``.
        element: An integer type.
    """
    # Sums run over the first axis, one row after another: the same on every processor.
    x = np.ascontiguousarray(blocks.T)
    dtype, low, high = begin.scale.dtype, np.float32(element.low), np.float32(element.high)
    best_scale, zero = begin.scale.copy(), begin.zero
    best_zero = np.zeros(len(blocks), np.float32) if zero is None else zero.copy()
    best = np.full(len(blocks), np.inf)

    def codes_of(scale: NDArray[Any], zero: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.clip(np.rint(x / scale.astype(np.float32)) + zero, low, high) - zero

    def keep(scale: NDArray[Any], zero: NDArray[np.float32]) -> None:
        error = np.add.reduce((x - codes_of(scale, zero) * scale.astype(np.float32)) ** 2, axis=0, dtype=np.float64)
        better = error < best
        best[better], best_scale[better], best_zero[better] = error[better], scale[better], zero[better]

    least, most = x.min(axis=0, initial=0), x.max(axis=0, initial=0)
    for factor in _FACTORS:
        scale, narrower = integer_scales(least * factor, most * factor, element, dtype)
        keep(scale, best_zero if narrower is None else narrower)
    for _ in range(_REFINEMENTS):
        codes = codes_of(best_scale, best_zero)
        if zero is None:
            keep(_least_squares(x, codes, dtype, best_scale), best_zero)
            continue
        centred = codes - codes.mean(axis=0, dtype=np.float64).astype(np.float32)
        scale = _least_squares(x, centred, dtype, best_scale)
        offset = codes.mean(axis=0, dtype=np.float64) - x.mean(axis=0, dtype=np.float64) / scale.astype(np.float64)
        moved = np.clip(best_zero + np.rint(offset), low, high).astype(np.float32)
        keep(scale, moved)
        keep(_least_squares(x, codes_of(scale, moved), dtype, best_scale), moved)
    return Scales(best_scale, None if zero is None else best_zero)


def _least_squares(
    x: NDArray[np.float32], codes: NDArray[np.float32], dtype: np.dtype[Any], otherwise: NDArray[Any]
) -> NDArray[Any]:
    """The scale of each column that brings codes nearest to values; `otherwise` where all codes are zero."""
    above = np.add.reduce(x * codes, axis=0, dtype=np.float64)
    below = np.add.reduce(codes * codes, axis=0, dtype=np.float64)
    found = np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(np.float32)
    return np.where(found > 0, stored(np.abs(found), dtype), otherwise)
