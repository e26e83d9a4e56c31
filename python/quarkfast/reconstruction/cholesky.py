"""Cholesky factors of large matrices in the memory of these, by blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["factor_in_place", "invert_lower", "solve_in_place"]

Values = NDArray[np.float64]

# Columns of a factor that are computed at once. NumPy's own factor takes two more copies of its matrix, of one of 2,880
# inputs 130 MB; blocks take one of their size.
_BLOCK = 512

# Rows of a triangular matrix that is inverted by halves. Blocks take less memory beside a larger one, and 0.6 times the
# time, as they leave out what is zero.
_HALVED = 2 * _BLOCK

# Rows of a triangular matrix that is inverted as any other.
_SMALL = 64


def factor_in_place(matrix: Values) -> None:
    """Puts the lower triangular `L` with ``L L^T = A`` in the place of a symmetric `A`, and zeros above it.

    Args:
        matrix: `A`, ``[k, k]``; only what is on and below its diagonal is read.

    Raises:
        LinAlgError: If `A` is not positive definite; its values are then lost.

    Source:
        J. Dongarra, I. Duff, D. Sorensen and H. van der Vorst, "Numerical Linear Algebra for High-Performance
        Computers", 1998, section 5.4, left-looking. A block below the diagonal is multiplied by the inverse of the
        block on it, which is triangular, of a matrix as well conditioned as any of its own: N. Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 14.2.

    Example:
        >>> matrix = np.array([[4.0, 2.0], [2.0, 5.0]])
        >>> factor_in_place(matrix)
        >>> matrix.tolist()
        [[2.0, 0.0], [1.0, 2.0]]
    """
    for begin in range(0, len(matrix), _BLOCK):
        own, left = slice(begin, begin + _BLOCK), slice(0, begin)
        below = matrix[begin:, own]
        if begin:
            below -= matrix[begin:, left] @ matrix[own, left].T
        size = below.shape[1]
        below[:size] = np.linalg.cholesky(below[:size])
        if len(below) > size:
            below[size:] = below[size:] @ _inverse(below[:size]).T
        matrix[:begin, own] = 0


def solve_in_place(factor: Values, rows: Values) -> None:
    """Puts ``X`` with ``X L L^T = B`` in the place of `B`.

    Args:
        factor: `L`, ``[k, k]``.
        rows: `B`, ``[m, k]``.

    Example:
        >>> rows = np.array([[8.0, 9.0]])
        >>> solve_in_place(np.array([[2.0, 0.0], [1.0, 2.0]]), rows)
        >>> rows.tolist()
        [[1.375, 1.25]]
    """
    size = len(factor)
    begins = range(0, size, _BLOCK)
    inverses = [_inverse(factor[begin : begin + _BLOCK, begin : begin + _BLOCK]) for begin in begins]
    for begin, inverse in zip(begins, inverses, strict=True):
        own = slice(begin, begin + _BLOCK)
        rows[:, own] = (rows[:, own] - rows[:, :begin] @ factor[own, :begin].T) @ inverse.T
    for begin, inverse in zip(reversed(begins), reversed(inverses), strict=True):
        own, behind = slice(begin, begin + _BLOCK), slice(begin + _BLOCK, size)
        rows[:, own] = (rows[:, own] - rows[:, behind] @ factor[behind, own]) @ inverse


def invert_lower(factor: Values) -> None:
    """Inverts a lower triangular matrix in place: a third of the work of a general inverse.

    Source:
        N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 14.2, by blocks of rows.

    Example:
        >>> factor = np.array([[2.0, 0.0], [1.0, 4.0]])
        >>> invert_lower(factor)
        >>> factor.tolist()
        [[0.5, 0.0], [-0.125, 0.25]]
    """
    size = len(factor)
    if size <= _SMALL:
        factor[...] = np.tril(np.linalg.inv(factor))
    elif size <= _HALVED:
        _invert_halves(factor, size // 2)
    else:
        for begin in range(0, size, _BLOCK):
            own, left = factor[begin : begin + _BLOCK, begin : begin + _BLOCK], factor[begin : begin + _BLOCK, :begin]
            invert_lower(own)
            product = np.empty_like(left)
            for column in range(0, begin, _BLOCK):
                columns = slice(column, column + _BLOCK)
                np.matmul(left[:, column:], factor[column:begin, columns], out=product[:, columns])
            np.matmul(own, np.negative(product, out=product), out=left)


def _invert_halves(factor: Values, half: int) -> None:
    top, below, bottom = factor[:half, :half], factor[half:, :half], factor[half:, half:]
    invert_lower(top)
    invert_lower(bottom)
    product = bottom @ below
    np.negative(product, out=product)
    np.matmul(product, top, out=below)


def _inverse(block: Values) -> Values:
    copy = block.copy()
    invert_lower(copy)
    return copy
