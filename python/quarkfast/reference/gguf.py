"""Blocks of GGUF files, slow and obvious: every function takes one block a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.reference import gguf_super

__all__ = ["dequantize_gguf", "quantize_gguf"]

Array = NDArray[Any]

# Bits of a code, and whether a minimum is stored, of the types whose codes are packed two to a byte.
_NIBBLES = {"Q4_0": (4, False), "Q4_1": (4, True), "Q5_0": (5, False), "Q5_1": (5, True)}


def quantize_gguf(blocks: Array, type: str) -> Array:
    """Records of float32 blocks, one a row."""
    blocks = np.asarray(blocks, np.float32)
    limit = 2.0**30 if type.endswith("_K") else np.inf  # of super-blocks, whose sums of cubes would overflow
    odd = np.flatnonzero(~(np.abs(blocks) < limit).all(axis=1))
    blocks = blocks.copy()
    blocks[odd] = 0
    records = _nibbles(blocks, type) if type in _NIBBLES else _QUANTIZE[type](blocks)
    records[odd] = 0
    at = 208 if type == "Q6_K" else 0
    records[odd, at : at + 2] = _stored(np.full((1, 1), np.nan))
    return records


def dequantize_gguf(records: Array, type: str) -> Array:
    """float32 blocks of records, one a row."""
    if type not in _NIBBLES:
        return _DEQUANTIZE[type](records)
    with np.errstate(invalid="ignore"):
        bits, has_minimum = _NIBBLES[type]
        codes = _codes(records[:, 4 if has_minimum else 2 :], bits)
        if has_minimum:
            scale, low = _loaded_pair(records)
            y: Array = scale * codes.astype(np.float32) + low
        else:
            y = _loaded(records[:, :2]) * (codes - 2 ** (bits - 1)).astype(np.float32)
        return y


def _stored(values: Array) -> Array:
    """The bytes of float16 values, one a row."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values.astype(np.float16)).view(np.uint8)


def _loaded(parts: Array) -> Array:
    return np.ascontiguousarray(parts).view(np.float16).astype(np.float32)


def _loaded_pair(records: Array) -> tuple[Array, Array]:
    """Scales and minima; where one is NaN, both are the same NaN."""
    scale, low = _loaded(records[:, :2]), _loaded(records[:, 2:4])
    scale = np.where(np.isnan(low), low, scale)
    return scale, np.where(np.isnan(scale), scale, low)


def _inverse(scale: Array) -> Array:
    """1 / scale, 0 where that is not finite."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / scale
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def _quantize_q8_0(blocks: Array) -> Array:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    quotient = (blocks * _inverse(scale)).astype(np.float64)
    codes = np.copysign(np.floor(np.abs(quotient) + 0.5), quotient).astype(np.int8)
    return np.concatenate([_stored(scale), codes.view(np.uint8)], axis=1)


def _dequantize_q8_0(records: Array) -> Array:
    with np.errstate(invalid="ignore"):
        y: Array = _loaded(records[:, :2]) * records[:, 2:].view(np.int8).astype(np.float32)
    return y


def _nibbles(blocks: Array, type: str) -> Array:
    bits, has_minimum = _NIBBLES[type]
    top = 2**bits - 1
    with np.errstate(over="ignore", invalid="ignore"):
        if has_minimum:
            low = blocks.min(axis=1, keepdims=True) + np.float32(0)
            scale = (blocks.max(axis=1, keepdims=True) - low) / np.float32(top)
            codes, head = (blocks - low) * _inverse(scale) + np.float32(0.5), [_stored(scale), _stored(low)]
        else:
            half = 2 ** (bits - 1)
            at = np.abs(blocks).argmax(axis=1, keepdims=True)
            scale = np.take_along_axis(blocks, at, axis=1) / np.float32(-half)
            codes, head = blocks * _inverse(scale) + np.float32(half + 0.5), [_stored(scale)]
    codes = np.clip(np.nan_to_num(codes, nan=0.0), 0, top).astype(np.uint8)
    if bits == 5:
        head.append(np.packbits(codes >> 4, axis=1, bitorder="little"))
    return np.concatenate([*head, (codes[:, :16] & 15) | (codes[:, 16:] & 15) << 4], axis=1)


def _codes(parts: Array, bits: int) -> Array:
    """Codes of the low halves of bytes, then of the high ones, with the fifth bits that stand in front."""
    low = parts[:, -16:]
    codes = np.concatenate([low & 15, low >> 4], axis=1).astype(np.int64)
    if bits == 5:
        codes |= np.unpackbits(parts[:, :4], axis=1, bitorder="little").astype(np.int64) << 4
    return codes


_QUANTIZE = {"Q8_0": _quantize_q8_0, "Q4_K": gguf_super.quantize_q4_k, "Q6_K": gguf_super.quantize_q6_k}
_DEQUANTIZE = {"Q8_0": _dequantize_q8_0, "Q4_K": gguf_super.dequantize_q4_k, "Q6_K": gguf_super.dequantize_q6_k}
