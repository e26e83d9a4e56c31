"""Floats of 8 bits and fewer, slow and obvious: the table of all values, and the nearest of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = ["decode", "encode", "round_trip"]

Array = NDArray[Any]

# By code of the type: dtype, bits, mantissa bits, bias, then codes without sign: largest value, overflow, NaN.
_ROWS: dict[str, tuple[Any, int, int, int, int, int, int | None]] = {
    "e4m3fn": (ml_dtypes.float8_e4m3fn, 8, 3, 7, 0x7E, 0x7F, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 8, 2, 15, 0x7B, 0x7C, 0x7E),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8, 3, 8, 0x7F, 0x80, 0x80),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 8, 2, 16, 0x7F, 0x80, 0x80),
    "e3m2fn": (ml_dtypes.float6_e3m2fn, 6, 2, 3, 0x1F, 0x1F, None),
    "e2m3fn": (ml_dtypes.float6_e2m3fn, 6, 3, 1, 0x1F, 0x1F, None),
    "e2m1fn": (ml_dtypes.float4_e2m1fn, 4, 1, 1, 0x07, 0x07, None),
}


def _values(code: str) -> Array:
    """The finite values of the codes without sign, in order, in float64."""
    _, _, mantissa, bias, largest, _, _ = _ROWS[code]
    codes = np.arange(largest + 1)
    exponent, fraction = codes >> mantissa, (codes % 2**mantissa) / 2**mantissa
    values: Array = np.ldexp(fraction + (exponent > 0), np.maximum(exponent, 1) - bias)
    return values


def _nearest(magnitude: Array, values: Array) -> Array:
    """Index of the nearest value; half way the even one; one past the end where the next value would be nearer."""
    steps = np.append(values, 2 * values[-1] - values[-2])  # the next value that the grid would have
    middles = (steps[1:] + steps[:-1]) / 2
    below = np.searchsorted(middles, magnitude, side="left")  # half way: the lower of the two
    tied = (below < len(middles)) & (magnitude == middles[np.minimum(below, len(middles) - 1)])
    return np.where(tied & (below % 2 == 1), below + 1, below)


def _encode_e8m0(x: Array, saturate: bool) -> Array:
    powers = np.ldexp(1.0, np.arange(-127, 129))
    v = x.astype(np.float64)
    above = np.searchsorted(np.append(2.0**-127, 0.75 * powers[2:]), v, side="right")
    code = np.where(v <= 2.0**-127, 0, above)
    code = np.where(saturate & ~np.isnan(v), np.minimum(code, 254), np.where(np.isinf(v), 255, code))
    stored: Array = np.where(np.isnan(v) | (v <= 0), 255, code).astype(np.uint8)
    return stored.view(ml_dtypes.float8_e8m0fnu)


def encode(x: Array, code: str, saturate: bool = False) -> Array:
    """float32 to the type of this code, bit for bit as ml_dtypes; saturating as ONNX Cast-19."""
    x = np.asarray(x, np.float32)
    with np.errstate(invalid="ignore"):
        if code == "e8m0fnu":
            return _encode_e8m0(x, saturate)
        dtype, bits, _, _, largest, overflow, nan = _ROWS[code]
        index = _nearest(np.where(np.isnan(x), 0, np.abs(x.astype(np.float64))), _values(code))
    index = np.where(index > largest, largest if saturate else overflow, index)
    negative = np.signbit(x)
    index = np.where(np.isnan(x), 0 if nan is None else nan, index)
    negative = negative ^ (np.isnan(x) & (nan is None))
    if code.endswith("fnuz"):  # neither -0 nor a second NaN
        negative = negative & (index % 128 > 0)
    stored: Array = (index | (negative.astype(np.int64) << (bits - 1))).astype(np.uint8)
    return np.asarray(stored.view(dtype))


def decode(x: Array, code: str) -> Array:
    """The type of this code to float32, exact."""
    raw = np.asarray(x).view(np.uint8).astype(np.int64)
    if code == "e8m0fnu":
        return np.where(raw == 255, np.float32(np.nan), np.ldexp(1.0, np.minimum(raw, 254) - 127).astype(np.float32))
    _, bits, _, _, largest, overflow, nan = _ROWS[code]
    magnitude, negative = raw % 2 ** (bits - 1), raw % 2**bits >= 2 ** (bits - 1)
    table = np.full(2 ** (bits - 1), np.nan, np.float32)
    table[: largest + 1] = _values(code).astype(np.float32)
    if overflow not in (largest, nan):
        table[overflow] = np.inf
    y: Array = table[magnitude].view(np.uint32)
    if code.endswith("fnuz"):
        y = np.where(raw == 128, np.uint32(0x7FC00000), y)
    y = (y | (negative.astype(np.uint32) << 31)).astype(np.uint32)
    return y.view(np.float32)


def round_trip(x: Array, code: str, saturate: bool = False) -> Array:
    """There and back."""
    return decode(encode(x, code, saturate), code)
