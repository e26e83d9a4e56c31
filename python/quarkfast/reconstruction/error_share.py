"""How much of the error of its input a layer is to make up for: as much as holds for other samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.gram import GramMatrices

__all__ = ["add_to_diagonals", "covariances", "error_share"]

Values = NDArray[np.float64]

# Parts of the whole to which the share is rounded, so that the last bits of a solver decide nothing.
_STEPS = 16

# Damping of inputs that depend on each other, whose matrix has no inverse.
_LEAST_DAMPING = 2.0**-30

# Rows of a matrix that are changed at once, so that no second one of its size is in memory.
_BLOCK = 512


def covariances(matrices: GramMatrices, part: float, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` of the quantized input and ``C`` of an input that is `part` of the way from there to the float one.

    Args:
        matrices: Means over rows.
        part: 0 for the quantized input, 1 for that of the float model.
        centred: Whether means are taken off.
    """
    gram, cross = matrices.gram, matrices.cross
    cross -= gram
    cross *= part
    cross += gram
    if centred:
        mean = matrices.mean
        _subtract_products(gram, mean, mean)
        _subtract_products(cross, mean + part * (matrices.float_mean - mean), mean)
    return gram, cross


def _subtract_products(sums: Values, first: Values, second: Values) -> None:
    """Takes ``first second^T`` of each group off, by blocks of rows: the matrix of one layer may have 70 MB."""
    for begin in range(0, sums.shape[1], _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        sums[:, rows] -= first[:, rows, None] * second[:, None, :]


def add_to_diagonals(matrices: Values, values: Values) -> None:
    """Adds a number to the diagonal of each of some matrices ``[g, k, k]``, in place."""
    np.einsum("gkk->gk", matrices)[...] += values[:, None]


def _solved(gram: Values, damping: Values, difference: Values) -> Values:
    """Returns ``D G^-1`` with a number added to the diagonal of each ``G``, which are as they were when it ends."""
    diagonals = np.einsum("gkk->gk", gram)
    had = diagonals.copy()
    add_to_diagonals(gram, damping)
    found = np.linalg.solve(gram, difference.transpose(0, 2, 1)).transpose(0, 2, 1)
    diagonals[...] = had
    return np.asarray(found, np.float64)


def _difference(weights: Values, matrices: GramMatrices, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` of the quantized input, and ``W (C - G)`` of the whole way to the float one."""
    gram, cross = covariances(matrices, 1.0, centred)
    cross -= gram
    return gram, weights @ cross


def error_share(weights: Values, matrices: GramMatrices, half: GramMatrices, damping: float, centred: bool) -> float:
    """Returns the part of the difference between float and quantized input that a layer does well to make up for.

    With ``D = W (C - G)`` the change of weights that makes up for the difference on some samples is ``X = D G^-1``. Of
    few samples much of it is chance. ``s X`` leaves the least error on the samples of another half, ``D'`` and ``G'``,
    with ``s = <X, D'> / <X G', X>``. Each half judges the other, both products are added up, and as all samples
    together have half the variance of chance, ``2 s / (1 + s)`` is the share of what they say.

    Args:
        weights: The float weights, ``[groups, m, k]``.
        matrices: Those of all samples.
        half: Those of every second one.
        damping: What is added to the diagonal of ``G``, as a part of its mean.
        centred: Whether a bias takes care of means.

    Returns:
        A number from 0 to 1, a multiple of 1/16.
    """
    halves = [_difference(weights, matrices.without(half), centred), _difference(weights, half, centred)]
    agreed = power = 0.0
    for (gram, difference), (other_gram, other_difference) in (halves, halves[::-1]):
        size = gram.shape[-1]
        power_of_inputs = np.trace(gram, axis1=1, axis2=2) / size
        # Where no input but zero was seen the difference is zero too, and any inverse will do.
        added = np.where(power_of_inputs > 0, max(damping, _LEAST_DAMPING) * power_of_inputs, 1.0)
        change = _solved(gram, added, difference)
        agreed += float(np.sum(change * other_difference))
        power += float(np.sum((change @ other_gram) * change))
    share = min(max(agreed / power, 0.0), 1.0) if power > 0 else 0.0
    return round(2 * share / (1 + share) * _STEPS) / _STEPS
