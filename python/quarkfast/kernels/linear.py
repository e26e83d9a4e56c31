"""Linear quantization to and from integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.dtypes import TYPES, integer_type
from quarkfast.kernels.arguments import F32, as_array, as_integer, contiguous, output
from quarkfast.kernels.arguments import layout as scale_layout

__all__ = ["dequantize_linear", "fake_quantize_linear", "quantize_linear"]

# Names of kernels by the code of the integer type; a look-up takes a third of the time of making the string.
_CODES = [row.code for row in TYPES.values() if row.is_integer]
_QUANTIZE = {code: f"quantize_linear_f32_{code}" for code in _CODES}
_DEQUANTIZE = {code: f"dequantize_linear_{code}_f32" for code in _CODES}
_FAKE_QUANTIZE = {code: f"fake_quantize_linear_f32_{code}" for code in _CODES}


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
    """Quantize float32 to integers: ``saturate(round_half_to_even(x / scale) + zero_point)``.

    Args:
        x: float32 array of any shape.
        scale: float32, finite and > 0: a scalar (or one element) per tensor, shape ``[x.shape[axis]]`` per channel, or
            the shape of ``x`` with ``ceil(x.shape[axis] / block_size)`` along ``axis`` per block.
        zero_point: Integers in the range of ``dtype``, of the shape of ``scale``; zeros when absent.
        dtype: int2, uint2, int4, uint4 (of ml_dtypes, one element a byte), int8, uint8, int16, uint16, int32 or uint32.
            3-bit codes live in int8 with ``qmin=-4, qmax=3`` or in uint8 with ``qmax=7``.
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
    row = integer_type(dtype)
    where = _QUANTIZE[row.code]
    array = contiguous(x, where, F32)
    layout = scale_layout(where, array.shape, scale, zero_point, row.dtype, axis, block_size)
    y = output(out, where, array.shape, row.dtype)
    low = row.qmin if qmin is None else as_integer(qmin, where, "qmin")
    high = row.qmax if qmax is None else as_integer(qmax, where, "qmax")
    getattr(_core, where)(array, y, *layout, low, high)
    return y


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    out: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Dequantize integers to float32: ``float32(x - zero_point) * scale``.

    Args:
        x: Array of any shape and of a dtype of :func:`quantize_linear`.
        scale: As in :func:`quantize_linear`.
        zero_point: As in :func:`quantize_linear`.
        axis: Axis of channels or blocks.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        out: float32 array of the shape of ``x`` to write to.

    Returns:
        float32 array of the shape of ``x``. The difference is exact before it is rounded to float32.

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
    row = integer_type(array.dtype)
    where = _DEQUANTIZE[row.code]
    array = contiguous(array, where, row.dtype)
    layout = scale_layout(where, array.shape, scale, zero_point, row.dtype, axis, block_size)
    y = output(out, where, array.shape, F32)
    getattr(_core, where)(array, y, *layout)
    return y


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
) -> NDArray[np.float32]:
    """Quantize and dequantize in one pass: ``dequantize_linear(quantize_linear(x, ...), ...)``, bit for bit.

    Args:
        x: float32 array of any shape.
        scale: As in :func:`quantize_linear`.
        zero_point: As in :func:`quantize_linear`.
        dtype: The integer type to pass through.
        axis: Axis of channels or blocks.
        block_size: Elements along ``axis`` that share a scale; 0 means per tensor or per channel.
        qmin: Lowest code, default the type's lowest.
        qmax: Highest code, default the type's highest.
        out: float32 array of the shape of ``x`` to write to; may be ``x``.

    Returns:
        float32 array of the shape of ``x``.

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
    row = integer_type(dtype)
    where = _FAKE_QUANTIZE[row.code]
    array = contiguous(x, where, F32)
    layout = scale_layout(where, array.shape, scale, zero_point, row.dtype, axis, block_size)
    y = output(out, where, array.shape, F32)
    low = row.qmin if qmin is None else as_integer(qmin, where, "qmin")
    high = row.qmax if qmax is None else as_integer(qmax, where, "qmax")
    getattr(_core, where)(array, y, *layout, low, high)
    return y
