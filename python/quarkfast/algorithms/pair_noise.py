"""Noise of equalized pairs: what rounding two layers' weights adds to the outputs, before and after scaling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["channel_absmax", "lessens_noise"]

Values = NDArray[np.float64]


def channel_absmax(rows: Values) -> Values:
    """Returns the largest magnitude of each row.

    Example:
        >>> channel_absmax(np.array([[1.0, -3.0], [2.0, 0.5]])).tolist()
        [3.0, 2.0]
    """
    found: Values = np.abs(rows).max(axis=1, initial=0.0)
    return found


def lessens_noise(written: Values, read: Sequence[Values], factors: Values, least_gain: float) -> bool:
    """Whether rounding the weights on both sides of channels adds clearly less to the outputs once they are scaled.

    Args:
        written: Weights that make each channel, ``[channels, n0]``.
        read: Weights that read it, ``[channels, n1]``, of each layer that does.
        factors: One for each channel.
        least_gain: The least ratio of noise before and after.

    Example:
        >>> unlike = np.array([[1.0], [0.01]])
        >>> lessens_noise(unlike, [unlike[::-1]], np.array([1.0, 8.0]), 1.26)
        True
    """
    made, used = np.einsum("ij,ij->i", written, written), [np.einsum("ij,ij->i", rows, rows) for rows in read]
    reach, reaches = channel_absmax(written), [channel_absmax(rows) for rows in read]
    sizes, up, down = [rows.shape[1] for rows in read], factors, 1 / factors
    before = sum(_noise(written.shape[1], reach, made, *each) for each in zip(sizes, reaches, used, strict=True))
    after = sum(
        _noise(written.shape[1], reach * up, made * up**2, size, other * down, energy * down**2)
        for size, other, energy in zip(sizes, reaches, used, strict=True)
    )
    return before > least_gain * after


def _noise(n0: int, reach0: Values, energy0: Values, n1: int, reach1: Values, energy1: Values) -> float:
    """Returns what the roundings of two layers' weights add to the outputs, up to a factor that scaling leaves alone.

    The square of a step is in proportion to that of a layer's largest magnitude; through a channel pass the ``n0``
    roundings that make it, times the energy of what reads it, and its own energy times the ``n1`` roundings there.
    """
    square0, square1 = reach0.max(initial=0.0) ** 2, reach1.max(initial=0.0) ** 2
    return float((square0 * n0 * energy1 + energy0 * square1 * n1).sum())
