"""Layout of stored weights: contiguous pieces along one axis that do not cut a group, and casts of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import shape_of
from quarkfast.graph.chunked_io import PIECE_BYTES, Append, Output, Stream, element_pieces

__all__ = ["StoredLayout", "cast_stream", "cast_values"]

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StoredLayout:
    """A constant as ``[outer, length, inner]``, where `length` runs along the axis of interest.

    Attributes:
        tensor: The constant: float32, float16 or bfloat16.
        outer: Product of the dimensions before the axis.
        length: The dimension of the axis.
        inner: Product of the dimensions behind it.
    """

    tensor: ir.TensorProtocol
    outer: int
    length: int
    inner: int

    @classmethod
    def along(cls, tensor: ir.TensorProtocol, axis: int) -> StoredLayout:
        """Looks at `tensor` along `axis`."""
        shape = shape_of(tensor)
        return cls(tensor, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))

    @classmethod
    def flat(cls, tensor: ir.TensorProtocol) -> StoredLayout:
        """Looks at `tensor` as one row."""
        return cls(tensor, math.prod(shape_of(tensor)), 1, 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.tensor.dtype.numpy()

    def outer_spans(self) -> list[Span]:
        """Cuts the outer dimension so that a piece has about `PIECE_BYTES`, at least one index."""
        return _cut(self.outer, 1, self._room // max(self.length * self.inner, 1))

    def length_spans(self, multiple: int = 1) -> list[Span]:
        """Cuts the axis into multiples of `multiple`, about `PIECE_BYTES` of one outer index each."""
        return _cut(self.length, multiple, self._room // max(self.inner, 1))

    def pieces(self, multiple: int) -> Iterator[NDArray[Any]]:
        """Yields all elements in order as ``[outer indices, rows, inner]``; only one outer index is cut in its rows.

        What was laid out flat comes as ``[1, 1, elements]``.
        """
        outer, rows = self.outer_spans(), [(0, self.length)]
        if len(outer) == self.outer:
            rows = self.length_spans(multiple)
        spans = [(first, last, *span) for first, last in outer for span in rows]
        plane = self.length * self.inner
        flat = ((a * plane + c * self.inner, (b - 1) * plane + d * self.inner) for a, b, c, d in spans)
        for (a, b, c, d), piece in zip(spans, element_pieces(self.tensor, flat), strict=True):
            yield piece.reshape((1, 1, b - a) if self.length == self.inner == 1 else (b - a, d - c, self.inner))

    @property
    def _room(self) -> int:
        return PIECE_BYTES // self.dtype.itemsize


def _cut(size: int, multiple: int, room: int) -> list[Span]:
    step = max(room // multiple, 1) * multiple
    return list(pairwise([*range(0, size, step), size]))


def cast_stream(tensor: ir.TensorProtocol, name: str, dtype: str, notes: list[str]) -> Stream:
    """Returns `tensor` rounded half to even to a 16-bit float.

    Infinities stay; finite values that would become infinite take the largest finite value, and a note says how many,
    so that a mask of -3.4e38 does not become one of minus infinity.

    Args:
        tensor: float32, not empty.
        name: Stem of the new name.
        dtype: float16 or bfloat16.
        notes: Gets the note when the stream is run.
    """
    row = qtype(dtype)

    def run(append: Append) -> None:
        saturated = 0
        for piece in StoredLayout.flat(tensor).pieces(1):
            found = kernels.reduce_range(piece)
            if found.nan:
                raise ModelError(f"tensor {name!r}: expected numbers, got NaN in {found.nan} of {found.count} values")
            values = piece
            if found.max > row.qmax or found.min < row.qmin:
                beyond = np.isfinite(piece) & (np.abs(piece) > row.qmax)
                saturated += int(beyond.sum())
                values = np.where(beyond, np.clip(piece, row.qmin, row.qmax), piece).astype(np.float32)
            append(0, kernels.cast(values, row.dtype))
        if saturated:
            notes.append(f"tensor {name!r}: {saturated} values beyond {dtype} became {row.qmax:g} or {row.qmin:g}")

    return Stream((Output(f"{name}_{dtype}", ir.DataType(row.onnx), shape_of(tensor)),), run)


def cast_values(values: NDArray[np.float32], dtype: str) -> NDArray[np.float32]:
    """Returns what :func:`cast_stream` stores of finite numbers, in float32."""
    row = qtype(dtype)
    return np.clip(values, row.qmin, row.qmax).astype(row.dtype).astype(np.float32)
