"""Constants as 16-bit floats, made piece by piece."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import shape_of
from quarkfast.graph.chunked_io import Append, Output, Stream
from quarkfast.quantization.weight_only.layout import StoredLayout

__all__ = ["cast_stream", "cast_values"]


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
