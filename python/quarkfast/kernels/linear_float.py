"""Linear quantization to and from 16-bit floats: a scale and an offset, but no grid of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import KERNEL_FORMATS, qtype
from quarkfast.kernels.arguments import F32, as_array, float_remedy
from quarkfast.kernels.scaled import converted

__all__ = ["dequantize_float", "quantize_float"]

_CODES = {row.dtype: row.code for row in KERNEL_FORMATS if not row.is_integer and row.bits == 16}


def quantize_float(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.float16,
    axis: int = 1,
    block_size: int = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Divide by a scale and round to a 16-bit float: ``dtype(x / scale + zero_point)``.

    Args:
        x: float32 array of any shape.
        scale: As in :func:`~quarkfast.quantize_linear`.
        zero_point: Finite values of ``dtype`` and of the shape of ``scale``; zeros when absent.
        dtype: float16 or bfloat16.
        axis: Axis of channels or blocks; negative counts from the end.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Array of ``dtype``, each step rounded in float32. float16 saturates at +-65504, infinities included; bfloat16
        overflows to infinity. NaN stays NaN.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, scale or zero point do not fit.

    Source:
        AMD Quark's operator ``ExtendedQuantizeLinear``; docs/numerics.md, "Linear quantization to 16-bit floats".

    Example:
        >>> import numpy as np
        >>> quantize_float(np.float32([1.0, -0.5, 1e9]), 0.25)
        array([ 4.00e+00, -2.00e+00,  6.55e+04], dtype=float16)
    """
    row = qtype(dtype)
    target = row.dtype
    if target not in _CODES:
        raise TypeError(f"quantize_float: dtype: expected float16 or bfloat16, got {row.name}")
    where = f"quantize_float_f32_{row.code}"
    run, array = getattr(_core, where), as_array(x, where)
    if array.dtype != F32:
        raise TypeError(f"{where}: x: expected dtype float32, got {array.dtype}{float_remedy(array.dtype)}")
    y = run(array, out, scale, zero_point, axis, block_size)
    if y is None:
        y = run(array, out, *converted(where, target, scale, zero_point, axis, block_size))
    return y  # type: ignore[no-any-return]


def dequantize_float(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Bring back what :func:`quantize_float` made: ``(float32(x) - zero_point) * scale``.

    Args:
        x: float16 or bfloat16 array of any shape.
        scale: As in :func:`quantize_float`.
        zero_point: As in :func:`quantize_float`, of the dtype of ``x``.
        axis: Axis of channels or blocks.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        out: float32 array of the shape of ``x`` to write to.

    Returns:
        float32 array, the difference and the product each rounded.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, scale or zero point do not fit.

    Source:
        AMD Quark's operator ``ExtendedDequantizeLinear``; docs/numerics.md, "Linear quantization to 16-bit floats".

    Example:
        >>> import numpy as np
        >>> dequantize_float(np.float16([4.0, -2.0]), 0.25)
        array([ 1. , -0.5], dtype=float32)
    """
    array = as_array(x, "dequantize_float")
    code = _CODES.get(array.dtype)
    if code is None:
        raise TypeError(f"dequantize_float: x: expected dtype float16 or bfloat16, got {array.dtype}")
    where = f"dequantize_float_{code}_f32"
    run = getattr(_core, where)
    y = run(array, out, scale, zero_point, axis, block_size)
    if y is None:
        y = run(array, out, *converted(where, array.dtype, scale, zero_point, axis, block_size))
    return y  # type: ignore[no-any-return]
