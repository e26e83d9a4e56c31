"""Gram matrices of what a layer multiplies, in its float form and as the quantized model has it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from quarkfast.evaluate.activation_store import ActivationStore
from quarkfast.reconstruction.set_aside import LARGE

__all__ = ["GramMatrices", "counted", "fixed_point_step"]

Values = NDArray[np.float64]

# Inputs are rounded to this many bits and a sign, 96 dB below the largest. Products of two have 30 bits, so that sums
# of up to 2^23 of them are exact in a double: the same in whatever order BLAS adds them.
_BITS = 15

# Bits of weights, and of what they make of an input: products of the first, summed over up to 2^16 inputs, and products
# of the second, summed over up to 2^16 rows, are exact too.
_WEIGHT_BITS, _OUTPUT_BITS = 22, 22

# Rows of a matrix that are added to at once, so that no second one of its size is in memory. Of a symmetric one each
# block begins at the diagonal: of many inputs half of it is there.
_BLOCK = 256

# Numbers in rows of several groups that are counted at once, whose copies in float64 take four times as much.
_AT_ONCE = 1 << 15

# Rows that are written and read at once.
_ROWS = 128


def fixed_point_step(largest: float) -> float:
    """Returns the power of two in which inputs of at most that magnitude are counted.

    Example:
        >>> fixed_point_step(1.0) == 2.0**-15, fixed_point_step(0.0)
        (True, 1.0)
    """
    return float(2.0 ** (np.ceil(np.log2(largest)) - _BITS)) if 0 < largest < np.inf else 1.0


def counted(rows: NDArray[np.floating], step: float) -> Values:
    """Returns rows in whole steps, rounded half to even."""
    codes = rows / rows.dtype.type(step)
    return np.rint(codes, out=codes).astype(np.float64)


class GramMatrices:
    """Means over rows of a layer's input of what its weights are chosen by.

    With `W` the float weights, ``x^`` the input of the quantized model and `d` what it lacks to that of the float
    model, columns of `k` numbers, and ``E`` the mean over rows: `gram` is ``E[x^ x^T]``, `missing` ``W E[d x^T]``.

    Attributes:
        weights: The float weights, ``[groups, m, k]``.
        count: Number of rows so far.

    Example:
        >>> import numpy as np
        >>> found = GramMatrices(np.array([[[1.0, -1.0]]]), 0.5, 0.25)
        >>> found.add(np.array([[[1.0, 2.0], [3.0, 0.0]]]), np.array([[[0.25, 0.0], [0.0, 0.5]]]))
        >>> found.gram.tolist(), found.missing.tolist()
        ([[[5.0, 1.0], [1.0, 2.0]]], [[[-0.625, 0.25]]])
    """

    def __init__(self, weights: NDArray[np.floating], step: float, missing_step: float | None = None) -> None:
        """Begins with no rows.

        Args:
            weights: The float weights, ``[groups, m, k]``.
            step: What inputs of the quantized model are counted in (:func:`fixed_point_step`).
            missing_step: The same of what they lack to those of the float model; None where that is not looked at.
        """
        self.weights = np.asarray(weights, np.float64)
        _, outputs, inputs = self.weights.shape
        self._step, self._missing_step = step, missing_step
        # What few outputs lack is multiplied instead of what many inputs do.
        self._outputs = _Outputs(self.weights) if 2 * outputs <= inputs else None
        self._begin()

    def _begin(self) -> None:
        groups, outputs, inputs = self.weights.shape
        self.count = 0
        self._gram = _SymmetricSums(groups, inputs)
        self._sum = np.zeros((groups, inputs))
        self._missing_sum = np.zeros((groups, inputs))
        rows = 0 if self._missing_step is None else outputs if self._outputs else inputs
        self._missing = np.zeros((groups, rows, inputs))

    def add(self, rows: NDArray[np.floating], missing: NDArray[np.floating] | None = None) -> None:
        """Adds rows ``[groups, n, k]`` of the quantized model, and what each lacks to that of the float model."""
        groups, count, inputs = rows.shape
        self.count += count
        at_once = max(1, _AT_ONCE // max(count * inputs, 1))
        for begin in range(0, groups, at_once):
            part = slice(begin, begin + at_once)
            codes = counted(rows[part], self._step)
            self._gram.add(codes, part)
            self._sum[part] += codes.sum(axis=1)
            if missing is not None and self._missing_step is not None:
                lacking = counted(missing[part], self._missing_step)
                self._missing_sum[part] += lacking.sum(axis=1)
                _add_products(self._missing[part], self._outputs.of(lacking, part) if self._outputs else lacking, codes)

    def without_rows(self) -> GramMatrices:
        """Returns matrices of no rows, which share the weights with these."""
        found = copy(self)
        found._begin()
        return found

    @property
    def is_large(self) -> bool:
        """Whether copies of `gram` count."""
        groups, _, inputs = self.weights.shape
        return bool(groups * inputs * inputs * self.weights.itemsize > LARGE)

    def set_aside(self) -> None:
        """Puts `gram` into a file until it is asked for, if it is large; no more rows can be added then."""
        if self.is_large:
            self._gram.set_aside()

    def merge(self, other: GramMatrices) -> None:
        """Adds the rows of matrices with the same weights and steps, exactly; both lie in files, or neither does."""
        self.count += other.count
        self._gram.merge(other._gram)
        for mine, theirs in zip(self._sums(), other._sums(), strict=True):
            mine += theirs

    def _sums(self) -> tuple[Values, ...]:
        return self._sum, self._missing, self._missing_sum

    @property
    def gram(self) -> Values:
        """``E[x^ x^T]``, ``[groups, k, k]``, symmetric."""
        return self._gram.times(self._step * self._step / max(self.count, 1))

    @property
    def missing(self) -> Values:
        """``W E[d x^T]``, ``[groups, m, k]``."""
        if self._missing_step is None:
            return np.zeros_like(self.weights)
        scale = self._missing_step * self._step / max(self.count, 1)
        if self._outputs is None:
            return self.weights @ (self._missing * scale)
        return self._missing * (self._outputs.steps * scale)

    @property
    def mean(self) -> Values:
        """``E[x^]``, ``[groups, k]``."""
        return self._sum * (self._step / max(self.count, 1))

    @property
    def missing_mean(self) -> Values:
        """``E[d]``, ``[groups, k]``."""
        return self._missing_sum * ((self._missing_step or 0.0) / max(self.count, 1))


class _SymmetricSums:
    """Sums of products of inputs, ``[groups, k, k]``: of each block of rows what is at the diagonal and behind it."""

    def __init__(self, groups: int, inputs: int) -> None:
        self._begins, self._shape = range(0, inputs, _BLOCK), (groups, inputs, inputs)
        self._blocks = [np.zeros((groups, min(_BLOCK, inputs - begin), inputs - begin)) for begin in self._begins]
        self._aside: list[ActivationStore] = []

    def add(self, codes: Values, groups: slice) -> None:
        for begin, block in zip(self._begins, self._blocks, strict=True):
            block[groups] += codes[..., begin : begin + _BLOCK].transpose(0, 2, 1) @ codes[..., begin:]

    def set_aside(self) -> None:
        store = ActivationStore(0)
        for rows, _, part in self._parts():
            store.put("", rows.start, part)
        self._aside.append(store)
        self._blocks.clear()

    def merge(self, other: _SymmetricSums) -> None:
        for mine, theirs in zip(self._blocks, other._blocks, strict=True):
            mine += theirs
        self._aside += other._aside

    def times(self, scale: float) -> Values:
        """Returns the whole matrices, multiplied by a number."""
        if len(self._begins) == 1 and self._blocks:
            return self._blocks[0] * scale
        whole = np.empty(self._shape)
        for rows, begin, part in self._parts():
            np.multiply(part, scale, out=whole[:, rows, begin:])
            whole[:, begin:, rows] = whole[:, rows, begin:].transpose(0, 2, 1)
        return whole

    def _parts(self) -> Iterator[tuple[slice, int, Values]]:
        """Yields rows, the column at which they begin, and their sums, which are read if they are in files."""
        for block, begin in enumerate(self._begins):
            for first in range(begin, min(begin + _BLOCK, self._shape[-1]), _ROWS):
                rows = slice(first, min(first + _ROWS, begin + _BLOCK))
                if self._blocks:
                    yield rows, begin, self._blocks[block][:, first - begin : first - begin + _ROWS]
                    continue
                found: Values = self._aside[0].get("", first)
                for store in self._aside[1:]:
                    found += store.get("", first)
                yield rows, begin, found


class _Outputs:
    """What weights make of counted inputs, in whole numbers.

    Attributes:
        steps: What outputs are counted in, beside the step of the inputs, ``[groups, m, 1]``.
    """

    def __init__(self, weights: Values) -> None:
        largest = np.abs(weights).max(axis=-1, keepdims=True)
        steps = _powers_of_two(largest) * 2.0**-_WEIGHT_BITS
        self._codes = np.rint(weights / steps)
        # Of no output is the magnitude above the sum of those of its weights times that of the largest input.
        self._shift = _powers_of_two(np.abs(self._codes).sum(axis=-1, keepdims=True)) * 2.0 ** (_BITS - _OUTPUT_BITS)
        self.steps = steps * self._shift

    def of(self, codes: Values, groups: slice) -> Values:
        found = codes @ self._codes[groups].transpose(0, 2, 1)
        found /= self._shift[groups].transpose(0, 2, 1)
        return np.rint(found, out=found)


def _powers_of_two(values: Values) -> Values:
    """Returns for each number above zero the least power of two that is no smaller, for others 1."""
    mantissas, exponents = np.frexp(values)
    return np.where(values > 0, np.ldexp(1.0, exponents - (mantissas == 0.5)), 1.0)


def _add_products(sums: Values, first: Values, second: Values) -> None:
    """Adds ``first^T second`` of each group, of large ones by blocks of rows; sums are exact in any."""
    for begin in range(0, first.shape[-1], _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        sums[:, rows] += first[..., rows].transpose(0, 2, 1) @ second
