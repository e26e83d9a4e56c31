"""Blocks of float4 values whose codes and scales are arrays of their own: MXFP4 and NVFP4."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.errors import shown
from quarkfast.kernels.arguments import F32, as_array, as_integer, contiguous, laid_out
from quarkfast.kernels.block_arguments import widened
from quarkfast.kernels.statistics import absmax

__all__ = ["MxFp4", "NvFp4", "dequantize_mxfp4", "dequantize_nvfp4", "quantize_mxfp4", "quantize_nvfp4"]

_U8 = np.dtype(np.uint8)
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
_NV_BLOCK = 16
#: The largest float4 times the largest e4m3 scale: what a tensor scale of 1 reaches.
_NV_LARGEST = np.float32(6 * 448)
_TINY = np.finfo(np.float32).tiny


class MxFp4(NamedTuple):
    """A tensor in MXFP4.

    Attributes:
        codes: uint8, shape ``[..., n / 2]``: two float4 codes in a byte, the first in its low half.
        scales: float8_e8m0fnu, shape ``[..., n / block_size]``: powers of two, NaN for a block with infinity or NaN.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[Any]


class NvFp4(NamedTuple):
    """A tensor in NVFP4.

    Attributes:
        codes: As of :class:`MxFp4`.
        scales: float8_e4m3fn, shape ``[..., n / 16]``, > 0, NaN for a block with infinity or NaN.
        tensor_scale: float32 by which the scales are multiplied.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[Any]
    tensor_scale: np.float32


def quantize_mxfp4(x: ArrayLike, *, block_size: int = 32) -> MxFp4:
    """Store blocks along the last axis as float4 codes with a power-of-two scale each, codes and scales apart.

    Args:
        x: float32, float16 or bfloat16 array of rank 1 or more, whose last axis is a multiple of ``block_size``.
        block_size: 16 or 32, which is that of the specification.

    Returns:
        Codes and scales: the bytes of :func:`quantize_mx` with ``"mxfp4_e2m1"``, in two arrays.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: ``block_size`` is another number, or does not divide the last axis.

    Source:
        OCP Microscaling Formats (MX) Specification v1.0, section 6.3; docs/numerics.md, "MXFP4 and NVFP4 in parts".

    Example:
        >>> import numpy as np
        >>> codes, scales = quantize_mxfp4(np.float32([6, -3, 0.5, 0] * 8))
        >>> codes[:2].tolist(), scales.astype(float).tolist()
        ([215, 1], [1.0])
    """
    where = "quantize_mxfp4_f32"
    block = _mx_block(where, block_size)
    array = _whole_blocks(x, where, block)
    codes, scales = _parts(array.shape, block)
    _core.quantize_mxfp4_f32(array, codes, scales, block)
    return MxFp4(codes, scales.view(_E8M0))


def dequantize_mxfp4(codes: ArrayLike, scales: ArrayLike, *, block_size: int = 32) -> NDArray[np.float32]:
    """Read what :func:`quantize_mxfp4` stored.

    Args:
        codes: uint8 array, shape ``[..., n / 2]``.
        scales: float8_e8m0fnu array, or its bytes as uint8, shape ``[..., n / block_size]``.
        block_size: As it was stored.

    Returns:
        float32 array, shape ``[..., n]``.

    Raises:
        TypeError: a dtype is another one.
        ValueError: the shapes do not fit, or ``block_size`` is not 16 or 32.

    Source:
        As :func:`quantize_mxfp4`.

    Example:
        >>> import numpy as np
        >>> dequantize_mxfp4(*quantize_mxfp4(np.float32([6.5, -3, 0.3, 0] * 8)))[:4]
        array([ 6. , -3. ,  0.5,  0. ], dtype=float32)
    """
    where = "dequantize_mxfp4_f32"
    block = _mx_block(where, block_size)
    given, levels, y = _stored(where, codes, scales, _E8M0, block)
    _core.dequantize_mxfp4_f32(given, levels, y, block)
    return y


def quantize_nvfp4(x: ArrayLike, *, tensor_scale: float | None = None) -> NvFp4:
    """Store blocks of 16 along the last axis as float4 codes with an e4m3 scale each and a float32 scale for all.

    Args:
        x: float32, float16 or bfloat16 array of rank 1 or more, whose last axis is a multiple of 16.
        tensor_scale: What the scales of blocks are multiplied by, a normal float32 > 0; by default the largest finite
            magnitude / 2688, so that all scales fit. Layers that a runtime fuses share one.

    Returns:
        Codes, scales and the tensor's scale. The value of a code is ``float4 * (scale * tensor_scale)``.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: 16 does not divide the last axis, or ``tensor_scale`` is not normal and > 0.

    Source:
        NVIDIA's NVFP4 as TensorRT Model Optimizer writes it, but that no scale is 0; docs/numerics.md, "MXFP4 and
        NVFP4 in parts".

    Example:
        >>> import numpy as np
        >>> stored = quantize_nvfp4(np.float32([6, -3, 0.5, 0] * 4))
        >>> stored.scales.astype(float).tolist(), round(float(stored.tensor_scale), 7)
        ([448.0], 0.0022321)
    """
    where = "quantize_nvfp4_f32"
    array = _whole_blocks(x, where, _NV_BLOCK)
    scale = np.maximum(absmax(array) / _NV_LARGEST, _TINY) if tensor_scale is None else _real(where, tensor_scale)
    codes, scales = _parts(array.shape, _NV_BLOCK)
    _core.quantize_nvfp4_f32(array, codes, scales, float(scale))
    return NvFp4(codes, scales.view(_E4M3), np.float32(scale))


def dequantize_nvfp4(codes: ArrayLike, scales: ArrayLike, tensor_scale: float) -> NDArray[np.float32]:
    """Read what :func:`quantize_nvfp4` stored.

    Args:
        codes: uint8 array, shape ``[..., n / 2]``.
        scales: float8_e4m3fn array, or its bytes as uint8, shape ``[..., n / 16]``.
        tensor_scale: As it was stored.

    Returns:
        float32 array, shape ``[..., n]``.

    Raises:
        TypeError: a dtype is another one.
        ValueError: the shapes do not fit, or ``tensor_scale`` is not normal and > 0.

    Source:
        As :func:`quantize_nvfp4`.

    Example:
        >>> import numpy as np
        >>> dequantize_nvfp4(*quantize_nvfp4(np.float32([6.1, -3, 0.3, 0] * 4), tensor_scale=1))[:4]
        array([ 6. , -3. ,  0.5,  0. ], dtype=float32)
    """
    where = "dequantize_nvfp4_f32"
    scale = _real(where, tensor_scale)
    given, levels, y = _stored(where, codes, scales, _E4M3, _NV_BLOCK)
    _core.dequantize_nvfp4_f32(given, levels, y, float(scale))
    return y


def _mx_block(where: str, block_size: int) -> int:
    block = as_integer(block_size, where, "block_size")
    if block not in (16, 32):
        raise ValueError(f"{where}: block_size: expected 16 or 32, got {block}")
    return block


def _real(where: str, scale: Any) -> np.float32:
    """Return a tensor's scale; the binding checks its value."""
    given = as_array(scale, where, "tensor_scale")
    if given.size != 1 or given.dtype.kind not in "fiu":
        raise ValueError(f"{where}: tensor_scale: expected a real number, got {shown(scale)}")
    with np.errstate(over="ignore"):  # what overflows is refused as infinity
        return np.float32(given.reshape(())[()])


def _whole_blocks(x: ArrayLike, where: str, block: int) -> NDArray[Any]:
    array = contiguous(widened(x, where), where, F32)
    if not array.ndim or array.shape[-1] % block:
        raise ValueError(f"{where}: x: expected rows of a multiple of {block} values, got shape {array.shape}")
    return array


def _parts(shape: tuple[int, ...], block: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return room for codes and scales."""
    return np.empty((*shape[:-1], shape[-1] // 2), _U8), np.empty((*shape[:-1], shape[-1] // block), _U8)


def _stored(
    where: str, codes: ArrayLike, scales: ArrayLike, dtype: np.dtype[Any], block: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]:
    """Return codes and the bytes of scales after checking them, and room for the values."""
    given, levels = as_array(codes, where, "codes"), as_array(scales, where, "scales")
    if given.dtype != _U8:
        raise TypeError(f"{where}: codes: expected dtype uint8, got {given.dtype}")
    if levels.dtype not in (dtype, _U8):
        raise TypeError(f"{where}: scales: expected dtype {dtype} or uint8, got {levels.dtype}")
    shape = (*given.shape[:-1], given.shape[-1] * 2) if given.ndim else ()
    if not shape or shape[-1] % block or levels.shape != (*shape[:-1], shape[-1] // block):
        raise ValueError(
            f"{where}: scales: expected one for each {block} of rows of codes, two to a byte, got shape {levels.shape} "
            f"for codes of {given.shape}"
        )
    return laid_out(given), laid_out(levels).view(_U8), np.empty(shape, F32)
