"""AdaRound: whether each weight is rounded up or down, relaxed to a number between that is pulled to either end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.adam import Adam, EarlyStop
from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows
from quarkfast.reconstruction.products import products

__all__ = ["AdaRound"]

Singles = NDArray[np.float32]

# The sigmoid is stretched beyond 0 and 1, so that both are reached by finite parameters.
_STRETCH, _BELOW = np.float32(1.2), np.float32(-0.1)

# Of a part half way, in place of zero, whose logarithm is none.
_TINY = np.float32(1e-6)


@dataclass(frozen=True, slots=True)
class AdaRound:
    """Gradient descent over the whole quadratic form; nothing is drawn at random.

    Attributes:
        num_iterations: Steps for each layer.
        learning_rate: That of Adam.
        reg_param: Weight of the term that pulls towards whole codes.
        beta_range: Exponent of that term, at its beginning and at its end.
        warm_start: Part of the steps without that term.
        early_stop: Whether to stop when that term no longer falls.

    Source:
        M. Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", 2020, equations 21 to 25.
    """

    num_iterations: int = 1000
    learning_rate: float = 0.1
    reg_param: float = 0.01
    beta_range: tuple[float, float] = (20.0, 2.0)
    warm_start: float = 0.2
    early_stop: bool = False

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes."""
        positions = problem.positions()
        low = np.floor(positions)
        rest = (positions - low).astype(np.float32)
        # The highest code has none above it: its weight stays.
        steps = (problem.steps * (low < problem.highest)).astype(np.float32)
        slope = _Slope(problem, positions)
        parameters = -np.log(_STRETCH / (rest - _BELOW) - 1)
        adam, stop = Adam(parameters.shape, self.learning_rate), EarlyStop(self.num_iterations)
        warm = self.warm_start * self.num_iterations
        for step in range(self.num_iterations):
            sigmoid = 1 / (1 + np.exp(-parameters))
            stretched = _STRETCH * sigmoid + _BELOW
            part = np.clip(stretched, 0, 1)
            gradient = slope.at((part - rest) * steps) * steps
            if step >= warm:
                beta = self._beta((step - warm) / (self.num_iterations - warm))
                pull, loss = self._pull(part, beta)
                gradient += pull
                if self.early_stop and stop.reached(loss):
                    break
            gradient *= (stretched == part) * (_STRETCH * sigmoid * (1 - sigmoid))
            adam.step(parameters, gradient)
        codes = np.clip(low + (parameters >= 0), problem.lowest, problem.highest)
        return better_rows(problem, codes.astype(problem.codes.dtype))

    def _beta(self, progress: float) -> float:
        start, end = self.beta_range
        return end + 0.5 * (start - end) * (1 + float(np.cos(np.pi * progress)))

    def _pull(self, part: Singles, beta: float) -> tuple[Singles, float]:
        """Returns the derivative of the term that is least where each part is 0 or 1, and the term where needed."""
        centred = 2 * part - 1
        size = np.maximum(np.abs(centred), _TINY)
        power = np.exp(np.float32(beta - 1) * np.log(size))  # ten times as fast as a power
        loss = self.reg_param * float(np.sum(1 - power * size)) if self.early_stop else 0.0
        return np.float32(-2 * self.reg_param * beta) * power * np.sign(centred), loss


class _Slope:
    """The derivative of the error by the weights, of weights that lie by a little beside their float values.

    In float32: what is large in it, the slope at the float weights, is computed in float64.
    """

    def __init__(self, problem: RoundingProblem, positions: NDArray[np.float64]) -> None:
        self._gram = (2 * problem.gram).astype(np.float32)
        self._start = (2 * problem.half_gradient(problem.values_of(positions))).astype(np.float32)

    def at(self, moved: Singles) -> Singles:
        found = products(moved, self._gram)
        found += self._start
        return found
