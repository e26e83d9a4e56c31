"""Integer codes with error feedback: inputs that follow make up for what the rounding of one loses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.problem import RoundingProblem, better_rows

__all__ = ["feedback_codes", "inverse_factor"]

Values = NDArray[np.float64]

# Rows of a triangular matrix that is inverted as any other.
_SMALL = 64


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
        >>> gram, weights = np.array([[[1.0, 0.9], [0.9, 1.0]]]), np.array([[[0.4, 0.4]]])
        >>> nearest = np.int8([[[0, 0]]])
        >>> problem = RoundingProblem(nearest, 0.0 * nearest, weights, np.ones((1, 1)), gram, weights @ gram, -8, 7)
        >>> feedback_codes(problem, act_order=False, block_size=2).tolist()
        [[[0, 1]]]
    """
    groups = range(len(problem.gram))
    return better_rows(problem, np.stack([_of_group(problem, each, act_order, block_size) for each in groups]))


def _of_group(problem: RoundingProblem, group: int, act_order: bool, block_size: int) -> NDArray[Any]:
    nearest: NDArray[Any] = problem.codes[group]
    gram = problem.gram[group]
    order = np.argsort(-np.diag(gram), kind="stable") if act_order else np.arange(len(gram))
    try:
        factor = inverse_factor(gram[np.ix_(order, order)])
    except np.linalg.LinAlgError:
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


def inverse_factor(gram: Values) -> Values:
    """Returns the upper triangular `U` with ``U^T U = G^-1``.

    With the order of rows and columns turned round, ``G = L L^T`` has the lower triangular factor whose inverse, turned
    round again, is `U`.

    Raises:
        LinAlgError: If ``G`` is not positive definite.
    """
    factor = np.asarray(np.linalg.cholesky(gram[::-1, ::-1]), np.float64)
    _invert_lower(factor)
    return np.ascontiguousarray(factor[::-1, ::-1])


def _invert_lower(factor: Values) -> None:
    """Inverts a lower triangular matrix in place, by halves: a sixth of the work of a general inverse."""
    size = len(factor)
    if size <= _SMALL:
        factor[...] = np.tril(np.linalg.inv(factor))
        return
    half = size // 2
    top, below, bottom = factor[:half, :half], factor[half:, :half], factor[half:, half:]
    _invert_lower(top)
    _invert_lower(bottom)
    below[...] = -(bottom @ below) @ top
