"""AdaRound: whether each weight is rounded up or down, relaxed to a number between that is pulled to either end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.adam import Adam, EarlyStop
from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows

__all__ = ["AdaRound"]

Values = NDArray[np.float64]

# The sigmoid is stretched beyond 0 and 1, so that both are reached by finite parameters.
_STRETCH, _BELOW = 1.2, -0.1


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
        parameters = -np.log(_STRETCH / (positions - low - _BELOW) - 1)
        adam, stop, warm = self._adam(parameters), EarlyStop(self.num_iterations), self.warm_start * self.num_iterations
        for step in range(self.num_iterations):
            sigmoid = 1 / (1 + np.exp(-parameters))
            stretched = _STRETCH * sigmoid + _BELOW
            part = np.clip(stretched, 0, 1)
            codes = np.clip(low + part, problem.lowest, problem.highest)
            gradient = 2 * problem.half_gradient(problem.values_of(codes)) * problem.scales[:, None]
            gradient *= low + part <= problem.highest
            if step >= warm:
                loss, pull = self._whole(part, self._beta((step - warm) / (self.num_iterations - warm)))
                gradient += pull
                if self.early_stop and stop.reached(loss):
                    break
            inside = (stretched > 0) & (stretched < 1)
            adam.step(parameters, gradient * inside * _STRETCH * sigmoid * (1 - sigmoid))
        codes = np.clip(low + (parameters >= 0), problem.lowest, problem.highest)
        return better_rows(problem, codes.astype(problem.codes.dtype))

    def _adam(self, parameters: Values) -> Adam:
        return Adam(parameters.shape, self.learning_rate)

    def _beta(self, progress: float) -> float:
        start, end = self.beta_range
        return end + 0.5 * (start - end) * (1 + float(np.cos(np.pi * progress)))

    def _whole(self, part: Values, beta: float) -> tuple[float, Values]:
        """Returns the term that is least where each part is 0 or 1, and its derivative by the parts."""
        centred = 2 * part - 1
        power = np.abs(centred) ** (beta - 1)
        loss = self.reg_param * float(np.sum(1 - power * np.abs(centred)))
        return loss, -2 * self.reg_param * beta * power * np.sign(centred)
