"""The rounding problem: a quadratic form in the codes of a layer, which solvers are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.error_feedback import InverseFactors
from quarkfast.reconstruction.set_aside import SetAside

__all__ = ["RoundingProblem", "Solver", "better_rows"]

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoundingProblem:
    """The squared error of what a layer computes, as a form in the codes of its weight.

    Each of its `g` groups has `m` outputs that are sums over `k` inputs. With ``W^`` the weights of a group that codes
    stand for, the error is ``tr(W^ G W^T) - 2 tr(W^ T^T)`` and a constant.

    Attributes:
        codes: The codes nearest to the weights, integers ``[g, m, k]``.
        decoded: The weights that these stand for, ``[g, m, k]``.
        weights: The float weights of least error, ``T G^-1``, ``[g, m, k]``.
        scales: One for each row, ``[g, m]``, or one for each weight, ``[g, m, k]``; perhaps below zero, never zero.
        form: ``G``, ``[g, k, k]``, symmetric; in a file, if it is large.
        target: ``T``, ``[g, m, k]``: float weights times the product of the input to match and the input there is.
        lowest: Lowest code.
        highest: Highest code.
        factors: Those of the inverses of ``G``, inputs from the largest mean square down, if they are known.

    Example:
        >>> import numpy as np
        >>> one, two = np.ones((1, 1, 1)), np.full((1, 1, 1), 2.0)
        >>> problem = RoundingProblem(np.int8([[[1]]]), one, two, np.ones((1, 1)), SetAside(one), two, -8, 7)
        >>> problem.errors(np.int8([[[1]]])).tolist(), problem.errors(np.int8([[[2]]])).tolist()
        ([[-3.0]], [[-4.0]])
    """

    codes: NDArray[Any]
    decoded: Values
    weights: Values
    scales: Values
    form: SetAside
    target: Values
    lowest: int
    highest: int
    factors: InverseFactors | None = None

    @property
    def steps(self) -> Values:
        """The scales as ``[g, m, 1]`` or ``[g, m, k]``."""
        return self.scales if self.scales.ndim == 3 else self.scales[..., None]

    def values_of(self, codes: NDArray[Any]) -> Values:
        """Returns the weights that codes stand for."""
        moved: Values = self.decoded + (codes.astype(np.float64) - self.codes) * self.steps
        return moved

    def with_codes(self, codes: NDArray[Any]) -> RoundingProblem:
        """Returns the problem with other codes to begin at."""
        return replace(self, codes=codes, decoded=self.values_of(codes))

    @property
    def gram(self) -> Values:
        """``G``, read where it is in a file: who needs it more than once holds it."""
        return self.form.read()

    def part(self, group: int, rows: slice) -> RoundingProblem:
        """Returns the problem of some rows of one group, which the others do not enter; its form is of all groups."""
        own = slice(group, group + 1)
        arrays = {name: getattr(self, name)[own, rows] for name in ("codes", "decoded", "weights", "scales", "target")}
        return replace(self, factors=None, **arrays)

    def positions(self) -> Values:
        """Returns the float weights in steps of the codes, zero point included, within the limits of the codes."""
        exact = self.codes + (self.weights - self.decoded) / self.steps
        limited: Values = np.clip(exact, self.lowest, self.highest)
        return limited

    def limits_near(self, distance: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the lowest and the highest code of each weight that lie no further from it than `distance` steps.

        The code that it has lies between them in any case.
        """
        positions = self.positions()
        low = np.minimum(np.ceil(positions - distance), self.codes).astype(np.int64)
        high = np.maximum(np.floor(positions + distance), self.codes).astype(np.int64)
        return np.maximum(low, self.lowest), np.minimum(high, self.highest)

    def half_gradient(self, values: Values) -> Values:
        """Returns half of the derivative of the error by the weights, ``W^ G - T``."""
        slope: Values = values @ self.gram - self.target
        return slope

    def errors(self, codes: NDArray[Any]) -> Values:
        """Returns the error of each row, less the constant, ``[g, m]``."""
        values = self.values_of(codes)
        found: Values = np.einsum("gmk,gmk->gm", values, self.half_gradient(values) - self.target)
        return found


class Solver(Protocol):
    """A frozen dataclass of settings."""

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns codes like those of `problem`, none of whose rows has a larger error than the nearest codes."""


def better_rows(problem: RoundingProblem, codes: NDArray[Any]) -> NDArray[Any]:
    """Returns `codes`, but the nearest ones in rows whose error these make no smaller."""
    better = problem.errors(codes) < problem.errors(problem.codes)
    return np.where(better[..., None], codes, problem.codes).astype(problem.codes.dtype)
