"""Gram matrices of what a layer multiplies, in its float form and as the quantized model has it."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from numpy.typing import NDArray

__all__ = ["GramMatrices", "fixed_point_step"]

Values = NDArray[np.float64]

# Inputs are rounded to this many bits and a sign, 96 dB below the largest. Products of two have 30 bits, so that sums
# of up to 2^23 of them are exact in a double: the same in whatever order BLAS adds them.
_BITS = 15

# Rows of a matrix that are added to at once, so that no second one of its size is in memory.
_BLOCK = 512


def fixed_point_step(largest: float) -> float:
    """Returns the power of two in which inputs of at most that magnitude are counted.

    Example:
        >>> fixed_point_step(1.0) == 2.0**-15, fixed_point_step(0.0)
        (True, 1.0)
    """
    return float(2.0 ** (np.ceil(np.log2(largest)) - _BITS)) if 0 < largest < np.inf else 1.0


class GramMatrices:
    """Means of ``x^ x^T``, ``x x^T``-like products and inputs over rows of a layer's input.

    With `x` the input of the float model and `x^` that of the quantized one, both columns of `k` numbers, and
    ``E`` the mean over rows: `gram` is ``E[x^ x^T]`` of the quantized input alone, `cross` is ``E[x x^T]`` of both.

    Attributes:
        count: Number of rows so far.

    Example:
        >>> import numpy as np
        >>> found = GramMatrices(1, 2, 0.5)
        >>> found.add(np.array([[[1.0, 2.0], [3.0, 0.0]]]))
        >>> found.gram.tolist(), found.mean.tolist()
        ([[[5.0, 1.0], [1.0, 2.0]]], [[2.0, 1.0]])
    """

    def __init__(self, groups: int, inputs: int, step: float, float_step: float | None = None) -> None:
        """Begins with no rows.

        Args:
            groups: Number of groups of the layer.
            inputs: Numbers in a row.
            step: What inputs of the quantized model are counted in (:func:`fixed_point_step`).
            float_step: The same of the float model; None where only the quantized one is looked at.
        """
        self.count = 0
        self._step, self._float_step = step, float_step
        self._gram = np.zeros((groups, inputs, inputs))
        self._sum = np.zeros((groups, inputs))
        both = float_step is not None
        self._cross = np.zeros((groups, inputs, inputs)) if both else self._gram
        self._float_sum = np.zeros((groups, inputs)) if both else self._sum

    def add(self, rows: NDArray[np.floating], float_rows: NDArray[np.floating] | None = None) -> None:
        """Adds rows ``[groups, n, k]`` of the quantized model, and those of the float model that belong to them."""
        codes = _counted(rows, self._step)
        self.count += codes.shape[1]
        _add_products(self._gram, codes, codes)
        self._sum += codes.sum(axis=1)
        if float_rows is not None and self._float_step is not None:
            floats = _counted(float_rows, self._float_step)
            _add_products(self._cross, floats, codes)
            self._float_sum += floats.sum(axis=1)

    def copy(self) -> GramMatrices:
        """Returns matrices of the same rows, to which others may be added."""
        return deepcopy(self)

    def without(self, some: GramMatrices) -> GramMatrices:
        """Returns the matrices of the rows that are not among `some` of these, exactly."""
        groups, inputs = self._sum.shape
        found = GramMatrices(groups, inputs, self._step, self._float_step)
        found.count = self.count - some.count
        for name in ("_gram", "_sum", "_cross", "_float_sum"):
            np.subtract(getattr(self, name), getattr(some, name), out=getattr(found, name))
        return found

    @property
    def gram(self) -> Values:
        """``E[x^ x^T]``, ``[groups, k, k]``, symmetric."""
        return self._gram * (self._step * self._step / max(self.count, 1))

    @property
    def cross(self) -> Values:
        """``E[x x^T]``: rows belong to the float input, columns to the quantized one."""
        step = self._step if self._float_step is None else self._float_step
        return self._cross * (step * self._step / max(self.count, 1))

    @property
    def mean(self) -> Values:
        """``E[x^]``, ``[groups, k]``."""
        return self._sum * (self._step / max(self.count, 1))

    @property
    def float_mean(self) -> Values:
        """``E[x]``, ``[groups, k]``."""
        step = self._step if self._float_step is None else self._float_step
        return self._float_sum * (step / max(self.count, 1))


def _counted(rows: NDArray[np.floating], step: float) -> Values:
    codes = rows / rows.dtype.type(step)
    return np.rint(codes, out=codes).astype(np.float64)


def _add_products(sums: Values, first: Values, second: Values) -> None:
    """Adds ``first^T second`` of each group, of large ones by blocks of rows; sums are exact in any.

    Where both are one array, the half of it that lies on and above the diagonal is computed.
    """
    inputs = first.shape[-1]
    if inputs <= _BLOCK:
        sums += first.transpose(0, 2, 1) @ second
        return
    for total, one, other in zip(sums, first, second, strict=True):
        for begin in range(0, inputs, _BLOCK):
            rows, behind = slice(begin, begin + _BLOCK), slice(begin if first is second else 0, None)
            total[rows, behind] += one[:, rows].T @ other[:, behind]
            if first is second:
                total[behind, rows] = total[rows, behind].T
