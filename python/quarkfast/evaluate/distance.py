"""How far outputs are from those of the float model: one number for a metric's name, the less the closer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

__all__ = ["DISTANCES", "RATIOS"]

_Rows = Sequence[NDArray[np.float64]]

RATIOS = ("sqnr", "psnr")
"""Metrics in dB, of which `DISTANCES` has the negative."""


def _noise(wanted: _Rows, found: _Rows) -> float:
    return float(sum(np.square(one - other).sum() for one, other in zip(wanted, found, strict=True)))


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return float("-inf")
    return float(-10 * np.log10(signal / noise)) if signal else float("inf")


def _sqnr(wanted: _Rows, found: _Rows) -> float:
    return _decibels(float(sum(np.square(one).sum() for one in wanted)), _noise(wanted, found))


def _psnr(wanted: _Rows, found: _Rows) -> float:
    """The peak is the largest magnitude of the float model's output."""
    peak, count = max(float(np.abs(one).max(initial=0)) for one in wanted), sum(one.size for one in wanted)
    return _decibels(peak**2 * count, _noise(wanted, found))


def _l2(wanted: _Rows, found: _Rows) -> float:
    return _mean(lambda one, other: float(np.linalg.norm((one - other).ravel())), wanted, found)


def _kl(wanted: _Rows, found: _Rows) -> float:
    """KL divergence of the softmax over the last axis from that of the float model, in nats."""

    def divergence(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        p, q = (_log_softmax(each) for each in (one, other))
        return float((np.exp(p) * (p - q)).sum(axis=-1).mean())

    return _mean(divergence, wanted, found)


def _cosine(wanted: _Rows, found: _Rows) -> float:
    def distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        lengths = float(np.linalg.norm(one.ravel()) * np.linalg.norm(other.ravel()))
        return 1 - float(np.vdot(one, other)) / lengths if lengths else float(one.any() or other.any())

    return _mean(distance, wanted, found)


def _log_softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = np.atleast_1d(values) - np.atleast_1d(values).max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _mean(distance: Callable[[NDArray[np.float64], NDArray[np.float64]], float], wanted: _Rows, found: _Rows) -> float:
    return float(np.mean([distance(one, other) for one, other in zip(wanted, found, strict=True)]))


DISTANCES: Mapping[str, Callable[[_Rows, _Rows], float]] = MappingProxyType(
    {"sqnr": _sqnr, "psnr": _psnr, "l2": _l2, "kl": _kl, "cosine": _cosine}
)
"""Metric -> its distance of the outputs found from those wanted, sample by sample, all in float64 and of one shape.

``sqnr`` and ``psnr`` are ratios over all samples; the others are means over samples.

Example:
    >>> DISTANCES["l2"]([np.array([0.0, 3.0])], [np.array([4.0, 0.0])])
    5.0
"""
