"""A float matrix becomes codes and scales, a few megabytes of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.scales import (
    EPSILON,
    Scales,
    group_scales,
    integer_scales,
    least_error_scales,
    percentile_ends,
    power_of_two_scales,
)
from quarkfast.checkpoint.schemes import METHODS, WeightScheme
from quarkfast.checkpoint.weights import FloatWeight, QuantizedWeight, block_of, scale_shape
from quarkfast.errors import ConfigError, ModelError, did_you_mean, shown
from quarkfast.kernels import cast, extremes, quantize_linear

__all__ = ["Rounding", "check_method", "largest_magnitude", "quantize_weight"]

_FP4_TIMES_FP8 = np.float32(6 * 448)
_TILE = 1 << 18  # elements whose quotients stay in cache: 1 MB of float32


@dataclass(frozen=True)
class Rounding:
    """How codes are found, apart from the scheme.

    Attributes:
        scale_dtype: In which float scales are stored.
        method: ``"minmax"``, ``"percentile"`` or ``"mse"``.
        as_quark: As AMD Quark does: multiply by the rounded reciprocal of a scale instead of dividing, leave zeros of
            FP4 and FP6 no sign, and take no scale below float32's epsilon nor a power of two below 2**-126.
    """

    scale_dtype: np.dtype[Any]
    method: str = "minmax"
    as_quark: bool = False

    @property
    def least_scale(self) -> np.float32:
        """The least scale of a block."""
        return EPSILON if self.as_quark else np.float32(0)


def check_method(method: str, scheme: WeightScheme) -> None:
    """Makes sure that a method of range estimation exists and fits a scheme.

    Raises:
        ConfigError: If it does not.
    """
    if method not in METHODS:
        raise ConfigError(
            f"method: expected one of {', '.join(METHODS)}, got {method!r}{did_you_mean(method, METHODS)}"
        )
    fits = scheme.element.is_integer and scheme.scale == "float" and scheme.granularity in ("group", "channel")
    if method != "minmax" and not fits:
        raise ConfigError(f"method: expected minmax for {scheme.name}, got {method}, which is of integers")


def largest_magnitude(weight: FloatWeight) -> np.float32:
    """The greatest magnitude of a matrix.

    Raises:
        ModelError: If it holds NaN or infinity.
    """
    found = [_ends(weight, rows, 0) for _, rows in weight.chunks()]
    return np.float32(max(max(abs(float(low)), abs(float(high))) for low, high in found)) if found else np.float32(0)


def quantize_weight(
    weight: FloatWeight, scheme: WeightScheme, rounding: Rounding, largest: np.float32 | None = None
) -> QuantizedWeight:
    """Quantizes a matrix ``[outputs, inputs]``.

    Args:
        weight: The matrix.
        scheme: To what; its groups divide the inputs.
        rounding: How.
        largest: The greatest magnitude of this layer and those that share its scale; its own by default.

    Raises:
        ModelError: If it holds NaN or infinity.
    """
    element, shape = scheme.element, weight.shape
    codes = np.empty(shape, element.dtype)
    if scheme.scale == "none":
        for begin, rows in weight.chunks():
            _ends(weight, rows, 0)
            cast(rows, element.dtype, saturate=True, out=codes[begin : begin + len(rows)])
        return QuantizedWeight(scheme, codes)
    divisor = None
    if scheme.shares_scale:
        largest = largest_magnitude(weight) if largest is None else largest
        divisor = np.float32(1) if largest == 0 else _FP4_TIMES_FP8 / largest
    height, _ = block_of(scheme, shape)
    scale = np.empty(scale_shape(scheme, shape), _scale_dtype(scheme, rounding))
    zero = None if scheme.symmetric else np.empty(scale.shape, element.dtype)
    whole = scheme.granularity == "tensor"
    if whole:
        ends = np.full((1, 1), largest)
        scale[:] = integer_scales(-ends, ends, element, scale.dtype, rounding.least_scale).scale
    for begin, rows in weight.chunks(1 if whole else height):
        part = slice(begin, begin + len(rows))
        blocks = slice(0, 1) if whole else slice(begin // height, -(-(begin + len(rows)) // height))
        if not whole:
            found = _scales(weight, rows, scheme, rounding, divisor)
            scale[blocks] = found.scale
            if zero is not None and found.zero is not None:
                zero[blocks] = found.zero.astype(zero.dtype)
        zeros = None if zero is None else zero[blocks]
        _round(rows, scheme, scale[blocks], zeros, divisor, rounding.as_quark, codes[part])
    return QuantizedWeight(scheme, codes, scale, zero, divisor if scheme.scale == "e4m3" else None)


def _scale_dtype(scheme: WeightScheme, rounding: Rounding) -> np.dtype[Any]:
    if scheme.scale == "float":
        return rounding.scale_dtype
    found: np.dtype[Any] = np.dtype(ml_dtypes.float8_e8m0fnu if scheme.scale == "e8m0" else ml_dtypes.float8_e4m3fn)
    return found


def _ends(
    weight: FloatWeight, rows: NDArray[np.float32], width: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Least and greatest value of the rows, or of each group of `width` of their columns."""
    low, high = extremes(rows, channel_axis=1, block_size=width) if width else extremes(rows)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ModelError(f"{shown(weight.name)}: expected finite weights, got NaN or infinity")
    return low, high


def _scales(
    weight: FloatWeight, rows: NDArray[np.float32], scheme: WeightScheme, rounding: Rounding, divisor: np.float32 | None
) -> Scales:
    """The scales and zero points of the blocks of some rows."""
    element, (height, width) = scheme.element, block_of(scheme, weight.shape)
    low, high = _ends(weight, rows, width)
    if height > 1:
        starts = np.arange(0, len(rows), height)
        low, high = np.minimum.reduceat(low, starts, axis=0), np.maximum.reduceat(high, starts, axis=0)
    if scheme.scale == "e8m0":
        found = power_of_two_scales(np.maximum(-low, high), element)
        if rounding.as_quark:
            found = np.maximum(found.view(np.uint8), np.uint8(1)).view(found.dtype)
        return Scales(found, None)
    if divisor is not None:
        return Scales(group_scales(np.maximum(-low, high), element, divisor), None)
    if rounding.method == "percentile":
        low, high = percentile_ends(rows.reshape(len(rows), -1, width))
    ranged = integer_scales(low, high, element, rounding.scale_dtype, rounding.least_scale)
    if rounding.method != "mse":
        return ranged
    flat = Scales(ranged.scale.reshape(-1), None if ranged.zero is None else ranged.zero.reshape(-1))
    best = least_error_scales(rows.reshape(-1, width), flat, element)
    return Scales(best.scale.reshape(low.shape), None if best.zero is None else best.zero.reshape(low.shape))


def _round(
    rows: NDArray[np.float32],
    scheme: WeightScheme,
    scale: NDArray[Any],
    zero: NDArray[Any] | None,
    divisor: np.float32 | None,
    as_quark: bool,
    out: NDArray[Any],
) -> None:
    """Writes the codes of some rows."""
    element = scheme.element
    wide = cast(scale, np.float32) if scale.dtype != np.float32 else scale
    if scheme.scale == "e4m3" and divisor is not None:
        wide = wide / divisor
    height, width = block_of(scheme, rows.shape)
    if element.is_integer and scheme.scale == "float" and not as_quark:
        low, high = int(element.low), int(element.high)
        quantize_linear(rows, wide, zero, dtype=element.dtype, axis=1, block_size=width, qmin=low, qmax=high, out=out)
        return
    # The reciprocal of a power of two is exact, and so is the quotient by it.
    multiplied = as_quark or scheme.scale == "e8m0"
    factor, apply = (np.float32(1) / wide, np.multiply) if multiplied else (wide, np.divide)
    squares, whole = scheme.granularity == "block", scheme.granularity == "tensor"
    step = height if squares else max(_TILE // max(rows.shape[1], 1), 1)
    quotients = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        tile = rows[part]
        values = quotients[: len(tile)]
        if squares:
            apply(tile, np.repeat(factor[begin // height], width)[: tile.shape[1]], out=values)
        else:
            groups = values.reshape(len(tile), -1, width)
            apply(tile.reshape(groups.shape), factor if whole else factor[part][..., None], out=groups)
            if zero is not None:
                groups += zero[part][..., None]
        _to_codes(values, scheme, as_quark, out[part])


def _to_codes(values: NDArray[np.float32], scheme: WeightScheme, as_quark: bool, out: NDArray[Any]) -> None:
    """Rounds quotients to the element; changes them."""
    element = scheme.element
    if element.is_integer:
        if scheme.scale == "e8m0":  # whose codes are in steps of 1/64, as many on either side
            values *= np.float32(64)
        low, high = int(element.low if scheme.scale == "float" else -element.high), int(element.high)
        quantize_linear(values, np.float32(1), dtype=element.dtype, qmin=low, qmax=high, out=out)
        return
    cast(values, element.dtype, saturate=True, out=out)
    if as_quark and element.bits < 8:
        raw = out.view(np.uint8)
        raw[raw == 1 << (element.bits - 1)] = 0
