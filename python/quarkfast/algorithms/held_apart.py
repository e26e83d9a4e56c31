"""The holdout of an algorithm: samples spread among those that it is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarkfast.algorithms.algorithm import AlgorithmContext

__all__ = ["split", "split_samples"]


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
