"""GPTQ: weights are rounded one input after the other, and the inputs that follow make up for each error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.descent import CoordinateDescent
from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows

__all__ = ["Gptq", "inverse_factor"]

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gptq:
    """Rounding with error feedback, in one pass over the inputs of a layer.

    Scales are those of the inputs' places in the weight, whatever the order in which they are rounded. What is rounded
    are the float weights of least error, ``T G^-1``: those of the model, where the layer is to give what these make of
    the input there is.

    Attributes:
        act_order: Whether inputs are rounded from the largest mean square down, and not in their order.
        block_size: Inputs whose errors are carried over to all that follow at once.
        passes: How many passes of coordinate descent go over the codes afterwards; the published algorithm has none.

    Source:
        E. Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023,
        algorithm 1; `act_order` is of its published code.
    """

    act_order: bool = False
    block_size: int = 128
    passes: int = 0

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes; the nearest ones in rows that these make no better, or if ``G`` is singular."""
        codes = np.stack([self._solve(problem, group) for group in range(len(problem.gram))])
        if self.passes:
            begun = replace(problem, codes=codes, decoded=problem.values_of(codes))
            codes = CoordinateDescent(self.passes).solve(begun)
        return better_rows(problem, codes)

    def _solve(self, problem: RoundingProblem, group: int) -> NDArray[Any]:
        nearest: NDArray[Any] = problem.codes[group]
        gram = problem.gram[group]
        order = np.argsort(-np.diag(gram), kind="stable") if self.act_order else np.arange(len(gram))
        try:
            factor = inverse_factor(gram[np.ix_(order, order)])
        except np.linalg.LinAlgError:
            return nearest
        steps = np.broadcast_to(problem.steps[group], nearest.shape)[:, order]
        zeros = np.rint(nearest[:, order] - problem.decoded[group][:, order] / steps)
        weights = (problem.target[group][:, order] @ factor.T) @ factor
        found = self._rounded(weights, steps, zeros, factor, (problem.lowest, problem.highest))
        codes: NDArray[Any] = np.empty_like(nearest)
        codes[:, order] = found.astype(codes.dtype)
        return codes

    def _rounded(
        self, weights: Values, steps: Values, zeros: Values, factor: Values, limits: tuple[int, int]
    ) -> Values:
        """Returns codes of `weights`, which become what the error feedback made of them."""
        codes = np.empty_like(weights)
        for first in range(0, weights.shape[1], self.block_size):
            block = slice(first, first + self.block_size)
            inside, own = weights[:, block], factor[block, block]
            errors = np.empty_like(inside)
            for k in range(inside.shape[1]):
                at = first + k
                codes[:, at] = np.clip(np.rint(inside[:, k] / steps[:, at] + zeros[:, at]), *limits)
                errors[:, k] = (inside[:, k] - (codes[:, at] - zeros[:, at]) * steps[:, at]) / own[k, k]
                inside[:, k + 1 :] -= errors[:, k, None] * own[k, k + 1 :]
            weights[:, first + self.block_size :] -= errors @ factor[block, first + self.block_size :]
        return codes


def inverse_factor(gram: Values) -> Values:
    """Returns the upper triangular `U` with ``U^T U = G^-1``.

    With the order of rows and columns turned round, ``G = L L^T`` has the lower triangular factor whose inverse, turned
    round again, is `U`: one factorization and one inverse of a triangular matrix.

    Raises:
        LinAlgError: If ``G`` is not positive definite.
    """
    turned = np.linalg.cholesky(gram[::-1, ::-1])
    inverse: Values = np.linalg.inv(turned)[::-1, ::-1]
    return np.triu(inverse)
