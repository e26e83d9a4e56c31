"""Coordinate descent: each code in turn takes the value of least error while the others stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.algorithms.rounding.problem import RoundingProblem

__all__ = ["CoordinateDescent"]

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoordinateDescent:
    """Cyclic coordinate descent, beginning at the nearest codes.

    Attributes:
        passes: How many times each code of a row gets its turn; fewer where nothing changes any more.

    Source:
        M. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", 2020, equation 11, solved
        without its relaxation and for both inputs.
    """

    passes: int = 4

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes."""
        residual = problem.target - problem.decoded @ problem.gram
        solve = self._by_rows if problem.scales.ndim == 2 else self._by_scales
        groups = zip(problem.codes, problem.scales, problem.gram, residual, strict=True)
        return np.stack([solve(*group, problem.lowest, problem.highest) for group in groups])

    def _by_rows(
        self, codes: NDArray[Any], scales: Values, gram: Values, residual: Values, lowest: int, highest: int
    ) -> NDArray[Any]:
        return kernels.descend_codes(codes, scales, gram, residual, qmin=lowest, qmax=highest, passes=self.passes)

    def _by_scales(
        self, codes: NDArray[Any], scales: Values, gram: Values, residual: Values, lowest: int, highest: int
    ) -> NDArray[Any]:
        """Returns the same where scales change along a row: inputs of one scale are solved while the others stand."""
        codes = codes.copy()
        for part in _parts(scales):
            own, steps = gram[part, part], scales[:, part.start]
            for sign, rows in ((1, steps > 0), (-1, steps < 0)):
                if not rows.any():
                    continue
                # Below zero the codes are turned round, for the solver takes scales above it.
                limits = sorted((sign * lowest, sign * highest))
                had = sign * codes[rows, part].astype(np.int16)
                found = self._by_rows(had, sign * steps[rows], own, residual[rows, part], *limits)
                residual[rows] -= ((found - had) * (sign * steps[rows])[:, None]) @ gram[part]
                codes[rows, part] = (sign * found).astype(codes.dtype)
        return codes


def _parts(scales: Values) -> list[slice]:
    """Returns runs of columns in which no row's scale changes."""
    changes = np.flatnonzero((scales[:, 1:] != scales[:, :-1]).any(axis=0)) + 1
    return list(starmap(slice, pairwise([0, *changes.tolist(), scales.shape[1]])))
