"""Packing of 2-, 3- and 4-bit codes into bytes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import KERNEL_FORMATS, ScalarFormat, integer_type
from quarkfast.kernels.arguments import as_array, as_dtype, as_integer, output, spellings

__all__ = ["code_type", "pack_codes", "pack_columns", "unpack_codes"]

_U8 = np.dtype(np.uint8)


class _Codes(NamedTuple):
    """What is known of codes of a dtype and a width: the kernels, and the dtype of the bytes that hold them."""

    pack: str
    unpack: str
    dtype: np.dtype[Any]
    storage: np.dtype[Any]
    width: int


def _codes(row: ScalarFormat) -> dict[tuple[Any, int | None], _Codes]:
    """Return what is known of a type by the spellings of its dtype and ``bits``."""
    # ml_dtypes keeps a code in the low bits of a byte whose other bits are zero, signed or not.
    code, storage = ("i8", np.dtype(np.int8)) if row.signed and row.bits == 8 else ("u8", _U8)
    return {
        (spelling, bits): _Codes(
            f"pack_codes_{code}_p{width}", f"unpack_codes_p{width}_{code}", row.dtype, storage, width
        )
        for width in ((2, 3, 4) if row.bits == 8 else (row.bits,))
        for bits in ((width,) if row.bits == 8 else (width, None))
        for spelling in spellings(row.dtype)
    }


_CODES = {
    key: codes for row in KERNEL_FORMATS if row.is_integer and row.bits <= 8 for key, codes in _codes(row).items()
}


def pack_codes(x: ArrayLike, *, bits: int | None = None, out: NDArray[Any] | None = None) -> NDArray[np.uint8]:
    """Pack 2-, 3- or 4-bit codes into bytes, the first code in the low bits.

    Args:
        x: Codes, one to an element, in C order: int2, uint2, int4 or uint4, or int8 or uint8 that hold narrower codes.
        bits: 2, 3 or 4; required of int8 and uint8, else the type's own.
        out: uint8 array of shape ``[ceil(x.size * bits / 8)]`` to write to.

    Returns:
        uint8 array of that shape. Code ``i`` takes bits ``[i * bits, (i + 1) * bits)`` of a little-endian stream of
        bits, so eight 3-bit codes fill three bytes; the last byte is filled with zero bits.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: ``bits`` is missing or does not fit the type, or a code does not fit ``bits``.

    Source:
        ONNX TensorProto: the raw data of INT4, UINT4, INT2 and UINT2. 3-bit codes continue the same order.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> pack_codes(np.array([1, -1, 7], ml_dtypes.int4))
        array([241,   7], dtype=uint8)
    """
    array = as_array(x, "pack_codes")
    where, _, _, storage, width = _found("pack_codes", array.dtype, bits)
    codes = (array if array.flags.c_contiguous else array.copy(order="C")).view(storage)
    y = output(out, where, (-(-array.size * width // 8),), _U8)
    # A type narrower than a byte fits by definition, whatever the unused bits of its byte.
    if not getattr(_core, where)(codes, y) and integer_type(array.dtype).bits == 8:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if array.dtype.kind == "i" else (0, (1 << width) - 1)
        raise ValueError(f"{where}: x: expected codes in [{low}, {high}], got [{array.min()}, {array.max()}]")
    return y


def unpack_codes(
    x: ArrayLike,
    dtype: DTypeLike,
    shape: int | tuple[int, ...],
    *,
    bits: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Unpack what :func:`pack_codes` packed.

    Args:
        x: uint8 array of ``ceil(prod(shape) * bits / 8)`` bytes.
        dtype: int2, uint2, int4, uint4, int8 or uint8.
        shape: Shape of the codes.
        bits: 2, 3 or 4; required of int8 and uint8, else the type's own.
        out: Array of ``dtype`` and ``shape`` to write to.

    Returns:
        Codes of ``dtype`` with ``shape``; signed ones are sign-extended in int8.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: ``bits`` is missing or does not fit the type, or ``x`` has another size.

    Source:
        As :func:`pack_codes`.

    Example:
        >>> import numpy as np
        >>> unpack_codes(np.uint8([241, 7]), np.int8, 3, bits=4)
        array([ 1, -1,  7], dtype=int8)
    """
    array = as_array(x, "unpack_codes")
    _, where, target, storage, width = _found("unpack_codes", dtype, bits)
    if array.dtype != _U8:
        raise TypeError(f"{where}: x: expected dtype uint8, got {array.dtype}")
    sizes = tuple(
        [as_integer(size, where, "shape") for size in (shape if isinstance(shape, tuple | list) else (shape,))]
    )
    if sizes and min(sizes) < 0:
        raise ValueError(f"{where}: shape: expected sizes of at least 0, got {sizes}")
    needed = -(-math.prod(sizes) * width // 8)
    if array.size != needed:
        raise ValueError(f"{where}: x: expected {needed} bytes for shape {sizes}, got {array.size}")
    y = output(out, where, sizes, target)
    getattr(_core, where)(array if array.flags.c_contiguous else array.copy(order="C"), y.view(storage))
    return y


def pack_columns(x: ArrayLike, *, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Pack 4-bit codes two to a byte down each column, as :func:`pack_codes` would pack the transposed matrix.

    Args:
        x: int4 or uint4 codes ``[K, N]``, K a multiple of 16.
        out: uint8 array ``[N, K / 2]`` to write to; its rows may lie apart.

    Returns:
        uint8 array ``[N, K / 2]``: row ``n`` holds column ``n``, the first code in the low bits.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: a shape is another, or ``out`` shares memory with ``x``.

    Source:
        onnxruntime, docs/ContribOperators.md, com.microsoft.MatMulNBits: the order of its weights.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> pack_columns(np.arange(16, dtype=np.int8).reshape(16, 1).astype(ml_dtypes.uint4))
        array([[ 16,  50,  84, 118, 152, 186, 220, 254]], dtype=uint8)
    """
    array = as_array(x, "pack_columns")
    row = integer_type(array.dtype)
    if row.bits != 4:
        raise TypeError(f"pack_columns: x: expected int4 or uint4, got {row.name}")
    if array.ndim != 2 or array.shape[0] % 16:
        raise ValueError(f"pack_columns: x: expected shape [K, N] with K a multiple of 16, got {array.shape}")
    codes = (array if array.flags.c_contiguous else array.copy(order="C")).view(_U8)
    y = output(out, "pack_columns", (codes.shape[1], codes.shape[0] // 2), _U8)
    _core.pack_columns_p4(codes, y)
    return y


def code_type(dtype: np.dtype[Any], where: str) -> ScalarFormat:
    """Returns the row of an integer dtype of at most 8 bits.

    Raises:
        TypeError: It is another dtype.
    """
    row = integer_type(dtype)
    if row.bits > 8:
        raise TypeError(f"{where}: expected codes of at most 8 bits, got {row.name}")
    return row


def _found(where: str, dtype: DTypeLike, bits: int | None) -> _Codes:
    """Look codes up; raise where there are no such ones."""
    bits = bits if bits is None else as_integer(bits, where, "bits")
    try:
        return _CODES[dtype, bits]
    except (KeyError, TypeError):  # spelled unusually, or wrong
        row = code_type(as_dtype(dtype, where), where)
    return _CODES[row.dtype, _width(row, bits, where)]


def _width(row: ScalarFormat, bits: int | None, where: str) -> int:
    if row.bits < 8:
        if bits is not None and as_integer(bits, where, "bits") != row.bits:
            raise ValueError(f"{where}: bits: expected {row.bits} for {row.name}, got {bits}")
        return row.bits
    width = 0 if bits is None else as_integer(bits, where, "bits")
    if width not in (2, 3, 4):
        raise ValueError(f"{where}: bits: expected 2, 3 or 4 for {row.name}, got {bits}")
    return width
