"""Coordinate descent: each code in turn takes the value of least error while the others stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.algorithms.rounding.feedback_codes import feedback_codes
from quarkfast.algorithms.rounding.problem import RoundingProblem

__all__ = ["CoordinateDescent"]

Values = NDArray[np.float64]

# Steps that a code may lie from its weight: one of the two on either side of it. Codes that go further fit the few rows
# of samples.
_FURTHEST = 1.0

# Numbers of rows that are solved at once, with one scale each: none depends on another, and limits and copies take nine
# times their memory.
_AT_ONCE = 1 << 17

# Inputs whose errors are carried over at once; a matter of time alone.
_BLOCK = 128


@dataclass(frozen=True, slots=True)
class CoordinateDescent:
    """Cyclic coordinate descent, beginning at codes with error feedback.

    Attributes:
        passes: How many times each code of a row gets its turn; fewer where nothing changes any more.
        furthest: How many steps a code may lie from its weight, unless error feedback brought it further.

    Source:
        M. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", 2020, equation 11, solved
        without its relaxation and for both inputs.
    """

    passes: int = 4
    furthest: float = _FURTHEST

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes."""
        return self.improve(problem.with_codes(feedback_codes(problem, act_order=True, block_size=_BLOCK)))

    def improve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns codes that begin at those of the problem."""
        gram = problem.gram
        residual = problem.decoded @ gram
        np.subtract(problem.target, residual, out=residual)
        _, outputs, inputs = problem.codes.shape
        at_once = max(1, _AT_ONCE // inputs) if problem.scales.ndim == 2 else outputs
        parts = [slice(begin, begin + at_once) for begin in range(0, outputs, at_once)]
        return np.stack([
            np.concatenate([self._of_rows(problem.part(group, rows), own, residual[group, rows]) for rows in parts])
            for group, own in enumerate(gram)
        ])  # fmt: skip

    def _of_rows(self, part: RoundingProblem, gram: Values, residual: Values) -> NDArray[Any]:
        limits = (limit[0] for limit in part.limits_near(self.furthest))
        group = _ScaleGroup(part.codes[0], part.scales[0], gram, residual, *limits)
        solve = self._by_rows if part.scales.ndim == 2 else self._by_scales
        return solve(group, (part.lowest, part.highest))

    def _by_rows(self, group: _ScaleGroup, limits: tuple[int, int]) -> NDArray[Any]:
        return kernels.descend_codes(
            *group[:4], qmin=limits[0], qmax=limits[1], lowest=group.low, highest=group.high, passes=self.passes
        )

    def _by_scales(self, group: _ScaleGroup, limits: tuple[int, int]) -> NDArray[Any]:
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
                turned = _ScaleGroup(had, sign * steps[rows], own, residual[rows, part], low, high)
                found = self._by_rows(turned, (lowest, highest))
                residual[rows] -= ((found - had) * (sign * steps[rows])[:, None]) @ group.gram[part]
                codes[rows, part] = (sign * found).astype(codes.dtype)
        return codes


class _ScaleGroup(NamedTuple):
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
