"""Arguments of functions over the native library: checks that all share, and scales beside what they scale."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.errors import shown
from quarkfast.formats.scalar import KERNEL_FORMATS, integer_type
from quarkfast.kernels.dlpack import from_dlpack

__all__ = [
    "F32",
    "as_array",
    "as_dtype",
    "as_flag",
    "as_integer",
    "contiguous",
    "converted",
    "float_remedy",
    "laid_out",
    "output",
    "spellings",
]

F32 = np.dtype(np.float32)

#: Return ``out`` after checking its dtype and shape, or a new array where it is None.
output = _core.output


def as_array(value: ArrayLike, where: str, argument: str = "x") -> NDArray[Any]:
    """Return value as an array, not copied where it is one or a tensor that DLPack exports."""
    if type(value) is np.ndarray:
        return value
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | np.generic):
        return from_dlpack(value, where, argument)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:  # nested lists of uneven lengths
        raise TypeError(f"{where}: {argument}: expected an array, got {shown(value)}") from error


def as_dtype(value: DTypeLike, where: str) -> np.dtype[Any]:
    """Return value as a dtype."""
    if isinstance(value, np.dtype):
        return value
    try:
        return np.dtype(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: dtype: expected a dtype, got {shown(value)}") from error


def spellings(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return what users write for a dtype: keys of tables that answer at once."""
    return dtype, dtype.type, str(dtype)


def as_integer(value: Any, where: str, argument: str, bits: int = 64) -> int:
    """Return value as an int that fits so many bits; a bool is no integer here."""
    try:
        integer = operator.index(value)
    except TypeError:
        integer = None
    if integer is None or isinstance(value, bool):
        raise TypeError(f"{where}: {argument}: expected an integer, got {shown(value)}")
    if not -(1 << (bits - 1)) <= integer < 1 << (bits - 1):
        raise ValueError(f"{where}: {argument}: expected an integer of {bits} bits, got {integer}")
    return integer


def as_flag(value: Any, where: str, argument: str) -> bool:
    """Return value as a bool; nothing else counts as one."""
    if value is True or value is False:
        return value
    if not isinstance(value, np.bool_):
        raise TypeError(f"{where}: {argument}: expected True or False, got {shown(value)}")
    return bool(value)


def float_remedy(dtype: np.dtype[Any]) -> str:
    """Return what ends the message that refuses numbers of a dtype where float32 is expected: lists become float64."""
    return "; numpy.asarray(x, numpy.float32) converts it" if dtype.kind in "fiu" else ""


def contiguous(x: ArrayLike, where: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return x as a C-contiguous, aligned array of exactly this dtype, copied only where its layout demands it."""
    array = as_array(x, where)
    if array.dtype != dtype:
        remedy = float_remedy(array.dtype) if dtype == F32 else ""
        raise TypeError(f"{where}: x: expected dtype {dtype}, got {array.dtype}{remedy}")
    return laid_out(array)


def laid_out(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array C-contiguous and aligned, copied only where it is not."""
    flags = array.flags
    # Not np.ascontiguousarray, which turns a scalar into an array of one dimension.
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


# NumPy does not know that these are real numbers.
_FLOATS = frozenset(row.dtype for row in KERNEL_FORMATS if not row.is_integer)


def converted(
    where: str,
    dtype: np.dtype[Any],
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    axis: int,
    block_size: int,
    factor: np.dtype[Any] = F32,
) -> tuple[NDArray[Any], NDArray[Any] | None, int, int]:
    """Return the arguments of a scaled kernel as it reads them: scales of ``factor``, zero points of ``dtype``.

    A kernel reads the usual arguments as they are, checks shapes and values itself, and returns None where one is
    something else: that is when this is called. It keeps the usual call cheap.
    """
    scales, zeros = _scales(where, scale, factor), _zero_points(where, zero_point, dtype)
    return scales, zeros, as_integer(axis, where, "axis"), as_integer(block_size, where, "block_size")


def _scales(where: str, scale: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return scales as dtype."""
    given = as_array(scale, where, "scale")
    if given.dtype != dtype:
        if given.dtype.kind not in "fiu" and given.dtype not in _FLOATS:
            raise TypeError(f"{where}: scale: expected real numbers, got dtype {given.dtype}")
        with np.errstate(all="ignore"):  # what overflows is refused as infinity, what underflows as zero
            given = given.astype(dtype)
    return laid_out(given)


def _zero_points(where: str, zero_point: ArrayLike | None, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return zero points as dtype."""
    if zero_point is None:
        return None
    given = as_array(zero_point, where, "zero_point")
    if given.dtype != dtype:
        _check_zero_points(where, given, dtype)
        given = given.astype(dtype)
    return laid_out(given)


def _check_zero_points(where: str, given: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Refuse what casting to dtype would change."""
    if dtype in _FLOATS:
        raise TypeError(f"{where}: zero_point: expected dtype {dtype}, got {given.dtype}")
    if given.dtype.kind not in "iu":
        raise TypeError(f"{where}: zero_point: expected integers, got dtype {given.dtype}")
    row = integer_type(dtype)
    if given.size and not (row.qmin <= int(given.min()) and int(given.max()) <= row.qmax):
        raise ValueError(
            f"{where}: zero_point: expected values in [{row.qmin}, {row.qmax}] for {dtype}, "
            f"got [{given.min()}, {given.max()}]"
        )
