"""Spilled matrices: large ones lie in a file while nobody works with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.evaluate.activation_store import ActivationStore

__all__ = ["LARGE", "SetAside"]

Values = NDArray[np.float64]

LARGE = 8 << 20
"""Bytes of matrices with which memory matters more than the time to write and read them: 0.1 s of 66 MB."""

# Rows that are written and read at once.
_ROWS = 128


class SetAside:
    """Square matrices, in a file if they are large: they take memory as long as somebody holds what was read.

    Attributes:
        diagonals: Their diagonals, ``[g, k]``.

    Example:
        >>> aside = SetAside(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
        >>> aside.read().tolist(), aside.permuted(0, np.array([1, 0])).tolist(), aside.diagonals.tolist()
        ([[[1.0, 2.0], [3.0, 4.0]]], [[4.0, 3.0], [2.0, 1.0]], [[1.0, 4.0]])
    """

    def __init__(self, matrices: Values) -> None:
        """Takes matrices ``[g, k, k]``; large ones are written."""
        self.diagonals = np.diagonal(matrices, axis1=1, axis2=2).copy()
        self._shape = matrices.shape
        self._held = matrices if matrices.nbytes <= LARGE else None
        self._store = ActivationStore(0)
        if self._held is None:
            for rows in self._rows():
                for group, own in enumerate(matrices):
                    self._store.put(str(rows.start), group, own[rows])

    @property
    def is_large(self) -> bool:
        """Whether they are in a file."""
        return self._held is None

    def read(self) -> Values:
        """Returns the matrices."""
        if self._held is not None:
            return self._held
        found = np.empty(self._shape)
        for rows in self._rows():
            for group, own in enumerate(found):
                own[rows] = self._store.get(str(rows.start), group)
        return found

    def permuted(self, group: int, order: NDArray[np.int64]) -> Values:
        """Returns a copy of a matrix with rows and columns in an order, ``[k, k]``."""
        if self._held is not None:
            return np.ascontiguousarray(self._held[group][np.ix_(order, order)])
        found = np.empty(self._shape[1:])
        for rows in self._rows():
            places = np.flatnonzero((order >= rows.start) & (order < rows.stop))
            own = self._store.get(str(rows.start), group)
            found[places] = own[np.ix_(order[places] - rows.start, order)]
        return found

    def _rows(self) -> list[slice]:
        return [slice(begin, begin + _ROWS) for begin in range(0, self._shape[1], _ROWS)]
