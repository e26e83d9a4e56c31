"""Distances of outputs from those of the float model by the metrics of mixed precision, the less the closer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.evaluate.judge import Counted, Judge

__all__ = ["AS_THEY_STAND", "DISTANCES", "RATIOS", "Verdict", "verdict_on"]

_Rows = Sequence[NDArray[np.float64]]

RATIOS = ("sqnr", "psnr")
"""Metrics in dB, of which `DISTANCES` has the negative."""


AS_THEY_STAND = Counted(unranked=False, parts=False)
"""What a judge counts whose verdicts are distances: outputs as they stand."""


class Verdict(NamedTuple):
    """How far a model is from the float model.

    Attributes:
        distance: By a metric; the less the closer, also for ratios, which are negative.
        noise: The same as what about adds up over layers: of a ratio the part of the power that is noise.
        sqnr: Of the worst output, in dB.
    """

    distance: float
    noise: float
    sqnr: float


def verdict_on(quantized: bytes, judge: Judge, metric: str = "sqnr", output: int | None = None) -> Verdict:
    """Returns how far a quantized model is, by one of `DISTANCES`.

    Args:
        quantized: The model.
        judge: A judge of outputs as they stand.
        metric: Name of the metric.
        output: Index of the output that the distance is of; None takes the worst.
    """
    runs = list(judge.pairs(quantized))

    def distance(name: str, key: tuple[str, str | int]) -> float:
        """Returns infinity for outputs of another shape, and for what is no number."""
        pairs = [run[key] for run in runs]
        if any(one.shape != other.shape for one, other in pairs):
            return float("inf")
        wanted, found = zip(*((one.astype(np.float64), other.astype(np.float64)) for one, other in pairs), strict=True)
        value = float(DISTANCES[name](wanted, found))
        return value if value == value else float("inf")  # NaN is not equal to itself

    keys = runs[0].keys()
    sqnr = max((distance("sqnr", key) for key in keys), default=-np.inf)
    worst = max((distance(metric, key) for key in keys if output in (None, key[1])), default=-np.inf)
    return Verdict(worst, float(10 ** (worst / 10) if metric in RATIOS else worst), -sqnr)


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
