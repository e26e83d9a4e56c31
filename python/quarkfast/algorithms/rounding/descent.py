"""Coordinate descent: each code in turn takes the value of least error while the others stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.algorithms.rounding.problem import RoundingProblem

__all__ = ["CoordinateDescent"]


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
        limits = {"qmin": problem.lowest, "qmax": problem.highest, "passes": self.passes}
        groups = zip(problem.codes, problem.scales, problem.gram, residual, strict=True)
        return np.stack([kernels.descend_codes(*group, **limits) for group in groups])
