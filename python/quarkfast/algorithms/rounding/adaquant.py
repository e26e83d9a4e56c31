"""AdaQuant: the float weights themselves move, by the gradient at their rounded values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.adam import Adam, EarlyStop
from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows
from quarkfast.reconstruction.products import products

__all__ = ["AdaQuant"]


@dataclass(frozen=True, slots=True)
class AdaQuant:
    """Gradient descent with straight-through rounding over the whole quadratic form; scales stay as they are.

    Of all steps, each row keeps the codes of its least error.

    Attributes:
        num_iterations: Steps for each layer.
        learning_rate: That of Adam, in units of the weights.
        early_stop: Whether to stop when the error no longer falls.

    Source:
        I. Hubara et al., "Improving Post Training Neural Quantization: Layer-wise Calibration and Integer Programming",
        2020, section 3.1.
    """

    num_iterations: int = 1000
    learning_rate: float = 1e-5
    early_stop: bool = False

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes."""
        steps = problem.steps.astype(np.float32)
        positions = problem.codes + (problem.weights - problem.decoded) / problem.steps
        gram, start = problem.gram.astype(np.float32), problem.half_gradient(problem.weights).astype(np.float32)
        # Weights move as the sum of their own steps, which are much smaller than they are.
        moved, exact = np.zeros_like(start), positions.astype(np.float32)
        adam, stop = Adam(moved.shape, self.learning_rate), EarlyStop(self.num_iterations)
        best, least = problem.codes.astype(np.float32), np.full(exact.shape[:-1], np.inf)
        for _ in range(self.num_iterations):
            now = exact + moved / steps
            codes = np.clip(np.rint(now), problem.lowest, problem.highest)
            deviation = (codes - exact) * steps
            slope = products(deviation, gram)
            errors = np.einsum("gmk,gmk->gm", deviation, slope + 2 * start)
            slope += start
            lower = errors < least
            best[lower], least[lower] = codes[lower], errors[lower]
            if self.early_stop and stop.reached(float(errors.sum())):
                break
            inside = (now >= problem.lowest) & (now <= problem.highest)
            adam.step(moved, np.where(inside, slope, np.float32(0)))
        return better_rows(problem, best.astype(problem.codes.dtype))
