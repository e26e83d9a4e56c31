"""Codes of 2 to 8 bits in 32-bit words: a little-endian stream of bits along each row."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.schemes import Element
from quarkfast.kernels import pack_codes, pack_columns, unpack_codes

__all__ = [
    "EVEN_FIRST",
    "IN_ORDER",
    "exponents",
    "from_exponents",
    "pack_across",
    "pack_floats",
    "pack_words",
    "packed_columns",
    "unpack_floats",
    "unpack_words",
    "words_of",
]

#: Which of eight codes goes to which place of a word, from the low bits up.
IN_ORDER = (0, 1, 2, 3, 4, 5, 6, 7)
EVEN_FIRST = (0, 2, 4, 6, 1, 3, 5, 7)


def words_of(columns: int, bits: int) -> int:
    """How many words hold a row.

    Example:
        >>> words_of(64, 3), words_of(9, 4)
        (6, 2)
    """
    return -(-columns * bits // 32)


def pack_words(codes: NDArray[np.uint8], bits: int, order: tuple[int, ...] = IN_ORDER) -> NDArray[np.int32]:
    """Packs unsigned codes ``[rows, columns]`` into int32 ``[rows, words]``; the last word is filled with zero bits.

    Args:
        codes: Less than ``2**bits``.
        bits: 2, 3, 4 or 8.
        order: Of eight codes in a word; another than `IN_ORDER` for 4 bits alone.

    Example:
        >>> import numpy as np
        >>> [hex(word) for word in pack_words(np.arange(8, dtype=np.uint8)[None], 4, EVEN_FIRST)[0]]
        ['0x75316420']
    """
    rows, columns = codes.shape
    words = words_of(columns, bits)
    wide = words * 32 // bits if bits != 3 else -(-columns // 32) * 32
    if wide != columns:
        codes = np.pad(codes, ((0, 0), (0, wide - columns)))
    if order != IN_ORDER:
        codes = codes.reshape(rows, -1, 8)[..., order]
    codes = np.ascontiguousarray(codes)
    packed = codes.reshape(-1) if bits == 8 else pack_codes(codes, bits=bits)
    return packed.view(np.int32).reshape(rows, -1)[:, :words]


def pack_across(codes: NDArray[np.uint8], order: tuple[int, ...]) -> NDArray[np.int32]:
    """Packs codes of 4 bits ``[rows, columns]`` down each column into int32 ``[columns, words]``.

    Args:
        codes: Less than 16.
        order: Of eight codes in a word.

    Example:
        >>> import numpy as np
        >>> [hex(word) for word in pack_across(np.arange(8, dtype=np.uint8)[:, None], EVEN_FIRST)[0]]
        ['0x75316420']
    """
    rows, columns = codes.shape
    if rows % 16:
        return pack_words(np.ascontiguousarray(codes.T), 4, order)
    ordered = codes.reshape(-1, 8, columns)[:, order].reshape(rows, columns)
    return pack_columns(ordered.view(ml_dtypes.uint4)).view(np.int32)


def unpack_words(
    words: NDArray[np.int32], bits: int, columns: int, order: tuple[int, ...] = IN_ORDER
) -> NDArray[np.uint8]:
    """Unpacks what :func:`pack_words` packed."""
    rows = words.shape[0]
    each = bits if bits == 3 else 1  # words that hold a whole number of codes
    whole = -(-words.shape[1] // each) * each
    data = np.ascontiguousarray(np.pad(words, ((0, 0), (0, whole - words.shape[1])))).view(np.uint8)
    wide = whole * 32 // bits
    codes = data.reshape(rows, wide) if bits == 8 else unpack_codes(data.reshape(-1), np.uint8, (rows, wide), bits=bits)
    if order != IN_ORDER:
        back = np.argsort(order)
        codes = codes.reshape(rows, -1, 8)[..., back].reshape(rows, wide)
    return np.ascontiguousarray(codes[:, :columns])


def packed_columns(columns: int, element: Element) -> int:
    """Bytes that hold a row.

    Example:
        >>> from quarkfast.checkpoint.schemes import ELEMENTS
        >>> packed_columns(32, ELEMENTS["fp4"]), packed_columns(32, ELEMENTS["fp6_e2m3"])
        (16, 24)
    """
    return columns * element.bits // 8


def pack_floats(codes: NDArray[Any]) -> NDArray[np.uint8]:
    """Packs float4 two to a byte, the first in the low bits, and float6 four in three bytes; rows are whole groups."""
    data = codes.view(np.uint8)
    if codes.dtype == ml_dtypes.float4_e2m1fn:
        return pack_codes(data, bits=4).reshape(len(codes), -1)
    four = data.reshape(-1, 4).astype(np.uint32)
    word = four[:, 0] | four[:, 1] << 6 | four[:, 2] << 12 | four[:, 3] << 18
    return np.ascontiguousarray(word.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]).reshape(len(codes), -1)


def unpack_floats(packed: NDArray[np.uint8], element: Element, columns: int) -> NDArray[Any]:
    """Unpacks what :func:`pack_floats` packed."""
    rows = packed.shape[0]
    if element.bits == 4:
        flat = np.ascontiguousarray(packed).reshape(-1)
        return unpack_codes(flat, np.uint8, (rows, columns), bits=4).view(element.dtype)
    three = packed.reshape(-1, 3).astype(np.uint32)
    word = three[:, 0] | three[:, 1] << 8 | three[:, 2] << 16
    codes = np.stack([word >> shift & 63 for shift in (0, 6, 12, 18)], axis=1).astype(np.uint8)
    return codes.reshape(rows, columns).view(element.dtype)


def exponents(scale: NDArray[Any]) -> NDArray[np.uint8]:
    """Scales that are powers of two as their biased exponents."""
    return scale.view(np.uint8)


def from_exponents(stored: NDArray[np.uint8]) -> NDArray[Any]:
    """The inverse of :func:`exponents`."""
    return np.ascontiguousarray(stored).view(ml_dtypes.float8_e8m0fnu)
