"""Checks that all doors to the native library share."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast.dtypes import TYPES, integer_type
from quarkfast.errors import shown

__all__ = [
    "F32",
    "Layout",
    "as_array",
    "as_dtype",
    "as_flag",
    "as_integer",
    "contiguous",
    "laid_out",
    "layout",
    "output",
]

F32 = np.dtype(np.float32)
# NumPy does not know that these are real numbers.
_FLOATS = frozenset(row.dtype for row in TYPES.values() if row.kind == "float")


def as_array(value: ArrayLike, where: str, argument: str = "x") -> NDArray[Any]:
    """Return value as an array, not copied where it is one."""
    if type(value) is np.ndarray:
        return value
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


def contiguous(x: ArrayLike, where: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return x as a C-contiguous, aligned array of exactly this dtype, copied only where its layout demands it."""
    array = as_array(x, where)
    if array.dtype != dtype:
        raise TypeError(f"{where}: x: expected dtype {dtype}, got {array.dtype}")
    return laid_out(array)


def laid_out(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array C-contiguous and aligned, copied only where it is not."""
    flags = array.flags
    # Not np.ascontiguousarray, which turns a scalar into an array of one dimension.
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


def output(out: NDArray[Any] | None, where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return out after checking it, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or out.dtype != dtype:
        got = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"{where}: out: expected an array of dtype {dtype}, got {got}")
    if out.shape != shape:
        raise ValueError(f"{where}: out: expected shape {shape}, got {out.shape}")
    return out


# What the native library needs to know about scales: (outer, axis, inner), block, scale, zero point.
Layout = tuple[tuple[int, int, int], int, NDArray[np.float32], NDArray[Any] | None]


def layout(
    where: str,
    shape: tuple[int, ...],
    scale: ArrayLike,
    zero_point: ArrayLike | None,
    dtype: np.dtype[Any],
    axis: int,
    block_size: int,
    argument: str = "scale",
) -> Layout:
    """Check scale, zero point and axis against the shape and reduce it to (outer, axis, inner).

    ``argument`` is the scale's name where it is called otherwise.
    """
    if type(axis) is int and type(block_size) is int and not block_size:
        plain = _plain(scale, zero_point, dtype)
        if plain is not None:
            return (1, math.prod(shape), 1), 0, *plain
    scales = _scales(where, scale)
    axis, block_size = as_integer(axis, where, "axis"), as_integer(block_size, where, "block_size")
    zeros = _zero_points(where, zero_point, dtype, scales.shape, argument)
    if block_size < 0:
        raise ValueError(f"{where}: block_size: expected 0 or a positive integer, got {block_size}")
    if not block_size and scales.shape in ((), (1,)):
        flat = None if zeros is None else zeros.reshape(())
        return (1, math.prod(shape), 1), 0, scales.reshape(()), flat
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"{where}: axis: expected an axis of a tensor of rank {len(shape)}, got {axis}")
    axis %= len(shape)
    blocks = (*shape[:axis], -(-shape[axis] // block_size), *shape[axis + 1 :]) if block_size else (shape[axis],)
    if scales.shape != blocks:
        raise ValueError(f"{where}: {argument}: expected shape {blocks}, got {scales.shape}")
    return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])), block_size, scales, zeros


def _plain(scale: Any, zero_point: Any, dtype: np.dtype[Any]) -> tuple[NDArray[np.float32], NDArray[Any] | None] | None:
    """Return the arrays of the commonest arguments, one number each and beyond doubt, or None.

    The general checks take 4 microseconds, as long as a kernel takes for 100 KiB.
    """
    kind = type(scale)
    if kind is np.ndarray:
        scales = scale if _is_one(scale, F32) else None
    else:
        plain = kind is np.float32 or (kind is float and 1e-30 < scale < 1e30)
        scales = _number(scale, F32) if plain else None
    if scales is None or zero_point is None:
        return None if scales is None else (scales, None)
    kind = type(zero_point)
    if kind is np.ndarray:
        return (scales, zero_point) if _is_one(zero_point, dtype) else None
    fits = kind is dtype.type or (kind is int and 0 <= zero_point <= integer_type(dtype).qmax)
    return (scales, _number(zero_point, dtype)) if fits else None


def _is_one(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether an array has no dimensions and is as the native library takes it."""
    return not array.ndim and array.dtype == dtype and array.flags.aligned


@functools.lru_cache(maxsize=256)
def _number(value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of one number, made once: a model has few scales, and each is used again and again."""
    array = np.array(value, dtype)
    array.flags.writeable = False
    return array


def _scales(where: str, scale: ArrayLike) -> NDArray[np.float32]:
    """Return scales as float32; whether they are finite and positive is checked natively."""
    given = as_array(scale, where, "scale")
    if given.dtype != F32:
        if given.dtype.kind not in "fiu" and given.dtype not in _FLOATS:
            raise TypeError(f"{where}: scale: expected real numbers, got dtype {given.dtype}")
        with np.errstate(all="ignore"):  # what overflows is refused as infinity, what underflows as zero
            given = given.astype(F32)
    return laid_out(given)


def _zero_points(
    where: str, zero_point: ArrayLike | None, dtype: np.dtype[Any], shape: tuple[int, ...], argument: str
) -> NDArray[Any] | None:
    if zero_point is None:
        return None
    given = as_array(zero_point, where, "zero_point")
    if given.dtype != dtype:
        _check_zero_points(where, given, dtype)
    if given.shape != shape and not (given.size == 1 and shape in ((), (1,))):
        raise ValueError(f"{where}: zero_point: expected shape {shape} as of {argument}, got {given.shape}")
    given = laid_out(given if given.dtype == dtype else given.astype(dtype, order="C"))
    return given if given.shape == shape else given.reshape(shape)


def _check_zero_points(where: str, given: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Refuse what casting to dtype would change."""
    if given.dtype.kind not in "iu":
        raise TypeError(f"{where}: zero_point: expected integers, got dtype {given.dtype}")
    row = integer_type(dtype)
    if given.size and not (row.qmin <= int(given.min()) and int(given.max()) <= row.qmax):
        raise ValueError(
            f"{where}: zero_point: expected values in [{row.qmin}, {row.qmax}] for {dtype}, "
            f"got [{given.min()}, {given.max()}]"
        )
