"""From numbers to places of a plot, and round numbers for its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Scale", "padded", "ticks"]


class Scale(NamedTuple):
    """A straight line from numbers to units of a drawing.

    Attributes:
        low: Number at `start`.
        high: Number at `end`, another than `low`.
        start: Place of `low`.
        end: Place of `high`.

    Example:
        >>> Scale(0.0, 10.0, 100.0, 0.0)(2.5)
        75.0
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Returns the place of a number; beyond the ends for one beyond them."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns round numbers from `low` to `high`, `most` at the most.

    Example:
        >>> ticks(3.0, 47.0)
        [10.0, 20.0, 30.0, 40.0]
    """
    width = (high - low) / most
    if not width > 0 or not math.isfinite(width):
        return [low]
    power = 10.0 ** math.floor(math.log10(width))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= width * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Returns ends for an axis that holds all values with room on both sides.

    Example:
        >>> padded([10.0, 20.0], share=0.1)
        (9.0, 21.0)
    """
    found = list(values)
    low, high = min(found), max(found)
    room = (high - low) * share or abs(low) * share or 1.0
    return low - room, high + room
