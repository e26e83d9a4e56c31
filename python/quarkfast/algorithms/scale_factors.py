"""Factors of groups of tensors, as positions in an octave, with which the noise of power-of-two scales is least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.scale_groups import Groups
from quarkfast.algorithms.scale_noise import POSITIONS
from quarkfast.deferred import ir

__all__ = ["FactorProblem", "at"]

Table = NDArray[np.float64]


@dataclass
class FactorProblem:
    """Noise as a function of the positions of groups.

    Attributes:
        groups: The groups whose factor is free, in the order of the graph.
        own: What the tensors of each group add at each position.
        layers: What weights add: the groups that they read and write (None for a factor of 1), and the noise at each
            difference of positions.
    """

    groups: dict[ir.Value, int] = field(default_factory=dict)
    own: list[Table] = field(default_factory=list)
    layers: list[tuple[int | None, int | None, Table]] = field(default_factory=list)

    def index(self, groups: Groups, value: ir.Value) -> int | None:
        """Returns the index of the group of `value`, or None where its factor is 1."""
        if groups.is_pinned(value):
            return None
        found = self.groups.setdefault(groups.of(value), len(self.groups))
        if found == len(self.own):
            self.own.append(np.zeros(POSITIONS))
        return found

    def total(self, positions: Sequence[int]) -> float:
        """Returns the noise of all that depends on factors."""
        own = [float(table[position]) for table, position in zip(self.own, positions, strict=True)]
        return math.fsum(own + [float(t[(at(positions, b) - at(positions, a)) % POSITIONS]) for a, b, t in self.layers])

    def solve(self, sweeps: int) -> tuple[list[int], float]:
        """Returns the positions of least noise that were found, and the ratio of the noise before to that after.

        Args:
            sweeps: How many times each group gets its turn at most; fewer where nothing changes any more.
        """
        starts = [0] * len(self.own), [int(np.argmin(table)) for table in self.own]
        before = self.total(starts[0])
        found = [self._descend(list(start), sweeps) for start in starts]
        best = min(found, key=self.total)
        after = self.total(best)
        return best, before / after if after > 0 else 1.0

    def _descend(self, positions: list[int], sweeps: int) -> list[int]:
        """Gives each group in turn the position of least noise while the others stand."""
        for _ in range(sweeps):
            changed = False
            for group in range(len(self.own)):
                noise = self._around(group, positions)
                best = int(np.argmin(noise))
                if noise[best] < noise[positions[group]]:
                    positions[group], changed = best, True
            if not changed:
                break
        return positions

    def _around(self, group: int, positions: Sequence[int]) -> Table:
        found, every = self.own[group].copy(), np.arange(POSITIONS)
        for a, b, table in self.layers:
            if a == b:
                continue
            if b == group:
                found += table[(every - at(positions, a)) % POSITIONS]
            elif a == group:
                found += table[(at(positions, b) - every) % POSITIONS]
        return found


def at(positions: Sequence[int], group: int | None) -> int:
    """Returns the position of a group; 0 for None, the factor of which is 1."""
    return 0 if group is None else positions[group]
