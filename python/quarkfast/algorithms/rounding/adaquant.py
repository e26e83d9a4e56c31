"""AdaQuant: the float weights themselves move, by the gradient at their rounded values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.adam import Adam, EarlyStop
from quarkfast.algorithms.rounding.problem import RoundingProblem

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
        steps = problem.scales[:, None]
        lowest, highest = (
            (limit - problem.codes) * steps + problem.decoded for limit in (problem.lowest, problem.highest)
        )
        weights, adam = problem.weights.copy(), Adam(problem.weights.shape, self.learning_rate)
        stop, best = EarlyStop(self.num_iterations), problem.codes.astype(np.float64)
        least = problem.errors(problem.codes)
        for _ in range(self.num_iterations):
            exact = problem.codes + (weights - problem.decoded) / steps
            codes = np.clip(np.rint(exact), problem.lowest, problem.highest)
            values = problem.values_of(codes)
            slope = problem.half_gradient(values)
            errors = problem.errors_at(values, slope)
            lower = errors < least
            best[lower], least[lower] = codes[lower], errors[lower]
            if self.early_stop and stop.reached(float(errors.sum())):
                break
            adam.step(weights, 2 * slope * ((weights >= lowest) & (weights <= highest)))
        return best.astype(problem.codes.dtype)
