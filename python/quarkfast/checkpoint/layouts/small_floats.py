"""Codes of 4 and 6 bits of small floats in bytes, and exponents as bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.schemes import Element
from quarkfast.kernels import pack_codes, unpack_codes

__all__ = ["exponents", "from_exponents", "pack_floats", "packed_columns", "unpack_floats"]


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
