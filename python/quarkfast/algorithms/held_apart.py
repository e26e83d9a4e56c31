"""Samples that an algorithm is not fitted to, and what the outputs gain on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.config import POLICY, Policy
from quarkfast.wording import counted

__all__ = ["Gains", "split", "split_samples"]


def split_samples(context: AlgorithmContext, most: int) -> tuple[list[Any], list[Any]]:
    """Returns at most that many samples to fit to, and others to judge by: the same where there is but a handful."""
    policy = context.scheme.policy
    return split(context.read_samples(most + policy.apart_most), most, policy.apart_most, policy.apart_one_in)


def split(samples: Sequence[Any], most: int, most_apart: int, one_in: int) -> tuple[list[Any], list[Any]]:
    """Returns at most `most` samples to fit to and `most_apart` others: one in so many, or all that are left.

    Example:
        >>> split(range(16), 8, 8, 5)
        ([0, 2, 4, 6, 8, 10, 12, 14], [1, 3, 5, 7, 9, 11, 13, 15])
    """
    count = min(max(len(samples) // one_in, len(samples) - most), most_apart)
    if not count:
        return list(samples), list(samples)
    chosen = {(place + 1) * len(samples) // count - 1 for place in range(count)}
    fitting = [each for place, each in enumerate(samples) if place not in chosen]
    return fitting[:most], [samples[place] for place in sorted(chosen)]


class Gains:
    """What the ratios of outputs on samples held apart were and are, in dB; those that are not finite are left out.

    Example:
        >>> gains = Gains(np.array([20.0, 21.0]), np.array([23.0, 22.0]))
        >>> gains.mean, gains.are_losses(), str(gains)
        (2.0, False, 'on 2 samples held apart outputs have 22.5 dB instead of 20.5 dB in the mean')
    """

    def __init__(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
        """Takes one ratio of each sample, without the change and with it."""
        known = np.isfinite(before)
        self._before, self._after = before[known], after[known]
        self._gains = self._after - self._before

    @property
    def mean(self) -> float:
        """The mean gain in dB."""
        return float(self._gains.mean()) if self._gains.size else 0.0

    @property
    def after(self) -> float:
        """The mean ratio in dB with the change."""
        return float(self._after.mean()) if self._after.size else 0.0

    def any(self) -> bool:
        """Whether any sample has another ratio."""
        return bool(self._gains.any())

    def are_losses(self, policy: Policy = POLICY) -> bool:
        """Whether the mean is below zero by more than its standard error, or of few by more than chance."""
        size = self._gains.size
        error = float(np.std(self._gains, ddof=1)) / math.sqrt(size) if size > 1 else 0.0
        return self.mean < -(min(error, policy.apart_loss) if size < policy.apart_few else error)

    def __str__(self) -> str:
        """Returns both means in words."""
        had = float(self._before.mean()) if self._before.size else 0.0
        apart = counted(self._gains.size, "sample held apart")
        return f"on {apart} outputs have {self.after:.1f} dB instead of {had:.1f} dB in the mean"
