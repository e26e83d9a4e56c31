"""Rounding of floats and blocks with error feedback: inputs that follow make up for what is lost before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.inverse_factors import inverse_factor

__all__ = ["round_with_feedback"]

Values = NDArray[np.float64]

Round = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From values ``[rows, inputs of one block]`` to those nearest to them that a format holds."""


def round_with_feedback(
    nearest: Values, gram: Values, target: Values, blocks: Sequence[NDArray[np.int64]], round_block: Round
) -> Values:
    """Returns weights that a format holds, by rows: the nearest ones in rows that these make no better.

    GPTQ with blocks of inputs in place of single ones, for formats whose values share an exponent: a block is rounded
    to the nearest as a whole, and what it lost goes to the blocks behind it, through the inverse of ``G``. Scalar
    formats have blocks of one input. What is rounded are the float weights of least error, ``T G^-1``.

    Args:
        nearest: The values nearest to the weights, ``[g, m, k]``.
        gram: ``G``, ``[g, k, k]``.
        target: ``T``, ``[g, m, k]`` (`quarkfast.algorithms.rounding.problem.RoundingProblem`).
        blocks: The inputs of each block, in the order of the format.
        round_block: Rounds a block.

    Source:
        E. Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023,
        section 3.3, with several columns at once.

    Example:
        >>> import numpy as np
        >>> gram = np.array([[[1.0, 0.9], [0.9, 1.0]]])
        >>> weights = np.array([[[0.4, 0.4]]])
        >>> whole = lambda values: np.rint(values)
        >>> columns = [np.array([0]), np.array([1])]
        >>> round_with_feedback(np.rint(weights), gram, weights @ gram, columns, whole).tolist()
        [[[0.0, 1.0]]]
    """
    found = np.stack([
        _rounded(near, own, wanted, blocks, round_block)
        for near, own, wanted in zip(nearest, gram, target, strict=True)
    ])  # fmt: skip
    better = _errors(found, gram, target) < _errors(nearest, gram, target)
    return np.where(better[..., None], found, nearest)


def _rounded(
    nearest: Values, gram: Values, target: Values, blocks: Sequence[NDArray[np.int64]], round_block: Round
) -> Values:
    order = np.concatenate(blocks)
    try:
        factor = inverse_factor(gram, order)
    except np.linalg.LinAlgError:
        return nearest
    weights = (target[:, order] @ factor.T) @ factor
    begin = 0
    for block in blocks:
        end = begin + len(block)
        rounded = round_block(weights[:, begin:end].astype(np.float32)).astype(np.float64)
        # E U = W - W^ for the block's own part U of the factor.
        errors = np.linalg.solve(factor[begin:end, begin:end].T, (weights[:, begin:end] - rounded).T).T
        weights[:, begin:end] = rounded
        weights[:, end:] -= errors @ factor[begin:end, end:]
        begin = end
    found: Values = np.empty_like(weights)
    found[:, order] = weights
    return found


def _errors(values: Any, gram: Values, target: Values) -> Values:
    """Returns the error of each row, less a constant."""
    found: Values = np.einsum("gmk,gmk->gm", values, values @ gram - 2 * target)
    return found
