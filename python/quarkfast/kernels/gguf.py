"""Blocks of GGUF files, as llama.cpp stores weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.kernels import block_arguments as blocks
from quarkfast.kernels.arguments import F32, contiguous, output

__all__ = ["GGUF_TYPES", "GgufType", "dequantize_gguf", "quantize_gguf"]

_U8 = np.dtype(np.uint8)


class GgufType(NamedTuple):
    """What a block holds and takes.

    Attributes:
        values: Values of a block.
        bytes: Bytes of its record.
    """

    values: int
    bytes: int


#: The block types by their names.
GGUF_TYPES = {
    "Q4_0": GgufType(32, 18),
    "Q4_1": GgufType(32, 20),
    "Q5_0": GgufType(32, 22),
    "Q5_1": GgufType(32, 24),
    "Q8_0": GgufType(32, 34),
    "Q4_K": GgufType(256, 144),
    "Q6_K": GgufType(256, 210),
}


def quantize_gguf(x: ArrayLike, type: str, *, out: NDArray[Any] | None = None) -> NDArray[np.uint8]:
    """Store in a block type of GGUF: the bytes that the gguf package writes, and llama.cpp of ``Q4_K`` and ``Q6_K``.

    Args:
        x: float32, float16 or bfloat16 array of rank 1 or more, whose last axis is a multiple of the type's block.
        type: ``"Q4_0"``, ``"Q4_1"``, ``"Q5_0"``, ``"Q5_1"`` or ``"Q8_0"``, of 32 values a block, or
            ``"Q4_K"`` or ``"Q6_K"``, of 256.
        out: uint8 array of the returned shape to write to.

    Returns:
        uint8 array, shape ``[other axes..., blocks * bytes]``: blocks of 18, 20, 22, 24, 34, 144 or 210 bytes
        along the last axis. A block with an infinity or NaN, and a super-block with a value of 2^30 or more, gets
        a scale that is NaN; another scale beyond float16 is infinite.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: there is no such type, or the last axis is no multiple of its block.

    Source:
        ``gguf.quants.quantize``; llama.cpp's ``quantize_row_q4_K_ref`` and ``quantize_row_q6_K_ref``, which use no
        importance matrix; docs/numerics.md, "GGUF blocks".

    Example:
        >>> import numpy as np
        >>> records = quantize_gguf(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32), "Q8_0")
        >>> records.shape
        (2, 34)
    """
    size = GGUF_TYPES[blocks.choice("quantize_gguf", "type", type, GGUF_TYPES)]
    where = f"quantize_gguf_f32_{type.lower()}"
    array = contiguous(blocks.widened(x, where), where, F32)
    shape = _resized(array, where, size.values, size.bytes, f"values for {type}")
    y = output(out, where, shape, _U8)
    getattr(_core, where)(array, y)
    return y


def dequantize_gguf(records: ArrayLike, type: str, *, out: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Read blocks of GGUF: the values that the gguf package reads.

    Args:
        records: uint8 array of rank 1 or more, whose last axis is a multiple of the bytes of a block.
        type: As in :func:`quantize_gguf`.
        out: float32 array of the returned shape to write to.

    Returns:
        float32 array, shape ``[other axes..., blocks * values]``.

    Raises:
        TypeError: ``records`` is not uint8.
        ValueError: there is no such type, or the last axis is no multiple of its bytes.

    Source:
        ``gguf.quants.dequantize``; docs/numerics.md, "GGUF blocks".

    Example:
        >>> import numpy as np
        >>> dequantize_gguf(quantize_gguf(np.ones(32, np.float32), "Q4_0"), "Q4_0")[:3]
        array([1., 1., 1.], dtype=float32)
    """
    size = GGUF_TYPES[blocks.choice("dequantize_gguf", "type", type, GGUF_TYPES)]
    where = f"dequantize_gguf_{type.lower()}_f32"
    array = contiguous(records, where, _U8)
    shape = _resized(array, where, size.bytes, size.values, f"bytes for {type}")
    y = output(out, where, shape, F32)
    getattr(_core, where)(array, y)
    return y


def _resized(array: NDArray[Any], where: str, unit: int, becomes: int, what: str) -> tuple[int, ...]:
    """Return the shape of an array after each `unit` elements of its last axis became so many."""
    if not array.ndim or array.shape[-1] % unit:
        raise ValueError(f"{where}: x: expected rows of a multiple of {unit} {what}, got shape {array.shape}")
    return (*array.shape[:-1], array.shape[-1] // unit * becomes)
