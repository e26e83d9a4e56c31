"""Block formats, slow and obvious: every function takes one block a row, in float64, where all steps are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "dequantize_bfp",
    "dequantize_bfp_prime",
    "dequantize_mx",
    "fake_quantize_bfp",
    "fake_quantize_bfp_prime",
    "fake_quantize_mx",
    "join_blocks",
    "quantize_bfp",
    "quantize_bfp_prime",
    "quantize_mx",
    "split_blocks",
]

Array = NDArray[Any]

# Element: exponent bits, mantissa bits, exponent of the largest value, largest value.
_MX_FLOATS = {
    "fp8_e5m2": (5, 2, 15, 57344.0),
    "fp8_e4m3": (4, 3, 8, 448.0),
    "fp6_e3m2": (3, 2, 4, 28.0),
    "fp6_e2m3": (2, 3, 2, 7.5),
    "fp4_e2m1": (2, 1, 2, 6.0),
}


def split_blocks(x: Array, axis: int, block_size: int) -> Array:
    """Return float32 blocks, one a row, in the order of the other axes; the last of each line filled with zeros."""
    lines = np.moveaxis(np.asarray(x, np.float32), axis, -1)
    missing = -lines.shape[-1] % block_size
    filled = np.pad(lines, [(0, 0)] * (lines.ndim - 1) + [(0, missing)])
    return filled.reshape(-1, block_size)


def join_blocks(blocks: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Undo :func:`split_blocks`."""
    others = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    length = shape[axis]
    padded = -(-length // blocks.shape[1]) * blocks.shape[1]
    return np.moveaxis(blocks.reshape(*others, padded)[..., :length], -1, axis)


def _exponents(blocks: Array) -> Array:
    """Biased exponents: 0 for zeros and subnormals, 255 for infinities and NaN."""
    return ((blocks.view(np.uint32) >> 23) & 255).astype(np.int64)


def _shared(exponents: Array) -> Array:
    """The largest biased exponent of each block, of finite values only."""
    largest: Array = np.where(exponents < 255, exponents, 0).max(axis=1, keepdims=True)
    return largest


def _rounded(v: Array, rounding: str) -> Array:
    if rounding == "half_away":
        return np.copysign(np.floor(np.abs(v) + 0.5), v)
    if rounding == "half_up":
        return np.copysign(np.abs(np.floor(v + 0.5)), v)
    return np.rint(v)


def _narrowed(y: Array) -> Array:
    with np.errstate(over="ignore"):
        return y.astype(np.float32)


def _without_specials(blocks: Array) -> Array:
    return np.where(_exponents(blocks) < 255, blocks, np.float32(0)).astype(np.float64)


def _quark_zero_sign(codes: Array, quotient: Array, rounding: str) -> Array:
    """Rounding half to even loses the sign of zero, unless the float32 quotient is a zero already."""
    if rounding != "half_even":
        return codes
    return np.where((codes == 0) & (quotient.astype(np.float32) != 0), 0.0, codes)


def _bfp(
    blocks: Array, bit_width: int, rounding: str, raise_exponent: bool, lowest: float | None = None
) -> tuple[Array, Array]:
    """Return the codes (in float64, with signed zeros) and the biased exponent of each block."""
    mantissa = bit_width - 9
    exponent = _shared(_exponents(blocks))
    x = _without_specials(blocks)
    codes = _rounded(x / np.ldexp(1.0, exponent - 127 - mantissa + 1), rounding)
    if raise_exponent:
        exponent = exponent + (codes >= 2.0**mantissa).any(axis=1, keepdims=True)
    quotient = x / np.ldexp(1.0, exponent - 127 - mantissa + 1)
    codes = _quark_zero_sign(_rounded(quotient, rounding), quotient, rounding)
    if not raise_exponent:
        highest = 2.0**mantissa - 1
        codes = np.clip(codes, -highest if lowest is None else lowest, highest)
    return codes, exponent


def fake_quantize_bfp(
    blocks: Array, bit_width: int = 16, rounding: str = "half_even", raise_exponent: bool = False
) -> Array:
    """One exponent a block, codes of bit_width - 8 bits."""
    codes, exponent = _bfp(blocks, bit_width, rounding, raise_exponent)
    y = _narrowed(np.ldexp(codes, exponent - 127 - (bit_width - 9) + 1))
    return np.where(_exponents(blocks) < 255, y, blocks)


def _pack(columns: list[tuple[Array, int]]) -> Array:
    """Bytes of each row: every (values, bits) part as a stream of bits, lowest first."""
    streams = [
        ((values.astype(np.int64)[:, :, None] >> np.arange(bits)) & 1).reshape(len(values), -1)
        for values, bits in columns
    ]
    return np.packbits(np.concatenate(streams, axis=1).astype(np.uint8), axis=1, bitorder="little")


def _unpack(records: Array, parts: list[tuple[int, int]]) -> list[Array]:
    """Undo :func:`_pack` for parts of (count, bits)."""
    stream = np.unpackbits(records, axis=1, bitorder="little").astype(np.int64)
    out, at = [], 0
    for count, bits in parts:
        piece = stream[:, at : at + count * bits].reshape(len(records), count, bits)
        out.append((piece << np.arange(bits)).sum(axis=2))
        at += count * bits
    return out


def quantize_bfp(
    blocks: Array, bit_width: int = 16, rounding: str = "half_even", raise_exponent: bool = False
) -> Array:
    """Exponent byte, then two's complement codes; exponent 255 where a value is not finite."""
    mantissa = bit_width - 9
    codes, exponent = _bfp(blocks, bit_width, rounding, raise_exponent)
    special = ~np.isfinite(blocks)
    x = np.where(np.isfinite(blocks), blocks, 0).astype(np.float64)
    limit = 2.0 ** (mantissa - 1) - 1
    coarse = np.clip(np.trunc(np.ldexp(x, mantissa - 129)), -limit, limit)
    coarse = np.where(np.isinf(blocks), np.copysign(2.0**mantissa - 1, blocks), coarse)
    coarse = np.where(np.isnan(blocks), -(2.0**mantissa), coarse)
    any_special = special.any(axis=1, keepdims=True)
    return _pack([(np.where(any_special, 255, exponent), 8), (np.where(any_special, coarse, codes), mantissa + 1)])


def dequantize_bfp(records: Array, block_size: int = 8, bit_width: int = 16) -> Array:
    """Code times the block's step; with the exponent 255 the lowest code is NaN."""
    mantissa = bit_width - 9
    exponent, codes = _unpack(records, [(1, 8), (block_size, mantissa + 1)])
    codes = np.where(codes >= 2**mantissa, codes - 2 ** (mantissa + 1), codes)
    y = _narrowed(np.ldexp(codes.astype(np.float64), exponent - 127 - mantissa + 1))
    return np.where((exponent == 255) & (codes == -(2**mantissa)), np.float32(np.nan), y)


def _prime(
    blocks: Array, bit_width: int, sub_block_size: int, shift_bits: int, rounding: str
) -> tuple[Array, Array, Array]:
    """Return the codes (in float64, with signed zeros), the biased exponent and the shifts of the sub-blocks."""
    mantissa = bit_width - 9
    own = _exponents(blocks)
    exponent = own.max(axis=1, keepdims=True)
    sub = own.reshape(len(blocks), blocks.shape[1] // sub_block_size, sub_block_size).max(axis=2)
    shift = np.where(exponent == 255, 0, np.minimum(exponent - sub, 2**shift_bits - 1))
    x = np.where(own == 0, 0.0, _without_specials(blocks))
    step = np.ldexp(1.0, np.repeat(exponent - shift, sub_block_size, axis=1) - 127 - mantissa + 1)
    codes = np.clip(_rounded(x / step, rounding), 1 - 2.0**mantissa, 2.0**mantissa - 1)
    return np.where(np.signbit(blocks), -np.abs(codes), np.abs(codes)), exponent, shift


def fake_quantize_bfp_prime(
    blocks: Array, bit_width: int = 16, sub_block_size: int = 2, shift_bits: int = 1, rounding: str = "half_even"
) -> Array:
    """Sub-blocks lower the exponent of their block; a block with an infinity or NaN becomes Quark's NaN."""
    codes, exponent, shift = _prime(blocks, bit_width, sub_block_size, shift_bits, rounding)
    y = _narrowed(np.ldexp(codes, np.repeat(exponent - shift, sub_block_size, axis=1) - 127 - (bit_width - 9) + 1))
    return np.where(exponent == 255, np.uint32(0x7FFFFFFF), y.view(np.uint32)).view(np.float32)


def quantize_bfp_prime(
    blocks: Array, bit_width: int = 16, sub_block_size: int = 2, shift_bits: int = 1, rounding: str = "half_even"
) -> Array:
    """Exponent byte, shifts, then sign-and-magnitude codes; exponent 255 for NaN, its magnitudes zero."""
    codes, exponent, shift = _prime(blocks, bit_width, sub_block_size, shift_bits, rounding)
    magnitude = np.where(exponent == 255, 0, np.abs(codes)).astype(np.int64)
    stored = magnitude | (np.signbit(blocks).astype(np.int64) << (bit_width - 9))
    return _pack([(exponent, 8), (shift, shift_bits), (stored, bit_width - 8)])


def dequantize_bfp_prime(
    records: Array, block_size: int = 16, bit_width: int = 16, sub_block_size: int = 2, shift_bits: int = 1
) -> Array:
    """Magnitude times the sub-block's step, with the sign."""
    mantissa = bit_width - 9
    parts = [(1, 8), (block_size // sub_block_size, shift_bits), (block_size, mantissa + 1)]
    exponent, shift, stored = _unpack(records, parts)
    step = np.repeat(exponent - shift, sub_block_size, axis=1) - 127 - mantissa + 1
    y = _narrowed(np.ldexp((stored % 2**mantissa).astype(np.float64), step))
    y = np.where(stored >= 2**mantissa, -y, y)
    return np.where(exponent == 255, np.uint32(0x7FFFFFFF), y.view(np.uint32)).view(np.float32)


def _mx_scale(blocks: Array, emax: int, rule: str) -> Array:
    """Exponent of each block's scale."""
    scale = _shared(_exponents(blocks)) - 127 - emax
    return np.maximum(scale, -127) if rule == "ocp" else scale


def _mx_values(blocks: Array, element: str, rounding: str, rule: str) -> tuple[Array, Array]:
    """Return the elements' values before scaling (float64, signed zeros kept), and the exponents of the scales."""
    if element == "int8":
        scale = _mx_scale(blocks, 0, rule)
        quotient = _without_specials(blocks) / np.ldexp(1.0, scale)
        codes = _quark_zero_sign(_rounded(64 * quotient, rounding), quotient, rounding)
        return np.clip(codes, -128, 127) / 64, scale
    exponent_bits, mantissa, emax, largest = _MX_FLOATS[element]
    scale = _mx_scale(blocks, emax, rule)
    v = _without_specials(blocks) / np.ldexp(1.0, scale)
    exponent = np.maximum(np.frexp(v)[1] - 1, 2 - 2 ** (exponent_bits - 1))
    rounded = np.ldexp(np.rint(np.ldexp(v, mantissa - exponent)), exponent - mantissa)
    return np.clip(rounded, -largest, largest), scale


def fake_quantize_mx(blocks: Array, element: str, rounding: str = "half_even", rule: str = "quark") -> Array:
    """A power-of-two scale a block, elements rounded to their type."""
    values, scale = _mx_values(blocks, element, rounding, rule)
    y = _narrowed(np.ldexp(values, scale))
    special = ~np.isfinite(blocks)
    if rule == "ocp":
        y = y + np.float32(0) if element == "int8" else np.where(np.signbit(blocks), -np.abs(y), np.abs(y))
        return np.where(special.any(axis=1, keepdims=True), np.float32(np.nan), y)
    y = y if element == "int8" else np.where(y == 0, np.float32(0), y)
    return np.where(special, blocks, y)


def quantize_mx(blocks: Array, element: str, rounding: str = "half_even") -> Array:
    """The e8m0 scale, then the elements' codes; scale 255 for a block with an infinity or NaN."""
    values, scale = _mx_values(blocks, element, rounding, "ocp")
    special = (~np.isfinite(blocks)).any(axis=1, keepdims=True)
    if element == "int8":
        codes, bits = values * 64, 8
    else:
        exponent_bits, mantissa = _MX_FLOATS[element][:2]
        bits = 1 + exponent_bits + mantissa
        positive = _mx_table(element)
        codes = np.searchsorted(positive, np.abs(values)) | (np.signbit(blocks).astype(np.int64) << (bits - 1))
    return _pack([(np.where(special, 255, scale + 127), 8), (np.where(special, 0, codes), bits)])


def _mx_table(element: str) -> Array:
    """The values of all codes without sign, in order."""
    exponent_bits, mantissa = _MX_FLOATS[element][:2]
    code = np.arange(2 ** (exponent_bits + mantissa))
    exponent, fraction = code >> mantissa, (code % 2**mantissa) / 2**mantissa
    bias = 2 ** (exponent_bits - 1) - 1
    table: Array = np.ldexp(fraction + (exponent > 0), np.maximum(exponent, 1) - bias)
    return table


def dequantize_mx(records: Array, element: str, block_size: int = 32) -> Array:
    """Element times scale."""
    bits = 8 if element == "int8" else 1 + sum(_MX_FLOATS[element][:2])
    scale, codes = _unpack(records, [(1, 8), (block_size, bits)])
    if element == "int8":
        values = np.where(codes >= 128, codes - 256, codes) / 64
    else:
        values = _mx_table(element)[codes % 2 ** (bits - 1)]
        values = np.where(codes >= 2 ** (bits - 1), -values, values)
    return np.where(scale == 255, np.float32(np.nan), _narrowed(np.ldexp(values, scale - 127)))
