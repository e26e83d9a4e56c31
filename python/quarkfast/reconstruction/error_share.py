"""How much of the error of its input a layer is to make up for: as much as holds for other samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.gram import GramMatrices

__all__ = ["covariances", "error_share"]

Values = NDArray[np.float64]

# Parts of the whole to which the share is rounded, so that the last bits of a solver decide nothing.
_STEPS = 16

# Damping of inputs that depend on each other, whose matrix has no inverse.
_LEAST_DAMPING = 2.0**-30


def covariances(matrices: GramMatrices, part: float, centred: bool) -> tuple[Values, Values]:
    """Returns ``G`` of the quantized input and ``C`` of an input that is `part` of the way from there to the float one.

    Args:
        matrices: Means over rows.
        part: 0 for the quantized input, 1 for that of the float model.
        centred: Whether means are taken off.
    """
    gram, cross = matrices.gram, matrices.cross
    cross = gram + part * (cross - gram)
    if centred:
        float_mean = matrices.mean + part * (matrices.float_mean - matrices.mean)
        gram = gram - matrices.mean[:, :, None] * matrices.mean[:, None, :]
        cross = cross - float_mean[:, :, None] * matrices.mean[:, None, :]
    return gram, cross


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
    halves = [covariances(each, 1.0, centred) for each in (half, matrices.without(half))]
    agreed = power = 0.0
    for (gram, cross), (other_gram, other_cross) in (halves, halves[::-1]):
        size = gram.shape[-1]
        power_of_inputs = np.trace(gram, axis1=1, axis2=2) / size
        # Where no input but zero was seen the difference is zero too, and any inverse will do.
        diagonal = np.where(power_of_inputs > 0, max(damping, _LEAST_DAMPING) * power_of_inputs, 1.0)
        difference = weights @ (cross - gram)
        damped = gram + diagonal[:, None, None] * np.eye(size)
        change = np.linalg.solve(damped, difference.transpose(0, 2, 1)).transpose(0, 2, 1)
        agreed += float(np.sum(change * (weights @ (other_cross - other_gram))))
        power += float(np.sum((change @ other_gram) * change))
    share = min(max(agreed / power, 0.0), 1.0) if power > 0 else 0.0
    return round(2 * share / (1 + share) * _STEPS) / _STEPS
