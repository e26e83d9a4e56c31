"""Linear quantization to and from integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import KERNEL_FORMATS, ScalarFormat, integer_type
from quarkfast.kernels.arguments import F32, as_array, as_dtype, as_integer, converted, float_remedy, spellings

__all__ = ["dequantize_linear", "fake_quantize_linear", "quantize_linear", "quantize_linear_mirrored"]

_REALS = {F32: "f32"} | {row.dtype: row.code for row in KERNEL_FORMATS if not row.is_integer and row.bits == 16}
_ROWS = [row for row in KERNEL_FORMATS if row.is_integer]
# Kernels by the dtype of x and that of the codes in its usual spellings, and the dtype of the zero points. One look-up
# takes a tenth of the time of one for each question.
_QUANTIZE, _FAKE_QUANTIZE = (
    {
        (real, spelling): (f"{verb}_{code}_{row.code}", row.dtype)
        for real, code in _REALS.items()
        for row in _ROWS
        for spelling in (row, *spellings(row.dtype))
    }
    for verb in ("quantize_linear", "fake_quantize_linear")
)
_DEQUANTIZE = {
    (row.dtype, spelling): (f"dequantize_linear_{row.code}_{code}", row.dtype)
    for real, code in _REALS.items()
    for row in _ROWS
    for spelling in spellings(real)
}


def quantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.int8,
    axis: int = 1,
    block_size: int = 0,
    qmin: int | None = None,
    qmax: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Quantize floats to integers: ``saturate(round_half_to_even(x / scale) + zero_point)``.

    Args:
        x: float32, float16 or bfloat16 array of any shape; the smaller ones are widened to float32 first, exactly.
        scale: float32 or narrower, finite and > 0: a scalar (or one element) per tensor, shape ``[x.shape[axis]]`` per
            channel, or the shape of ``x`` with ``ceil(x.shape[axis] / block_size)`` along ``axis`` per block.
        zero_point: Integers in the range of ``dtype``, of the shape of ``scale``; zeros when absent.
        dtype: int2, uint2, int4, uint4 (of ml_dtypes, one element a byte), int8, uint8, int16, uint16, int32 or uint32.
            ``"int3"`` gives int4 with codes of -4 to 3; other 3-bit codes live in int8 with ``qmin=-4, qmax=3`` or in
            uint8 with ``qmax=7``.
        axis: Axis of channels or blocks; negative counts from the end.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        qmin: Lowest code, default the type's lowest.
        qmax: Highest code, default the type's highest.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Codes of ``dtype`` with the shape of ``x``. NaN becomes ``qmin``, infinities saturate.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, range, scale or zero point do not fit.

    Source:
        ONNX QuantizeLinear-21; rounding, order of operations and NaN as in onnxruntime.

    Example:
        >>> import numpy as np
        >>> quantize_linear(np.float32([0.25, 0.75, -9.0, np.nan]), 0.5)
        array([   0,    2,  -18, -128], dtype=int8)
    """
    return _to_codes(_QUANTIZE, x, out, dtype, scale, zero_point, axis, block_size, qmin, qmax)


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.float32,
    axis: int = 1,
    block_size: int = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Dequantize integers to floats: ``float32(x - zero_point) * scale``.

    Args:
        x: Array of any shape and of a dtype of :func:`quantize_linear`.
        scale: As in :func:`quantize_linear`.
        zero_point: As in :func:`quantize_linear`.
        dtype: float32, float16 or bfloat16.
        axis: Axis of channels or blocks.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Array of ``dtype`` and the shape of ``x``. The difference is exact before it is rounded to float32; the product
        is rounded half to even where ``dtype`` is narrower.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, scale or zero point do not fit.

    Source:
        ONNX DequantizeLinear-21.

    Example:
        >>> import numpy as np
        >>> dequantize_linear(np.int8([0, 2, -18]), 0.5)
        array([ 0.,  1., -9.], dtype=float32)
    """
    array = as_array(x, "dequantize_linear")
    try:
        where, code = _DEQUANTIZE[array.dtype, dtype]
    except (KeyError, TypeError):
        row, target = integer_type(array.dtype), as_dtype(dtype, "dequantize_linear")
        if target not in _REALS:
            raise TypeError(f"dequantize_linear: dtype: expected float32, float16 or bfloat16, got {target}") from None
        where, code = _DEQUANTIZE[row.dtype, target]
    run = getattr(_core, where)
    y = run(array, out, scale, zero_point, axis, block_size)
    if y is None:
        y = run(array, out, *converted(where, code, scale, zero_point, axis, block_size))
    return y  # type: ignore[no-any-return]


def fake_quantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.int8,
    axis: int = 1,
    block_size: int = 0,
    qmin: int | None = None,
    qmax: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Quantize and dequantize in one pass: ``dequantize_linear(quantize_linear(x, ...), ...)``, bit for bit.

    Args:
        x: float32, float16 or bfloat16 array of any shape.
        scale: As in :func:`quantize_linear`.
        zero_point: As in :func:`quantize_linear`.
        dtype: The integer type to pass through.
        axis: Axis of channels or blocks.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        qmin: Lowest code, default the type's lowest.
        qmax: Highest code, default the type's highest.
        out: Array of the dtype and shape of ``x`` to write to; may be ``x``.

    Returns:
        Array of the dtype and shape of ``x``; values are rounded half to even where that is narrower than float32.

    Raises:
        TypeError: a dtype is not among those of :func:`quantize_linear`.
        ValueError: shapes, axis, range, scale or zero point do not fit.

    Source:
        ONNX QuantizeLinear-21 followed by DequantizeLinear-21.

    Example:
        >>> import numpy as np
        >>> fake_quantize_linear(np.float32([0.3, 0.8, 99.0]), 0.5)
        array([ 0.5,  1. , 63.5], dtype=float32)
    """
    return _to_codes(_FAKE_QUANTIZE, x, out, dtype, scale, zero_point, axis, block_size, qmin, qmax)


def _to_codes(
    kernels: dict[Any, tuple[str, np.dtype[Any]]],
    x: ArrayLike,
    out: NDArray[Any] | None,
    dtype: DTypeLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    axis: int,
    block_size: int,
    qmin: int | None,
    qmax: int | None,
) -> NDArray[Any]:
    """Run that of the kernels which takes floats like x to codes of dtype."""
    verb = "quantize_linear" if kernels is _QUANTIZE else "fake_quantize_linear"
    array = as_array(x, verb)
    try:
        where, code = kernels[array.dtype, dtype]
    except (KeyError, TypeError):
        row = _row(array, dtype, verb)
        where, code = kernels[array.dtype, row.dtype]
        qmin, qmax = _stored_limits(row, qmin, qmax, where)
    low = None if qmin is None else as_integer(qmin, where, "qmin")
    high = None if qmax is None else as_integer(qmax, where, "qmax")
    run = getattr(_core, where)
    y = run(array, out, scale, zero_point, axis, block_size, low, high)
    if y is None:
        y = run(array, out, *converted(where, code, scale, zero_point, axis, block_size), low, high)
    return y  # type: ignore[no-any-return]


def quantize_linear_mirrored(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = "int4",
    axis: int = 1,
    block_size: int = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Quantize floats to 3- or 4-bit integers with scales of either sign.

    A scale below zero gives the codes of ``-x`` and ``-scale``: the lowest code then stands for the greatest value.

    Args:
        x: float32, float16 or bfloat16 array of any shape.
        scale: As in :func:`quantize_linear`, but finite and not 0.
        zero_point: As in :func:`quantize_linear`.
        dtype: int4 or uint4, or ``"int3"`` for int4 with codes of -4 to 3.
        axis: Axis of channels or blocks; negative counts from the end.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Codes of ``dtype`` with the shape of ``x``. NaN becomes the lowest code.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, scale or zero point do not fit.

    Source:
        ONNX QuantizeLinear-21, which does not say that scales are positive.

    Example:
        >>> import numpy as np
        >>> quantize_linear_mirrored(np.float32([0.5, 4.0, -4.0]), -0.5).tolist()
        [-1, -8, 7]
    """
    array = as_array(x, "quantize_linear_mirrored")
    row = _row(array, dtype, "quantize_linear_mirrored")
    stored = integer_type(row.dtype)
    if stored.bits != 4:
        raise TypeError(f"quantize_linear_mirrored: dtype: expected int3, int4 or uint4, got {row.name}")
    where = f"quantize_linear_mirrored_{_REALS[array.dtype]}_{stored.code}"
    limits = _stored_limits(row, None, None, where)
    run = getattr(_core, where)
    y = run(array, out, scale, zero_point, axis, block_size, *limits)
    if y is None:
        y = run(array, out, *converted(where, row.dtype, scale, zero_point, axis, block_size), *limits)
    return y  # type: ignore[no-any-return]


def _row(array: NDArray[Any], dtype: DTypeLike, where: str) -> ScalarFormat:
    """Return the type of codes where it is spelled unusually, is none of the kernels' own, or something is wrong."""
    row = integer_type(dtype)
    if array.dtype not in _REALS:
        remedy = float_remedy(array.dtype)
        raise TypeError(f"{where}: x: expected dtype float32, float16 or bfloat16, got {array.dtype}{remedy}")
    return row


def _stored_limits(row: ScalarFormat, qmin: int | None, qmax: int | None, where: str) -> tuple[Any, Any]:
    """Return the limits of codes; where a wider type stores them, they are those of their own type."""
    if not row.storage:
        return qmin, qmax
    low = row.qmin if qmin is None else as_integer(qmin, where, "qmin")
    high = row.qmax if qmax is None else as_integer(qmax, where, "qmax")
    if not row.qmin <= low <= high <= row.qmax:
        raise ValueError(
            f"{where}: range: expected {row.qmin} <= qmin <= qmax <= {row.qmax} for {row.name}, got [{low}, {high}]"
        )
    return low, high
