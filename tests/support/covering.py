"""Products of parameters, covered in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

__all__ = ["in_pairs"]

Case = tuple[Any, ...]


def in_pairs(*factors: Sequence[Any]) -> list[Case]:
    """Returns cases in which any two values of any two factors meet, one after the other by greed; always the same.

    Each begins with a pair that has not met yet, and takes of every other factor the value that meets most that it has
    not met, and of such values the one that was taken least.

    Args:
        *factors: Values of each.
    """
    waiting = {
        (i, a, j, b): None
        for i, j in combinations(range(len(factors)), 2)
        for a in range(len(factors[i]))
        for b in range(len(factors[j]))
    }
    cases = []
    taken = [[0] * len(factor) for factor in factors]
    while waiting:
        i, a, j, b = next(iter(waiting))
        chosen = {i: a, j: b}
        for k in (k for k in range(len(factors)) if k not in chosen):
            gains = [sum(pair in waiting for pair in _met({k: value}, chosen)) for value in range(len(factors[k]))]
            chosen[k] = max(range(len(gains)), key=lambda value: (gains[value], -taken[k][value]))
        for pair in _met(chosen, chosen):
            waiting.pop(pair, None)
        for k, value in chosen.items():
            taken[k][value] += 1
        cases.append(tuple(factor[chosen[k]] for k, factor in enumerate(factors)))
    return cases


def _met(some: dict[int, int], others: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Yields the pairs of values of two choices, the factor that comes first in front."""
    for k, value in some.items():
        for other, found in others.items():
            if k != other:
                yield (k, value, other, found) if k < other else (other, found, k, value)
