"""How close one model's outputs are to another's, and to the truth. Plain functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["agreement", "cosine", "spearman", "sqnr", "top1"]


def top1(logits: ArrayLike, labels: ArrayLike) -> float:
    """Returns the share of rows whose largest logit is the label's, in percent.

    Args:
        logits: Shape ``[samples, classes]``.
        labels: Class indices, shape ``[samples]``.

    Raises:
        ValueError: If the shapes do not fit.

    Example:
        >>> top1([[0.1, 0.9], [0.8, 0.2]], [1, 1])
        50.0
    """
    scores, truth = np.asarray(logits), np.asarray(labels)
    if scores.ndim != 2 or truth.shape != scores.shape[:1]:
        raise ValueError(
            f"top1: expected logits [samples, classes] and labels [samples], got {scores.shape} and {truth.shape}"
        )
    return float(np.mean(scores.argmax(axis=1) == truth) * 100)


def agreement(reference: ArrayLike, logits: ArrayLike) -> float:
    """Returns the share of rows in which both have their largest logit at the same class, in percent.

    Example:
        >>> agreement([[0.1, 0.9], [0.8, 0.2]], [[0.3, 0.7], [0.4, 0.6]])
        50.0
    """
    first, second = _pair("agreement", reference, logits)
    return float(np.mean(first.argmax(axis=-1) == second.argmax(axis=-1)) * 100)


def sqnr(reference: ArrayLike, output: ArrayLike) -> float:
    """Returns the ratio of signal to quantization noise, ``10 log10(sum ref^2 / sum (ref - out)^2)``, in dB.

    Equal arrays have an infinite ratio; sums are in float64.

    Example:
        >>> round(sqnr([1.0, 2.0, 3.0], [1.0, 2.0, 3.1]), 2)
        31.46
    """
    first, second = _pair("sqnr", reference, output)
    signal, noise = float(np.square(first).sum()), float(np.square(first - second).sum())
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def cosine(reference: ArrayLike, output: ArrayLike) -> float:
    """Returns the cosine of the angle between both, as one vector each; 0 if one of them is all zero.

    Example:
        >>> round(cosine([1.0, 0.0], [1.0, 1.0]), 4)
        0.7071
    """
    first, second = _pair("cosine", reference, output)
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.vdot(first, second)) / length if length else 0.0


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Returns Spearman's rank correlation; ties share the mean of their ranks.

    Args:
        first: One score a sample.
        second: Another, of the same shape.

    Returns:
        -1 to 1; NaN if one side is constant.

    Source:
        Pearson's correlation of the ranks (C. Spearman, 1904), as in ``scipy.stats.spearmanr``.

    Example:
        >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
        0.8
    """
    a, b = _pair("spearman", first, second)
    x, y = (_ranks(values.ravel()) for values in (a, b))
    x, y = x - x.mean(), y - y.mean()
    spread = float(np.sqrt(np.square(x).sum() * np.square(y).sum()))
    return float(np.vdot(x, y)) / spread if spread else float("nan")


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (2 * last - counts + 1) / 2
    return mean[inverse]


def _pair(where: str, first: ArrayLike, second: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"{where}: expected arrays of one shape, got {a.shape} and {b.shape}")
    return a, b
