"""Linear quantization to and from integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.dtypes import TYPES, integer_type
from quarkfast.kernels.arguments import F32, as_array, as_dtype, as_integer, laid_out, output
from quarkfast.kernels.arguments import layout as scale_layout

__all__ = ["dequantize_linear", "fake_quantize_linear", "quantize_linear"]

# The floats that are quantized, and what kernels are called by float and integer type; a look-up takes a third of the
# time of making the name.
_FLOATS = {TYPES[name].dtype: TYPES[name].code for name in ("float16", "bfloat16")} | {F32: "f32"}
_PAIRS = [(real, row.code) for real in _FLOATS.values() for row in TYPES.values() if row.is_integer]
_QUANTIZE = {(real, code): f"quantize_linear_{real}_{code}" for real, code in _PAIRS}
_DEQUANTIZE = {(real, code): f"dequantize_linear_{code}_{real}" for real, code in _PAIRS}
_FAKE_QUANTIZE = {(real, code): f"fake_quantize_linear_{real}_{code}" for real, code in _PAIRS}


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
    array, real = _real(x, "quantize_linear")
    where = _QUANTIZE[real, row.code]
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
    row = integer_type(array.dtype)
    target = F32 if dtype is np.float32 else as_dtype(dtype, "dequantize_linear")
    real = _FLOATS.get(target)
    if real is None:
        raise TypeError(f"dequantize_linear: dtype: expected float32, float16 or bfloat16, got {target}")
    where = _DEQUANTIZE[real, row.code]
    array = laid_out(array)
    layout = scale_layout(where, array.shape, scale, zero_point, row.dtype, axis, block_size)
    y = output(out, where, array.shape, target)
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
    row = integer_type(dtype)
    array, real = _real(x, "fake_quantize_linear")
    where = _FAKE_QUANTIZE[real, row.code]
    layout = scale_layout(where, array.shape, scale, zero_point, row.dtype, axis, block_size)
    y = output(out, where, array.shape, array.dtype)
    low = row.qmin if qmin is None else as_integer(qmin, where, "qmin")
    high = row.qmax if qmax is None else as_integer(qmax, where, "qmax")
    getattr(_core, where)(array, y, *layout, low, high)
    return y


def _real(x: ArrayLike, where: str) -> tuple[NDArray[Any], str]:
    """Return x as a contiguous array of floats, and the code of its type."""
    array = x if type(x) is np.ndarray else as_array(x, where)
    real = _FLOATS.get(array.dtype)
    if real is None:
        raise TypeError(f"{where}: x: expected dtype float32, float16 or bfloat16, got {array.dtype}")
    flags = array.flags
    return (array if flags.c_contiguous and flags.aligned else laid_out(array)), real
