"""Packing of narrow codes, slow and obvious: a stream of single bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["dequantize_linear_blocks", "pack_codes", "pack_columns", "pack_linear_blocks", "unpack_codes"]

Array = NDArray[Any]


def pack_codes(x: Array, bits: int) -> Array:
    """Write the low bits of each code, lowest first, one after the other, and cut the stream into bytes."""
    codes = np.asarray(x).astype(np.int8).reshape(-1, 1).view(np.uint8)
    return np.packbits(np.unpackbits(codes, axis=1, bitorder="little")[:, :bits].reshape(-1), bitorder="little")


def pack_columns(x: Array) -> Array:
    """Pack each column of 4-bit codes into a row of its own."""
    columns = np.asarray(x).T
    return np.array([pack_codes(column, 4) for column in columns], np.uint8).reshape(len(columns), len(x) // 2)


def unpack_codes(x: Array, n: int, bits: int, signed: bool) -> Array:
    """Read n codes from the stream; the highest bit of a signed one counts negatively."""
    stream = np.unpackbits(np.asarray(x, np.uint8), bitorder="little")[: n * bits].reshape(n, bits)
    weights = np.int64(1) << np.arange(bits)
    if signed:
        weights[-1] = -weights[-1]
    codes: Array = (stream * weights).sum(axis=1)
    return codes.astype(np.int8 if signed else np.uint8)


def pack_linear_blocks(
    codes: Array, scale: Array, zero_point: Array | None, axis: int, block_size: int, bits: int
) -> Array:
    """Write block after block: the bytes of its scale, its zero point where there is one, the stream of its codes."""
    lines, scales = np.moveaxis(codes, axis, -1), np.moveaxis(scale, axis, -1)
    zeros = None if zero_point is None else np.moveaxis(zero_point, axis, -1)
    records = [_record(lines, scales, zeros, at, block_size, bits) for at in np.ndindex(*scales.shape)]
    size = 4 + (zero_point is not None) + block_size * bits // 8
    return np.frombuffer(b"".join(records), np.uint8).reshape(*scales.shape, size)


def _record(lines: Array, scales: Array, zeros: Array | None, at: tuple[int, ...], block_size: int, bits: int) -> bytes:
    block = np.zeros(block_size, np.int8)
    given = lines[at[:-1]][at[-1] * block_size : (at[-1] + 1) * block_size]
    block[: given.size] = given.astype(np.int16).astype(np.int8)
    parts: list[Array] = [np.array(scales[at]).astype("<f4"), pack_codes(block, bits)]
    if zeros is not None:
        parts.insert(1, np.array(zeros[at]).astype(np.int16).astype(np.int8))
    return b"".join(part.tobytes() for part in parts)


def dequantize_linear_blocks(
    records: Array, length: int, axis: int, block_size: int, bits: int, signed: bool, has_zero_point: bool
) -> Array:
    """Read what :func:`pack_linear_blocks` wrote: (code - zero point) * scale, one rounding."""
    flat = records.reshape(-1, records.shape[-1])
    scale = flat[:, :4].copy().view("<f4").astype(np.float32)
    zero = np.zeros((len(flat), 1), np.int64)
    if has_zero_point:
        zero = flat[:, 4:5].copy().view(np.int8 if signed else np.uint8).astype(np.int64)
    codes = np.stack([unpack_codes(row[4 + has_zero_point :], block_size, bits, signed) for row in flat])
    values = (codes.astype(np.int64) - zero).astype(np.float32) * scale
    lines = values.reshape(*records.shape[:-2], -1)[..., :length]
    return np.moveaxis(lines, -1, axis)
