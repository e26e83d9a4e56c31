"""Triangular factors of the inverses of Gram matrices, which error feedback goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.cholesky import factor_in_place, invert_lower
from quarkfast.reconstruction.set_aside import SetAside

__all__ = ["InverseFactors", "inverse_factor"]

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
    _turn_round(turned.reshape(-1))
    return turned


def _turn_round(values: Values) -> None:
    """Reverses an array in place."""
    size = len(values)
    for begin in range(0, size // 2, _TURNED):
        end = min(begin + _TURNED, size // 2)
        first = values[begin:end].copy()
        values[begin:end] = values[size - end : size - begin][::-1]
        values[size - end : size - begin] = first[::-1]
