"""Hadamard matrices: rotations of channels that spread what stands out in one over all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["hadamard_rotation", "mean_keeping_rotation"]

# Orders besides powers of two, with the primes of Paley's constructions.
_PALEY = {12: 11, 20: 19, 28: 13}


def hadamard_rotation(size: int, *, random_signs: bool = False) -> NDArray[np.float64]:
    """Returns an orthogonal matrix ``[size, size]`` whose elements are as alike in magnitude as there is one.

    A size ``m 2^k`` with m of 1, 12, 20 or 28 has a Hadamard matrix, all of whose elements are plus or minus
    ``1 / sqrt(size)``: the Kronecker product of Paley's of order m and Sylvester's. Other sizes have equal blocks along
    the diagonal, of the largest such size that divides them.

    Args:
        size: Number of channels, 1 or more.
        random_signs: Whether each row has a sign of its own, always the same for a size.

    Source:
        R. Paley, "On Orthogonal Matrices", 1933, lemmas 2 and 4; S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit
        Inference in Rotated LLMs", 2024, section 3.

    Example:
        >>> (hadamard_rotation(2) * 2**0.5).round(6).tolist()
        [[1.0, 1.0], [1.0, -1.0]]
    """
    block = max(order for order in range(1, size + 1) if size % order == 0 and _base(order))
    base = _base(block)
    matrix = np.kron(_paley(base) if base > 1 else np.ones((1, 1)), _sylvester(block // base))
    rotation = np.kron(np.eye(size // block), matrix / np.sqrt(block))
    if random_signs:
        rotation *= np.random.default_rng(size).choice((-1.0, 1.0), size)[:, None]
    return rotation


def mean_keeping_rotation(size: int, *, random_signs: bool = False) -> NDArray[np.float64]:
    """Returns an orthogonal matrix ``[size, size]`` that keeps the mean of what it turns, and spreads the rest.

    ``H D H^T`` with ``H`` a Hadamard matrix whose first column is constant and ``D`` signs of which the first is +1:
    the vector of ones is turned into itself. Elements are as large as those of a random rotation. The signs are always
    the same for a size. Sizes without a Hadamard matrix have blocks, each of which keeps its own mean.

    Args:
        size: Number of channels, 1 or more.
        random_signs: Whether the signs are others.

    Example:
        >>> bool(np.allclose(mean_keeping_rotation(12) @ np.ones(12), np.ones(12)))
        True
    """
    half = hadamard_rotation(size)
    block = int(np.count_nonzero(half[0]))
    draws = np.random.default_rng([size, int(random_signs)]).choice((-1.0, 1.0), size)
    firsts = np.arange(0, size, block)
    draws[firsts] = 1.0
    half = half * np.sign(half[np.arange(size), np.repeat(firsts, block)])[:, None]
    rotation: NDArray[np.float64] = (half * draws) @ half.T
    return rotation


def _base(order: int) -> int:
    """Returns the factor besides a power of two of an order that has a matrix; 0 for others."""
    return next((base for base in (1, *_PALEY) if order % base == 0 and (order // base).bit_count() == 1), 0)


def _sylvester(order: int) -> NDArray[np.float64]:
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix


def _paley(order: int) -> NDArray[np.float64]:
    """Returns the matrix of order ``q + 1`` for a prime q of the form ``4 n + 3``, ``2 (q + 1)`` for ``4 n + 1``."""
    prime = _PALEY[order]
    squares = {i * i % prime for i in range(1, prime)}
    symbols = np.array([0.0, *(1.0 if i in squares else -1.0 for i in range(1, prime))])
    places = np.arange(prime)
    core = np.ones((prime + 1, prime + 1))
    core[1:, 1:] = symbols[(places[:, None] - places) % prime]
    core[0, 0] = 0
    if order == prime + 1:
        core[1:, 0] = -1
        return core + np.eye(order)
    return np.kron(core, [[1.0, 1.0], [1.0, -1.0]]) + np.kron(np.eye(prime + 1), [[1.0, -1.0], [-1.0, -1.0]])
