"""Codes with a scale for each block, as ``quarkfast::DequantizeBlock`` reads them, and linear 16-bit floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import KERNEL_FORMATS, integer_type, qtype
from quarkfast.kernels.arguments import F32, as_array, as_integer, converted, float_remedy
from quarkfast.kernels.packing import pack_codes

__all__ = ["dequantize_float", "pack_linear_blocks", "quantize_float"]

_WHERE = "pack_linear_blocks"
_LARGEST_BLOCK = 256


def pack_linear_blocks(
    codes: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int = -1,
    block_size: int = 32,
    bits: int | None = None,
) -> NDArray[np.uint8]:
    """Store blockwise quantized codes in one array that the operator ``DequantizeBlock`` reads as ``format="linear"``.

    Args:
        codes: int2, uint2, int4, uint4, int8 or uint8, rank 1 or more: what :func:`~quarkfast.quantize_linear` gave
            for ``axis`` and ``block_size``.
        scale: float32, the shape of ``codes`` with ``ceil(length / block_size)`` along ``axis``; finite and > 0.
        zero_point: Codes of the shape of ``scale`` and the dtype of ``codes``; None where the codes are symmetric.
        axis: Axis of the blocks; negative counts from the end.
        block_size: A multiple of 8 up to 256.
        bits: 2, 3, 4 or 8 for int8 and uint8 (default 8), which hold narrower codes; else the type's own.

    Returns:
        uint8 records, shape ``[other axes..., blocks, bytes]``: the float32 scale (little-endian), the zero point where
        given, and the codes as :func:`~quarkfast.pack_codes` packs them. A short last block is filled with code 0.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes do not fit, a scale is not finite and > 0, ``block_size`` or ``bits`` is not among the above,
            or a code does not fit ``bits``.

    Source:
        docs/numerics.md, "Packed codes" and "Integers"; the values are those of ONNX DequantizeLinear-21.

    Example:
        >>> import numpy as np, quarkfast
        >>> scale = np.full((2, 1), 0.5, np.float32)
        >>> codes = quarkfast.quantize_linear(np.ones((2, 32), "f4"), scale, dtype="int4", axis=1, block_size=32)
        >>> pack_linear_blocks(codes, scale).shape
        (2, 1, 20)
    """
    array, scales = as_array(codes, _WHERE, "codes"), as_array(scale, _WHERE, "scale")
    width = _width(array.dtype, bits)
    axis, block_size = _checked_blocks(array, axis, block_size)
    shape = (*array.shape[:axis], -(-array.shape[axis] // block_size), *array.shape[axis + 1 :])
    _check_scales(scales, shape)
    parts = [_last(scales, axis).astype("<f4")[..., None].view(np.uint8)]
    if zero_point is not None:
        zeros = as_array(zero_point, _WHERE, "zero_point")
        if (zeros.dtype, zeros.shape) != (array.dtype, shape):
            raise ValueError(
                f"{_WHERE}: zero_point: expected {array.dtype} of shape {shape}, got {zeros.dtype} of {zeros.shape}"
            )
        parts.append(_bytes(_last(zeros, axis))[..., None])
    lines = _last(array, axis)
    padded = np.zeros((*lines.shape[:-1], parts[0].shape[-2] * block_size), array.dtype)
    padded[..., : lines.shape[-1]] = lines
    packed = _bytes(padded) if width == 8 else pack_codes(padded, bits=width)
    parts.append(packed.reshape(*parts[0].shape[:-1], block_size * width // 8))
    return np.concatenate(parts, axis=-1)


def _width(dtype: np.dtype[Any], bits: int | None) -> int:
    row = integer_type(dtype)
    if row.bits > 8:
        raise TypeError(f"{_WHERE}: codes: expected a type of at most 8 bits, got {row.name}")
    width = row.bits if bits is None else as_integer(bits, _WHERE, "bits")
    if width not in ((2, 3, 4, 8) if row.bits == 8 else (row.bits,)):
        expected = "2, 3, 4 or 8" if row.bits == 8 else str(row.bits)
        raise ValueError(f"{_WHERE}: bits: expected {expected} for {row.name}, got {width}")
    return width


def _checked_blocks(codes: NDArray[Any], axis: int, block_size: int) -> tuple[int, int]:
    axis, block_size = as_integer(axis, _WHERE, "axis"), as_integer(block_size, _WHERE, "block_size")
    if not -codes.ndim <= axis < codes.ndim:
        raise ValueError(f"{_WHERE}: axis: expected an axis of a tensor of rank {codes.ndim}, got {axis}")
    if block_size < 8 or block_size % 8 or block_size > _LARGEST_BLOCK:
        raise ValueError(
            f"{_WHERE}: block_size: expected a multiple of 8 up to {_LARGEST_BLOCK} for packed storage, "
            f"got {block_size}"
        )
    return axis % codes.ndim, block_size


def _check_scales(scales: NDArray[Any], shape: tuple[int, ...]) -> None:
    if scales.dtype != np.float32:
        raise TypeError(f"{_WHERE}: scale: expected dtype float32, got {scales.dtype}")
    if scales.shape != shape:
        raise ValueError(f"{_WHERE}: scale: expected shape {shape}, got {scales.shape}")
    wrong = scales[~(np.isfinite(scales) & (scales > 0))]
    if wrong.size:
        raise ValueError(f"{_WHERE}: scale: expected finite values greater than 0, got {wrong[0]}")


def _last(array: NDArray[Any], axis: int) -> NDArray[Any]:
    """The array with the axis moved to the end, C-contiguous."""
    return np.ascontiguousarray(np.moveaxis(array, axis, -1))


def _bytes(codes: NDArray[Any]) -> NDArray[np.uint8]:
    """Codes of any of the types, one to a byte; those narrower than a byte are extended as int8."""
    row = integer_type(codes.dtype)
    return codes.astype(np.int8 if row.signed else np.uint8).view(np.uint8)


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
