"""Codes of weights by coordinate descent: the NumPy door to the native solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import SCALAR_FORMATS
from quarkfast.kernels.arguments import as_array, as_integer, laid_out

__all__ = ["descend_codes"]

_WHERE = "descend_codes"


def descend_codes(
    codes: ArrayLike,
    scale: ArrayLike,
    gram: ArrayLike,
    residual: ArrayLike,
    *,
    qmin: int,
    qmax: int,
    reach: int = 1,
    lowest: ArrayLike | None = None,
    highest: ArrayLike | None = None,
    passes: int = 4,
) -> NDArray[Any]:
    """Returns codes of less squared error of a layer's output than those given, by cyclic coordinate descent.

    Of ``W = scale * codes`` the error is ``tr(W G W^T) - 2 tr(W C^T)`` and a constant, with `residual` ``C - W G`` at
    the codes given. Code `k` of each row in turn moves by the whole number nearest to ``residual[k] / (G[k, k] *
    scale)``, within its limits; the residual follows. A row whose codes stay for a whole pass is done.

    Args:
        codes: Integers ``[m, k]``, the zero point in them.
        scale: float64 ``[m]``, one for each row, finite and > 0.
        gram: ``G``, float64 ``[k, k]``, symmetric; an input whose diagonal element is not > 0 keeps its codes.
        residual: float64 ``[m, k]``.
        qmin: Lowest code. Codes that are given lie between it and `qmax`.
        qmax: Highest code.
        reach: How far a code may go from where it was: 0 keeps all.
        lowest: Lowest code of each place, integers ``[m, k]``, none above the code given; None for no further limit.
        highest: Highest code of each place, likewise, none below the code given.
        passes: How many times each code gets its turn.

    Returns:
        A new array like `codes`, the same on every instruction set and for any number of threads.

    Raises:
        TypeError: If `codes` or limits are no integers, or another array is not float64.
        ValueError: If shapes do not go together, a scale is not finite and > 0, a code is beyond its limits, or `qmin`,
            `qmax`, `reach` and `passes` are out of range.

    Source:
        Stephen J. Wright, "Coordinate descent algorithms", 2015, algorithm 1, over whole numbers.

    Example:
        >>> import numpy as np
        >>> codes, gram = np.int8([[1, 1]]), np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> residual = (np.array([[1.4, 1.4]]) - codes) @ gram  # the weights 1.4 and 1.4 in steps of 1
        >>> descend_codes(codes, np.ones(1), gram, residual, qmin=-8, qmax=7).tolist()
        [[2, 1]]
        >>> descend_codes(codes, np.ones(1), gram, residual, qmin=-8, qmax=7, highest=np.int8([[1, 2]])).tolist()
        [[1, 2]]
    """
    given = as_array(codes, _WHERE, "codes")
    row = SCALAR_FORMATS.get(given.dtype.name)
    if row is None or not row.is_integer:
        raise TypeError(f"{_WHERE}: codes: expected integers, got dtype {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"{_WHERE}: codes: expected shape (m, k), got {given.shape}")
    rows, inputs = given.shape
    steps = _doubles(scale, "scale", (rows,))
    wrong = steps[~((steps > 0) & np.isfinite(steps))]
    if wrong.size:
        raise ValueError(f"{_WHERE}: scale: expected finite values > 0, got {wrong[0]}")
    matrix, rest = _doubles(gram, "gram", (inputs, inputs)), _doubles(residual, "residual", (rows, inputs)).copy()
    qmin, qmax = as_integer(qmin, _WHERE, "qmin"), as_integer(qmax, _WHERE, "qmax")
    if not row.qmin <= qmin <= qmax <= row.qmax:
        raise ValueError(f"{_WHERE}: range: expected {row.qmin} <= qmin <= qmax <= {row.qmax}, got {qmin}, {qmax}")
    reach, passes = _count(reach, "reach"), _count(passes, "passes")
    found = np.array(given, np.float64, order="C")
    if not given.size:
        return given.copy()
    if not qmin <= found.min() <= found.max() <= qmax:
        raise ValueError(f"{_WHERE}: codes: expected {qmin} to {qmax}, got {found.min():.0f} to {found.max():.0f}")
    low, high = np.maximum(found - reach, qmin), np.minimum(found + reach, qmax)
    if lowest is not None:
        low = np.maximum(low, _limits(lowest, "lowest", found, -1))
    if highest is not None:
        high = np.minimum(high, _limits(highest, "highest", found, 1))
    _core.descend_codes_f64(found, rest, matrix, steps, low, high, passes)
    moved: NDArray[Any] = found.astype(given.dtype)
    return moved


def _limits(value: ArrayLike, argument: str, codes: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
    """Returns limits as numbers; `sign` is the side of `codes` that they lie on."""
    array = as_array(value, _WHERE, argument)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{_WHERE}: {argument}: expected integers, got dtype {array.dtype}")
    if array.shape != codes.shape:
        raise ValueError(f"{_WHERE}: {argument}: expected shape {codes.shape}, got {array.shape}")
    limits = array.astype(np.float64)
    beyond = np.argwhere((codes - limits) * sign > 0)
    if beyond.size:
        place = tuple(beyond[0].tolist())
        code = f"{codes[place]:.0f}"
        raise ValueError(f"{_WHERE}: {argument}: expected a limit that the code {code} keeps, got {limits[place]:.0f}")
    return limits


def _doubles(value: ArrayLike, argument: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = as_array(value, _WHERE, argument)
    if array.dtype != np.float64:
        raise TypeError(f"{_WHERE}: {argument}: expected dtype float64, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{_WHERE}: {argument}: expected shape {shape}, got {array.shape}")
    return laid_out(array)


def _count(value: Any, argument: str) -> int:
    count = as_integer(value, _WHERE, argument, bits=32)
    if count < 0:
        raise ValueError(f"{_WHERE}: {argument}: expected 0 or more, got {count}")
    return count
