"""Super-blocks of GGUF files, slow and obvious: one block of 256 values a row; groups of a block one a row inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["dequantize_gguf", "dequantize_q4_k", "dequantize_q6_k", "quantize_gguf", "quantize_q4_k", "quantize_q6_k"]

Array = NDArray[Any]

F32 = np.float32
# Groups of Q6_K without a larger magnitude have scale 0.
_NOTHING = F32(1e-15)


def _nearest(v: Array) -> Array:
    """Whole numbers, halves to even, for magnitudes below 2^22; beyond, and of what is not finite, the low bits."""
    with np.errstate(invalid="ignore"):
        return ((v + F32(12582912)).view(np.uint32) & 0x007FFFFF).astype(np.int64) - 0x00400000


def _sums(terms: Array) -> Array:
    """Sums of rows in float32, term by term."""
    total = terms[:, 0].copy()
    with np.errstate(invalid="ignore", over="ignore"):
        for column in terms.T[1:]:
            total = total + column
    return total


def _float16(values: Array) -> tuple[Array, Array]:
    """Values as float16: as bytes, and as they read."""
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(values.astype(np.float16))
    return stored.view(np.uint8).reshape(-1, 2), stored.astype(F32)


def _kept_codes(codes: Array, search: Array, scale: Array) -> Array:
    """Codes, but those of the search where a group has no scale."""
    return np.where((scale == 0)[:, None], search, codes)


@np.errstate(all="ignore")
def _search_q4_k(x: Array) -> tuple[Array, Array, Array]:
    """Scale, minimum (from zero down) and codes of each group of 32."""
    weight = np.sqrt(_sums(x * x) / F32(32))[:, None] + np.abs(x)
    sum_w, sum_x = _sums(weight), _sums(weight * x)
    low, high = np.minimum(x.min(axis=1), F32(0)), x.max(axis=1)
    flat = high == low
    codes = np.clip(_nearest((F32(15) / (high - low))[:, None] * (x - low[:, None])), 0, 15)
    scale = F32(1) / (F32(15) / (high - low))

    def error(scale: Array, low: Array, codes: Array) -> Array:
        difference = scale[:, None] * codes.astype(F32) + low[:, None] - x
        return _sums(weight * (difference * difference))

    best = error(scale, low, codes)
    for number in range(21):
        width = F32(-1) + F32(0.1) * F32(number) + F32(15)
        found = np.clip(_nearest((width / (high - low))[:, None] * (x - low[:, None])), 0, 15)
        weighted = weight * found.astype(F32)
        sum_l, sum_l2, sum_xl = _sums(weighted), _sums(weighted * found.astype(F32)), _sums(weighted * x)
        determinant = sum_w * sum_l2 - sum_l * sum_l
        new_low = (sum_l2 * sum_x - sum_l * sum_xl) / determinant
        new_scale = np.where(new_low > 0, sum_xl / sum_l2, (sum_w * sum_xl - sum_x * sum_l) / determinant)
        new_low = np.where(new_low > 0, F32(0), new_low)
        found_error = error(new_scale, new_low, found)
        better = (determinant > 0) & (found_error < best)
        best, scale = np.where(better, found_error, best), np.where(better, new_scale, scale)
        low, codes = np.where(better, new_low, low), np.where(better[:, None], found, codes)
    return np.where(flat, F32(0), scale), -low, np.where(flat[:, None], 0, codes)


@np.errstate(all="ignore")
def _multiples(numbers: Array) -> tuple[Array, Array]:
    """6-bit multiples of a 63rd of the largest of eight numbers, and that part of it."""
    largest = np.zeros(len(numbers), F32)
    for column in numbers.T:
        largest = np.where(column > largest, column, largest)
    inverse = np.where(largest > 0, F32(63) / largest, F32(0))
    return np.minimum(_nearest(inverse[:, None] * numbers) & 255, 63), largest / F32(63)


def quantize_q4_k(blocks: Array) -> Array:
    """Records of float32 blocks: two float16, scales and minima of 6 bits, codes of 4 bits."""
    groups = blocks.reshape(-1, 32)
    scales, minima, searched = _search_q4_k(groups)
    scale_codes, scale_step = _multiples(scales.reshape(-1, 8))
    minimum_codes, minimum_step = _multiples(minima.reshape(-1, 8))
    (scale_bytes, d), (minimum_bytes, m) = _float16(scale_step), _float16(minimum_step)
    scale = (d[:, None] * scale_codes.astype(F32)).reshape(-1)
    minimum = (m[:, None] * minimum_codes.astype(F32)).reshape(-1)
    with np.errstate(all="ignore"):
        codes = np.clip(_nearest((groups + minimum[:, None]) / scale[:, None]), 0, 15)
    codes = _kept_codes(codes, searched, scale).astype(np.uint8).reshape(-1, 4, 2, 32)
    heads = [scale_codes[:, :4] | scale_codes[:, 4:] >> 4 << 6, minimum_codes[:, :4] | minimum_codes[:, 4:] >> 4 << 6]
    lows = scale_codes[:, 4:] & 15 | (minimum_codes[:, 4:] & 15) << 4
    packed = (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(-1, 128)
    parts = [scale_bytes, minimum_bytes, *(part.astype(np.uint8) for part in (*heads, lows)), packed]
    return np.concatenate(parts, axis=1)


def dequantize_q4_k(records: Array) -> Array:
    """float32 blocks of records."""
    d, m = (np.ascontiguousarray(records[:, at : at + 2]).view(np.float16).astype(F32) for at in (0, 2))
    d = np.where(np.isnan(m), m, d)
    m = np.where(np.isnan(d), d, m)
    heads, minima, lows = (records[:, at : at + 4] for at in (4, 8, 12))
    scale_codes = np.concatenate([heads & 63, lows & 15 | heads >> 6 << 4], axis=1)
    minimum_codes = np.concatenate([minima & 63, lows >> 4 | minima >> 6 << 4], axis=1)
    packed = records[:, 16:].reshape(-1, 4, 1, 32)
    codes = np.concatenate([packed & 15, packed >> 4], axis=2).reshape(-1, 8, 32).astype(F32)
    with np.errstate(invalid="ignore"):
        scale, minimum = d * scale_codes.astype(F32), m * minimum_codes.astype(F32)
        y: Array = scale[:, :, None] * codes - minimum[:, :, None]
    return y.reshape(-1, 256)


@np.errstate(all="ignore")
def _search_q6_k(x: Array) -> tuple[Array, Array]:
    """Scale and codes, from 0 to 63, of each group of 16."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)[:, 0]
    nothing = np.abs(peak) < _NOTHING
    weight = x * x
    scale, best, codes = np.zeros_like(peak), np.zeros_like(peak), np.zeros(x.shape, np.int64)
    for number in (0, *range(-9, 0), *range(1, 10)):
        width = -(F32(32) + F32(0.1) * F32(number))
        found = np.clip(_nearest((width / peak)[:, None] * x), -32, 31)
        sum_xl = _sums(weight * x * found.astype(F32))
        sum_l2 = _sums(weight * found.astype(F32) * found.astype(F32))
        better = (sum_l2 > 0) & (sum_xl * sum_xl > best * sum_l2) | (number == 0)
        new_scale = np.where(sum_l2 != 0, sum_xl / sum_l2, F32(0))
        scale, best = np.where(better, new_scale, scale), np.where(better, new_scale * sum_xl, best)
        codes = np.where(better[:, None], found + 32, codes)
    return np.where(nothing, F32(0), scale), np.where(nothing[:, None], 0, codes)


def quantize_q6_k(blocks: Array) -> Array:
    """Records of float32 blocks: codes of 6 bits, scales of 8 bits, a float16."""
    groups = blocks.reshape(-1, 16)
    found, searched = _search_q6_k(groups)
    scales = found.reshape(-1, 16)
    largest = np.take_along_axis(scales, np.abs(scales).argmax(axis=1, keepdims=True), axis=1)
    with np.errstate(all="ignore"):
        inverse = F32(-128) / largest
        scale_codes = np.minimum(_nearest(inverse * scales), 127).astype(np.int8)
        scale_bytes, d = _float16(F32(1) / inverse)
        scale = (d * scale_codes.astype(F32)).reshape(-1)
        codes = np.clip(_nearest(groups / scale[:, None]), -32, 31) + 32
    codes = _kept_codes(codes, searched, scale).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = codes[:, :, :2] & 15 | (codes[:, :, 2:] & 15) << 4
    high = codes[:, :, 0] >> 4 | codes[:, :, 1] >> 4 << 2 | codes[:, :, 2] >> 4 << 4 | codes[:, :, 3] >> 4 << 6
    parts = [low.reshape(-1, 128), high.reshape(-1, 64), scale_codes.view(np.uint8), scale_bytes]
    records = np.concatenate(parts, axis=1)
    records[np.abs(largest[:, 0]) < _NOTHING] = 0
    return records


def dequantize_q6_k(records: Array) -> Array:
    """float32 blocks of records."""
    low = records[:, :128].reshape(-1, 2, 2, 32)
    high = records[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = np.concatenate([low & 15, low >> 4], axis=2) | (high & 3) << 4
    d = np.ascontiguousarray(records[:, 208:]).view(np.float16).astype(F32)
    with np.errstate(invalid="ignore"):
        scale = d * records[:, 192:208].view(np.int8).astype(F32)
        y: Array = scale[:, :, None] * (codes.reshape(-1, 16, 16).astype(F32) - F32(32))
    return y.reshape(-1, 256)


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


_QUANTIZE = {"Q8_0": _quantize_q8_0, "Q4_K": quantize_q4_k, "Q6_K": quantize_q6_k}
_DEQUANTIZE = {"Q8_0": _dequantize_q8_0, "Q4_K": dequantize_q4_k, "Q6_K": dequantize_q6_k}
