"""Arguments of the kernels that take a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.formats.scalar import KERNEL_FORMATS, integer_type
from quarkfast.kernels.arguments import F32, as_array, as_integer, laid_out

__all__ = ["converted"]

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
