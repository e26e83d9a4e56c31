"""Casts between float32 and smaller floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.kernels.arguments import F32, as_array, as_dtype, as_flag, float_remedy, spellings

__all__ = ["cast", "round_trip"]

_CODES = {
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "e5m2",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "e4m3fnuz",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "e5m2fnuz",
    np.dtype(ml_dtypes.float6_e3m2fn): "e3m2fn",
    np.dtype(ml_dtypes.float6_e2m3fn): "e2m3fn",
    np.dtype(ml_dtypes.float4_e2m1fn): "e2m1fn",
    np.dtype(ml_dtypes.float8_e8m0fnu): "e8m0fnu",
}
_BY_NAME = {str(dtype): dtype for dtype in _CODES}
# Kernels by source, target in its usual spellings and saturation: one look-up takes a third of the time of asking.
_DOWN = {
    (F32, spelling, saturate): f"{'saturate' if saturate else 'cast'}_f32_{code}"
    for dtype, code in _CODES.items()
    for spelling in spellings(dtype)
    for saturate in (False, True)
}
_UP = {
    (dtype, spelling, saturate): f"cast_{code}_f32"
    for dtype, code in _CODES.items()
    for spelling in spellings(F32)
    for saturate in (False, True)
}
_CASTS = _DOWN | _UP
_ROUNDS = {
    (spelling, saturate): f"{'saturate_' if saturate else ''}round_trip_f32_{code}"
    for dtype, code in _CODES.items()
    for spelling in spellings(dtype)
    for saturate in (False, True)
}
_NAMES = ", ".join(_BY_NAME)


def _named(dtype: DTypeLike, where: str) -> np.dtype[Any]:
    """Return a dtype; NumPy itself does not know the names of those of ml_dtypes."""
    return _BY_NAME[dtype] if isinstance(dtype, str) and dtype in _BY_NAME else as_dtype(dtype, where)


def cast(x: ArrayLike, dtype: DTypeLike, *, saturate: bool = False, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Cast between float32 and a smaller float, or between two smaller ones.

    The smaller ones are float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
    float6_e3m2fn, float6_e2m3fn, float4_e2m1fn and float8_e8m0fnu of ml_dtypes. Two smaller ones go through float32,
    which holds all of them exactly, so values are rounded once.

    Args:
        x: Array of any shape of float32 or a smaller float.
        dtype: float32 or a smaller float, as dtype or name; not that of ``x``.
        saturate: Overflow and infinities become the largest finite value of ``dtype``; otherwise they become what the
            type has, infinity or else NaN. float6 and float4 have neither and always saturate.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Array of ``dtype``: rounded half to even, subnormals kept, NaN stays NaN where the type has it.

    Raises:
        TypeError: the pair of types is not among the above, or ``saturate`` is not a bool.

    Source:
        IEEE 754-2019 sections 4.3.1 and 5.4.2 (binary16); ml_dtypes for the others, bit for bit; ONNX Cast-19 for
        ``saturate``; docs/numerics.md, "Small floats".

    Example:
        >>> import ml_dtypes, numpy as np
        >>> cast(np.float32([1.00390625, 3.4e38]), ml_dtypes.bfloat16)
        array([1, inf], dtype=bfloat16)
        >>> cast(np.float32([0.3, 500.0]), "float8_e4m3fn").astype(float).tolist()
        [0.3125, nan]
        >>> cast(np.float32([0.3, 500.0]), "float8_e4m3fn", saturate=True).astype(float).tolist()
        [0.3125, 448.0]
    """
    array = as_array(x, "cast")
    saturate = saturate if saturate is False else as_flag(saturate, "cast", "saturate")
    try:
        where = _CASTS[array.dtype, dtype, saturate]
    except (KeyError, TypeError):  # spelled unusually, or in two steps, or wrong
        target = _named(dtype, "cast")
        if array.dtype in _CODES and target in _CODES and array.dtype != target:
            array = cast(array, F32)
        where = _CASTS.get((array.dtype, target, saturate), "")
        if not where:
            raise TypeError(
                f"cast: expected two different types among float32, {_NAMES}, got {array.dtype} to {target}"
                f"{float_remedy(array.dtype) if array.dtype not in _CODES and array.dtype != F32 else ''}"
            ) from None
    return getattr(_core, where)(array, out)  # type: ignore[no-any-return]


def round_trip(
    x: ArrayLike, dtype: DTypeLike, *, saturate: bool = False, out: NDArray[Any] | None = None
) -> NDArray[np.float32]:
    """Round float32 values to those of a smaller float and keep them in float32.

    Args:
        x: float32 array of any shape.
        dtype: A smaller float, as in :func:`cast`.
        saturate: As in :func:`cast`.
        out: float32 array of the shape of ``x`` to write to; may be ``x``.

    Returns:
        ``cast(cast(x, dtype, saturate=saturate), float32)``, bit for bit, in one pass.

    Raises:
        TypeError: ``x`` is not float32, ``dtype`` not a smaller float or ``saturate`` not a bool.

    Source:
        As :func:`cast`.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> round_trip(np.float32([1.2, 3.14159]), ml_dtypes.bfloat16)
        array([1.203125, 3.140625], dtype=float32)
        >>> round_trip(np.float32([1.2, 3.14159]), "float4_e2m1fn")
        array([1., 3.], dtype=float32)
    """
    saturate = saturate if saturate is False else as_flag(saturate, "round_trip", "saturate")
    try:
        where = _ROUNDS[dtype, saturate]
    except (KeyError, TypeError):  # spelled unusually, or wrong
        target = _named(dtype, "round_trip")
        if target not in _CODES:
            raise TypeError(f"round_trip: dtype: expected one of {_NAMES}, got {target}") from None
        where = _ROUNDS[target, saturate]
    array = as_array(x, where)
    if array.dtype != F32:
        raise TypeError(f"{where}: x: expected dtype float32, got {array.dtype}{float_remedy(array.dtype)}")
    return getattr(_core, where)(array, out)  # type: ignore[no-any-return]
