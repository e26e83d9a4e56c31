"""The optimizer of AdaRound and AdaQuant, and their early stop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adam", "EarlyStop"]

Values = NDArray[np.float32]

_MEAN, _SQUARE, _TINY = 0.9, 0.999, 1e-8


class Adam:
    """Steps of gradient descent, each element's divided by the root of its mean square.

    Source:
        D. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1 with its default settings.

    Example:
        >>> import numpy as np
        >>> parameters, adam = np.float32([1.0, 2.0]), Adam((2,), 0.5)
        >>> adam.step(parameters, np.float32([3.0, -4.0]))
        >>> parameters.round(6).tolist()
        [0.5, 2.5]
    """

    def __init__(self, shape: tuple[int, ...], learning_rate: float) -> None:
        self._rate, self._steps = learning_rate, 0
        self._mean, self._square = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def step(self, parameters: Values, gradient: Values) -> None:
        """Moves `parameters` in place."""
        self._steps += 1
        self._mean += (1 - _MEAN) * (gradient - self._mean)
        self._square += (1 - _SQUARE) * (gradient * gradient - self._square)
        size = np.sqrt(self._square * (1 / (1 - _SQUARE**self._steps)))
        size += _TINY
        parameters -= (self._rate / (1 - _MEAN**self._steps)) * self._mean / size


class EarlyStop:
    """Whether the mean of a loss over a tenth of the iterations is no lower than over the tenth before it.

    Example:
        >>> stop = EarlyStop(20)
        >>> [stop.reached(loss) for loss in (3.0, 3.0, 2.0, 2.0, 2.0, 2.0)]
        [False, False, False, False, False, True]
    """

    def __init__(self, iterations: int) -> None:
        self._window = max(1, iterations // 10)
        self._sum, self._count, self._before = 0.0, 0, np.inf

    def reached(self, loss: float) -> bool:
        """Counts one loss."""
        self._sum, self._count = self._sum + loss, self._count + 1
        if self._count < self._window:
            return False
        mean, before = self._sum / self._count, self._before
        self._sum, self._count, self._before = 0.0, 0, mean
        return not mean < before
