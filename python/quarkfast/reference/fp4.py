"""MXFP4 and NVFP4 with codes and scales apart, slow and obvious: rows of whole blocks along the last axis."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.reference.blocks import dequantize_mx, quantize_mx

__all__ = ["dequantize_mxfp4", "dequantize_nvfp4", "quantize_mxfp4", "quantize_nvfp4"]

Array = NDArray[Any]

_FP4 = ml_dtypes.float4_e2m1fn
_E4M3 = ml_dtypes.float8_e4m3fn
_E4M3_LARGEST, _E4M3_LEAST = np.float32(448), np.float32(2**-9)


def quantize_mxfp4(x: Array, block_size: int = 32) -> tuple[Array, Array]:
    """Codes, two to a byte, and e8m0 scales: the parts of the records of :func:`quantize_mx`."""
    if not x.size:  # quantize_mx wants a block
        shape = x.shape[:-1]
        empty = np.empty((*shape, x.shape[-1] // block_size), ml_dtypes.float8_e8m0fnu)
        return np.empty((*shape, x.shape[-1] // 2), np.uint8), empty
    records = quantize_mx(x.reshape(-1, block_size), "fp4_e2m1")
    blocks = (*x.shape[:-1], x.shape[-1] // block_size)
    scales = records[:, 0].reshape(blocks).view(ml_dtypes.float8_e8m0fnu)
    return records[:, 1:].reshape(*x.shape[:-1], x.shape[-1] // 2), scales


def dequantize_mxfp4(codes: Array, scales: Array, block_size: int = 32) -> Array:
    """Values of codes and scales."""
    if not codes.size:
        return np.empty((*codes.shape[:-1], codes.shape[-1] * 2), np.float32)
    levels = scales.view(np.uint8).reshape(-1, 1)
    records = np.concatenate([levels, codes.reshape(-1, block_size // 2)], axis=1)
    values = dequantize_mx(records, "fp4_e2m1", block_size)
    return values.reshape(*codes.shape[:-1], codes.shape[-1] * 2)


def quantize_nvfp4(x: Array, tensor_scale: float) -> tuple[Array, Array]:
    """Codes, two to a byte, and e4m3 scales of blocks of 16."""
    blocks = np.asarray(x, np.float32).reshape(-1, 16)
    odd = np.flatnonzero(~np.isfinite(blocks).all(axis=1))
    blocks = blocks.copy()
    blocks[odd] = 0
    factor = np.float32(tensor_scale)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(6) / factor
        scales = np.maximum(np.minimum(wanted, _E4M3_LARGEST).astype(_E4M3).astype(np.float32), _E4M3_LEAST)
        codes = (blocks / (scales * factor)).astype(_FP4).view(np.uint8) & 15
    scales[odd], codes[odd] = np.nan, 0
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(*x.shape[:-1], x.shape[-1] // 2)
    return packed, scales.astype(_E4M3).reshape(*x.shape[:-1], x.shape[-1] // 16)


def dequantize_nvfp4(codes: Array, scales: Array, tensor_scale: float) -> Array:
    """Values of codes and scales."""
    both = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1, 16)
    values = both.view(_FP4).astype(np.float32)
    factor = scales.view(_E4M3).astype(np.float32).reshape(-1, 1) * np.float32(tensor_scale)
    with np.errstate(over="ignore"):
        y: Array = values * factor
    return y.reshape(*codes.shape[:-1], codes.shape[-1] * 2)
