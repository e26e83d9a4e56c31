"""Integer codes with error feedback: inputs that follow make up for what the rounding of one loses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.error_feedback import InverseFactors
from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows

__all__ = ["feedback_codes"]

Values = NDArray[np.float64]


def feedback_codes(problem: RoundingProblem, *, act_order: bool, block_size: int) -> NDArray[Any]:
    """Returns codes; the nearest ones in rows that these make no better, or if ``G`` is singular.

    Args:
        problem: The layer.
        act_order: Whether inputs are rounded from the largest mean square down, and not in their order.
        block_size: Inputs whose errors are carried over to all that follow at once.

    Source:
        E. Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023,
        algorithm 1; `act_order` is of its published code.

    Example:
        >>> import numpy as np
        >>> from quarkfast.reconstruction.set_aside import SetAside
        >>> gram, weights = np.array([[[1.0, 0.9], [0.9, 1.0]]]), np.array([[[0.4, 0.4]]])
        >>> nearest = np.int8([[[0, 0]]])
        >>> form, target = SetAside(gram), weights @ gram
        >>> problem = RoundingProblem(nearest, 0.0 * nearest, weights, np.ones((1, 1)), form, target, -8, 7)
        >>> feedback_codes(problem, act_order=False, block_size=2).tolist()
        [[[0, 1]]]
    """
    factors = problem.factors
    if factors is None or not act_order:
        factors = InverseFactors.of(problem.form, act_order=act_order)
    groups = range(len(problem.codes))
    return better_rows(problem, np.stack([_of_group(problem, each, factors, block_size) for each in groups]))


def _of_group(problem: RoundingProblem, group: int, factors: InverseFactors, block_size: int) -> NDArray[Any]:
    nearest: NDArray[Any] = problem.codes[group]
    order, factor = factors.orders[group], factors.read(group)
    if factor is None:
        return nearest
    steps = np.broadcast_to(problem.steps[group], nearest.shape)[:, order]
    zeros = np.rint(nearest[:, order] - problem.decoded[group][:, order] / steps)
    weights = problem.weights[group][:, order]
    found = _rounded(weights, steps, zeros, factor, (problem.lowest, problem.highest), block_size)
    codes: NDArray[Any] = np.empty_like(nearest)
    codes[:, order] = found.astype(codes.dtype)
    return codes


def _rounded(
    weights: Values, steps: Values, zeros: Values, factor: Values, limits: tuple[int, int], block_size: int
) -> Values:
    """Returns codes of `weights`, which become what the error feedback made of them."""
    codes = np.empty_like(weights)
    for first in range(0, weights.shape[1], block_size):
        block = slice(first, first + block_size)
        inside, own = weights[:, block], factor[block, block]
        errors = np.empty_like(inside)
        for k in range(inside.shape[1]):
            at = first + k
            codes[:, at] = np.clip(np.rint(inside[:, k] / steps[:, at] + zeros[:, at]), *limits)
            errors[:, k] = (inside[:, k] - (codes[:, at] - zeros[:, at]) * steps[:, at]) / own[k, k]
            inside[:, k + 1 :] -= errors[:, k, None] * own[k, k + 1 :]
        weights[:, first + block_size :] -= errors @ factor[block, first + block_size :]
    return codes
