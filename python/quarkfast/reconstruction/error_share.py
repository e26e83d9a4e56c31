"""Error share: how much of its input's error a layer is to make up for, as much as holds for other samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.cholesky import factor_in_place, solve_in_place
from quarkfast.reconstruction.gram import GramMatrices

__all__ = ["add_to_diagonals", "covariances", "error_share"]

Values = NDArray[np.float64]

# Parts of the whole to which the share is rounded, so that the last bits of a solver decide nothing.
_STEPS = 16

# Damping of inputs that depend on each other, whose matrix has no inverse.
_LEAST_DAMPING = 2.0**-30

# Rows of a matrix that are changed at once, so that no second one of its size is in memory.
_ROWS = 128

# Rows of a matrix that is solved as a whole, which takes little memory and is quicker.
_SMALL = 512


def covariances(matrices: GramMatrices, part: float, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` of the quantized input, and ``T``: what weights are to make of it, times the input.

    They are to make what the float weights make of an input that is `part` of the way to that of the float model, as a
    whole ``W E[x x^T]``.

    Args:
        matrices: Means over rows.
        part: 0 for the quantized input, 1 for that of the float model.
        centred: Whether means are taken off.

    Returns:
        ``[groups, k, k]`` and ``[groups, m, k]``.
    """
    gram, missing = _difference(matrices, centred)
    return gram, matrices.weights @ gram + part * missing


def _difference(matrices: GramMatrices, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` of the quantized input, and ``D = W E[d x^T]`` of what it lacks to the float one."""
    gram, missing = matrices.gram, matrices.missing
    if centred:
        mean = matrices.mean
        _subtract_products(gram, mean, mean)
        _subtract_products(missing, np.einsum("gmk,gk->gm", matrices.weights, matrices.missing_mean), mean)
    return gram, missing


def _subtract_products(sums: Values, first: Values, second: Values) -> None:
    """Takes ``first second^T`` of each group off, by blocks of rows: the matrix of one layer may have 70 MB."""
    for begin in range(0, sums.shape[1], _ROWS):
        rows = slice(begin, begin + _ROWS)
        sums[:, rows] -= first[:, rows, None] * second[:, None, :]


def add_to_diagonals(matrices: Values, values: Values) -> None:
    """Adds a number to the diagonal of each of some matrices ``[g, k, k]``, in place."""
    np.einsum("gkk->gk", matrices)[...] += values[:, None]


def error_share(half: GramMatrices, other: GramMatrices, damping: float, centred: bool) -> float:
    """Returns the part of the difference between float and quantized input that a layer does well to make up for.

    With ``D = W E[d x^T]`` of the difference `d` on some samples, ``X = D G^-1`` is the change of weights that makes up
    for it. Of few samples much of it is chance. ``s X`` leaves the least error on the samples of another half, ``D'``
    and ``G'``, with ``s = <X, D'> / <X G', X>``. Each half judges the other, both products are added up, and as all
    samples together have half the variance of chance, ``2 s / (1 + s)`` is the share of what they say.

    Args:
        half: Means over every second sample.
        other: Those of the others.
        damping: What is added to the diagonal of ``G``, as a part of its mean.
        centred: Whether a bias takes care of means.

    Returns:
        A number from 0 to 1, a multiple of 1/16.
    """
    changes = [_change(each, damping, centred) for each in (half, other)]
    products = [_products(change, judge, centred) for change, judge in zip(changes, (other, half), strict=True)]
    agreed, power = map(sum, zip(*products, strict=True))
    share = min(max(agreed / power, 0.0), 1.0) if power > 0 else 0.0
    return round(2 * share / (1 + share) * _STEPS) / _STEPS


def _products(change: Values, judge: GramMatrices, centred: bool) -> tuple[float, float]:
    """Returns ``<X, D>`` and ``<X G, X>`` of a change of weights."""
    gram, difference = _difference(judge, centred)
    return float(np.sum(change * difference)), float(np.sum((change @ gram) * change))


def _change(matrices: GramMatrices, damping: float, centred: bool) -> Values:
    """Returns ``D G^-1``, the change of weights that makes up for the difference of some samples, with damping."""
    gram, difference = _damped(matrices, damping, centred)
    if gram.shape[-1] > _SMALL:
        try:
            for own, rows in zip(gram, difference, strict=True):
                factor_in_place(own)
                solve_in_place(own, rows)
            return difference
        except np.linalg.LinAlgError:  # it has no inverse but for its rounding
            gram, difference = _damped(matrices, damping, centred)
    return np.asarray(np.linalg.solve(gram, difference.transpose(0, 2, 1)).transpose(0, 2, 1), np.float64)


def _damped(matrices: GramMatrices, damping: float, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` with damping, and ``D``."""
    gram, difference = _difference(matrices, centred)
    power_of_inputs = np.trace(gram, axis1=1, axis2=2) / gram.shape[-1]
    # Where no input but zero was seen the difference is zero too, and any inverse will do.
    add_to_diagonals(gram, np.where(power_of_inputs > 0, max(damping, _LEAST_DAMPING) * power_of_inputs, 1.0))
    return gram, difference
