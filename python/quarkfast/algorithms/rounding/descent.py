"""Coordinate descent: each code in turn takes the value of least error while the others stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.algorithms.rounding.problem import RoundingProblem

__all__ = ["FURTHEST_BESIDE_POWERS", "CoordinateDescent"]

Values = NDArray[np.float64]

# Steps that a code may lie from its weight: the nearest, or the next one where the weight lies a fifth of a step or
# more away from it. Codes that go further fit the few rows of samples. SQNR on 1,000 other images with codes up to
# one step from the nearest, with those on both sides of the weight, and with these, 64 images: resnet20 with 4-bit
# weights 19.3, 19.7, 20.1 dB, mobilenetv2 25.1, 25.7, 25.7 dB; in A8W8 26.2, 26.2, 26.3 and 31.9, 32.1, 32.2 dB.
_FURTHEST = 0.8

# The same where weights make up for what saturates, which takes more than roundings do: with 0.8 of a step in XINT8 a
# text recognizer has 11.4 dB on 384 other lines, with the next codes on both sides 13.6 dB, and the networks above lose
# up to 0.25 dB.
FURTHEST_BESIDE_POWERS = 1.5


@dataclass(frozen=True, slots=True)
class CoordinateDescent:
    """Cyclic coordinate descent, beginning at the nearest codes.

    Attributes:
        passes: How many times each code of a row gets its turn; fewer where nothing changes any more.
        furthest: How many steps a code may lie from its weight.

    Source:
        M. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", 2020, equation 11, solved
        without its relaxation and for both inputs.
    """

    passes: int = 4
    furthest: float = _FURTHEST

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes."""
        residual = problem.target - problem.decoded @ problem.gram
        solve = self._by_rows if problem.scales.ndim == 2 else self._by_scales
        groups = zip(
            problem.codes, problem.scales, problem.gram, residual, *problem.limits_near(self.furthest), strict=True
        )
        return np.stack([solve(_Group(*group), (problem.lowest, problem.highest)) for group in groups])

    def _by_rows(self, group: _Group, limits: tuple[int, int]) -> NDArray[Any]:
        return kernels.descend_codes(
            *group[:4], qmin=limits[0], qmax=limits[1], lowest=group.low, highest=group.high, passes=self.passes
        )

    def _by_scales(self, group: _Group, limits: tuple[int, int]) -> NDArray[Any]:
        """Returns the same where scales change along a row: inputs of one scale are solved while the others stand."""
        codes, residual = group.codes.copy(), group.residual
        for part in _parts(group.scales):
            own, steps = group.gram[part, part], group.scales[:, part.start]
            for sign, rows in ((1, steps > 0), (-1, steps < 0)):
                if not rows.any():
                    continue
                # Below zero the codes are turned round, for the solver takes scales above it.
                low, high = (sign * each[rows, part] for each in (group.low, group.high)[::sign])
                had = sign * codes[rows, part].astype(np.int16)
                lowest, highest = sorted(sign * each for each in limits)
                turned = _Group(had, sign * steps[rows], own, residual[rows, part], low, high)
                found = self._by_rows(turned, (lowest, highest))
                residual[rows] -= ((found - had) * (sign * steps[rows])[:, None]) @ group.gram[part]
                codes[rows, part] = (sign * found).astype(codes.dtype)
        return codes


class _Group(NamedTuple):
    """A group of a problem, with the lowest and the highest code of each weight."""

    codes: NDArray[Any]
    scales: Values
    gram: Values
    residual: Values
    low: NDArray[Any]
    high: NDArray[Any]


def _parts(scales: Values) -> list[slice]:
    """Returns runs of columns in which no row's scale changes."""
    changes = np.flatnonzero((scales[:, 1:] != scales[:, :-1]).any(axis=0)) + 1
    return list(starmap(slice, pairwise([0, *changes.tolist(), scales.shape[1]])))
