"""Triangular factors of the inverses of Gram matrices, which error feedback goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.cholesky import factor_in_place, invert_lower
from quarkfast.reconstruction.set_aside import SetAside

__all__ = ["InverseFactors", "inverse_factor", "round_with_feedback"]

Values = NDArray[np.float64]

# Numbers that are turned round at once.
_TURNED = 1 << 16


@dataclass(frozen=True, slots=True)
class InverseFactors:
    """For each group of a layer an order of its inputs and the factor of the inverse of its ``G`` in that order.

    Attributes:
        orders: Places of the inputs, ``[k]`` of each group.
        factors: The upper triangular `U` with ``U^T U = G^-1``, ``[1, k, k]`` of each group; None where ``G`` is not
            positive definite.
    """

    orders: Sequence[NDArray[np.int64]]
    factors: Sequence[SetAside | None]

    @classmethod
    def of(cls, gram: SetAside, *, act_order: bool) -> InverseFactors:
        """Returns the factors of matrices ``[g, k, k]``.

        Args:
            gram: ``G`` of each group.
            act_order: Whether inputs come from the largest mean square down, and not in their order.
        """
        orders = [np.argsort(-own, kind="stable") if act_order else np.arange(len(own)) for own in gram.diagonals]
        return cls(orders, [_factor(gram, group, order) for group, order in enumerate(orders)])

    def read(self, group: int) -> Values | None:
        """Returns the factor of a group."""
        factor = self.factors[group]
        return None if factor is None else factor.read()[0]

    def of_least_error(self, target: Values, weights: Values) -> Values:
        """Returns ``T G^-1``, the float weights that leave the least error, ``[g, m, k]``.

        Args:
            target: ``T`` of each group (`quarkfast.algorithms.rounding.problem.RoundingProblem`).
            weights: What stays where ``G`` has no inverse.

        Example:
            >>> import numpy as np
            >>> factors = InverseFactors.of(SetAside(np.array([[[2.0, 1.0], [1.0, 1.0]]])), act_order=True)
            >>> factors.of_least_error(np.array([[[7.0, 4.0]]]), np.zeros((1, 1, 2))).round(9).tolist()
            [[[3.0, 1.0]]]
        """
        found = weights.copy()
        for group, order in enumerate(self.orders):
            factor = self.read(group)
            if factor is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    found[group][:, order] = (target[group][:, order] @ factor.T) @ factor
        return np.where(np.isfinite(found), found, weights)


def _factor(gram: SetAside, group: int, order: NDArray[np.int64]) -> SetAside | None:
    try:
        return SetAside(_inverted(gram.permuted(group, order[::-1]))[None])
    except np.linalg.LinAlgError:
        return None


def inverse_factor(gram: Values, order: NDArray[np.int64]) -> Values:
    """Returns the upper triangular `U` with ``U^T U = G^-1``, rows and columns of `G` in an order.

    In the order turned round ``G = L L^T`` has the lower triangular factor whose inverse, turned round again, is `U`.

    Raises:
        LinAlgError: If ``G`` is not positive definite.
    """
    turned = order[::-1]
    return _inverted(np.ascontiguousarray(gram[np.ix_(turned, turned)]))


def _inverted(turned: Values) -> Values:
    """Returns the factor of the inverse in the place of a matrix that is turned round."""
    factor_in_place(turned)
    invert_lower(turned)
    # Reverses an array in place.
    values = turned.reshape(-1)
    size = len(values)
    for begin in range(0, size // 2, _TURNED):
        end = min(begin + _TURNED, size // 2)
        first = values[begin:end].copy()
        values[begin:end] = values[size - end : size - begin][::-1]
        values[size - end : size - begin] = first[::-1]
    return turned


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
