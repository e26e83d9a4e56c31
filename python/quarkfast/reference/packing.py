"""Packing of narrow codes, told slowly: a stream of single bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack_codes", "unpack_codes"]

Array = NDArray[Any]


def pack_codes(x: Array, bits: int) -> Array:
    """Write the low bits of each code, lowest first, one after the other, and cut the stream into bytes."""
    codes = np.asarray(x).astype(np.int8).reshape(-1, 1).view(np.uint8)
    return np.packbits(np.unpackbits(codes, axis=1, bitorder="little")[:, :bits].reshape(-1), bitorder="little")


def unpack_codes(x: Array, n: int, bits: int, signed: bool) -> Array:
    """Read n codes from the stream; the highest bit of a signed one counts negatively."""
    stream = np.unpackbits(np.asarray(x, np.uint8), bitorder="little")[: n * bits].reshape(n, bits)
    weights = np.int64(1) << np.arange(bits)
    if signed:
        weights[-1] = -weights[-1]
    codes: Array = (stream * weights).sum(axis=1)
    return codes.astype(np.int8 if signed else np.uint8)
