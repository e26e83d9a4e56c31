"""Codes of weights by coordinate descent: the NumPy door to the native solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import _core
from quarkfast.formats.scalar import SCALAR_FORMATS

__all__ = ["descend_codes"]


def descend_codes(
    codes: NDArray[Any],
    scale: NDArray[np.float64],
    gram: NDArray[np.float64],
    residual: NDArray[np.float64],
    *,
    qmin: int,
    qmax: int,
    reach: int = 1,
    passes: int = 4,
) -> NDArray[Any]:
    """Returns codes of less squared error of a layer's output than those given, by cyclic coordinate descent.

    Of ``W = scale * codes`` the error is ``tr(W G W^T) - 2 tr(W C^T)`` and a constant, with `residual` ``C - W G`` at
    the codes given. Code `k` of each row in turn moves by the whole number nearest to ``residual[k] / (G[k, k] *
    scale)``, within its limits; the residual follows. A row whose codes stay for a whole pass is done.

    Args:
        codes: Integers ``[m, k]`` of at most 16 bits, the zero point in them.
        scale: ``[m]``, one for each row, finite and > 0.
        gram: ``G``, ``[k, k]``, symmetric; an input whose diagonal element is not > 0 keeps its codes.
        residual: ``[m, k]``.
        qmin: Lowest code.
        qmax: Highest code.
        reach: How far a code may go from where it was: 0 keeps all.
        passes: How many times each code gets its turn.

    Returns:
        A new array like `codes`, the same on every instruction set and for any number of threads.

    Raises:
        TypeError: If `codes` are no integers, or a float array is not float64.
        ValueError: If the shapes do not go together.

    Source:
        Stephen J. Wright, "Coordinate descent algorithms", 2015, algorithm 1, over whole numbers.

    Example:
        >>> import numpy as np
        >>> codes, gram = np.int8([[1, 1]]), np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> residual = (np.array([[1.4, 1.4]]) - codes) @ gram  # the weights 1.4 and 1.4 in steps of 1
        >>> descend_codes(codes, np.ones(1), gram, residual, qmin=-8, qmax=7).tolist()
        [[2, 1]]
    """
    row = SCALAR_FORMATS.get(codes.dtype.name)
    if row is None or not row.is_integer:
        raise TypeError(f"descend_codes: codes: expected integers, got dtype {codes.dtype}")
    if codes.ndim != 2:
        raise ValueError(f"descend_codes: codes: expected shape (m, k), got {codes.shape}")
    rows, inputs = codes.shape
    for name, array, shape in (
        ("scale", scale, (rows,)),
        ("gram", gram, (inputs, inputs)),
        ("residual", residual, (rows, inputs)),
    ):
        if array.shape != shape:
            raise ValueError(f"descend_codes: {name}: expected shape {shape}, got {array.shape}")
    if not codes.size:
        return codes.copy()
    found, rest = np.array(codes, np.float64, order="C"), np.array(residual, order="C")
    low, high = np.maximum(found - reach, qmin), np.minimum(found + reach, qmax)
    matrices = np.ascontiguousarray(gram), np.ascontiguousarray(scale)
    _core.descend_codes_f64(found, rest, *matrices, low, high, passes)
    moved: NDArray[Any] = found.astype(codes.dtype)
    return moved
