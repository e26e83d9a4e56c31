"""Weights in the layout of onnxruntime's MatMulNBits: two 4-bit codes a byte, column after column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import shape_of
from quarkfast.graph.pieces import PIECE_BYTES, element_pieces
from quarkfast.graph.streams import Append, Output, Stream
from quarkfast.weights.codes import codes_of, grouped
from quarkfast.weights.layout import Layout

__all__ = ["nbits_stream"]

# Columns are put next to each other in memory before they are written; that many bytes of them at a time.
_SLAB_BYTES = 4 * PIECE_BYTES
_UINT4 = "uint4"

# Columns that are transposed at once. 1024 bytes of each of 2048 columns take 15.0 ms, 4.4 ms by 512; of all of a model
# of 2.5 GB the process takes 2.9 s in place of 3.4.
_TRANSPOSED = 512


def nbits_stream(tensor: ir.TensorProtocol, name: str, spec: TensorSpec, *, transposed: bool) -> Stream:
    """Returns the inputs B, scales and (if asymmetric) zero_points of MatMulNBits for a weight of K rows and N columns.

    Args:
        tensor: ``[K, N]``, or ``[N, K]`` if `transposed`; float32, float16 or bfloat16, not empty.
        name: Stem of the new names.
        spec: Group size and symmetry. Without zero points the operator takes 8.
        transposed: Whether rows of the tensor are columns of the product.

    Source:
        onnxruntime, docs/ContribOperators.md, com.microsoft.MatMulNBits; `quarkfast.kernels.pack_matmul_nbits` is the
        same for a weight in memory.
    """
    n, k = shape_of(tensor) if transposed else shape_of(tensor)[::-1]
    blocks = -(-k // spec.group_size)
    unsigned = TensorSpec(_UINT4, spec.symmetric, "group", group_size=spec.group_size)

    def run(append: Append) -> None:
        for weight, scale, zero in (_rows if transposed else _columns)(tensor, n, k, unsigned, name):
            append(0, weight)
            append(1, scale)
            if not spec.symmetric:
                append(2, _packed_rows(zero))

    byte = ir.DataType.UINT8
    outputs = (
        Output(f"{name}_nbits", byte, (n, blocks, spec.group_size // 2)),
        Output(f"{name}_scale", tensor.dtype, (n * blocks,)),
        Output(f"{name}_zero_point", byte, (n * (-(-blocks // 2)),)),
    )
    return Stream(outputs[:2] if spec.symmetric else outputs, run)


def _columns(tensor: ir.TensorProtocol, n: int, k: int, spec: TensorSpec, name: str) -> Any:
    """Yields weight, scales and zero points of a few columns of ``[K, N]`` at a time."""
    size = spec.group_size
    blocks = -(-k // size)
    step = max(_SLAB_BYTES // (blocks * size // 2), 1)
    layout = Layout(tensor, 1, k, n)
    for first in range(0, n, step):
        columns = slice(first, min(first + step, n))
        width = columns.stop - first
        weight = np.empty((width, blocks * size // 2), np.uint8)
        scale, zero = np.empty((width, blocks), layout.dtype), np.empty((width, blocks), np.uint8)
        row = 0
        for piece in layout.pieces(size):
            part = piece[:, :, columns]
            codes, found_scale, found_zero = _quantized(part, spec, name)
            at, block = row * size // 2, row
            row += found_scale.shape[0]
            _transpose(codes[0::2] | codes[1::2] << 4, weight[:, at : row * size // 2])
            scale[:, block:row], zero[:, block:row] = found_scale.T, found_zero.T
        yield weight, scale, zero


def _transpose(rows: NDArray[Any], columns: NDArray[Any]) -> None:
    """Writes ``rows.T`` to `columns`, some at a time: 1024 rows of 2048 lie in the same few lines of a cache."""
    for first in range(0, len(columns), _TRANSPOSED):
        part = slice(first, first + _TRANSPOSED)
        columns[part] = np.ascontiguousarray(rows[:, part]).T


def _rows(tensor: ir.TensorProtocol, n: int, k: int, spec: TensorSpec, name: str) -> Any:
    """Yields weight, scales and zero points of a few rows of ``[N, K]`` at a time."""
    layout = Layout(tensor, n, k, 1)
    spans = layout.outer_spans()
    flat = element_pieces(tensor, [(first * k, last * k) for first, last in spans])
    for (first, last), piece in zip(spans, flat, strict=True):
        codes, scale, zero = _quantized(piece.reshape(last - first, k).T[None], spec, name)
        yield np.ascontiguousarray((codes[0::2] | codes[1::2] << 4).T), scale.T, zero.T


def _quantized(
    part: NDArray[Any], spec: TensorSpec, name: str
) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.uint8]]:
    """Returns codes ``[blocks * size, n]`` (zero points behind row K), scales and zero points of ``[1, K, n]``."""
    size = spec.group_size
    part = np.ascontiguousarray(part)
    found = grouped(part, spec, name)
    zero = found.zero_point[0].astype(np.uint8)
    codes = codes_of(part[0], found.scale[0], zero, _UINT4, 0, size).view(np.uint8)
    missing = zero.shape[0] * size - codes.shape[0]
    if missing:
        codes = np.concatenate([codes, np.repeat(zero[-1:], missing, axis=0)])
    return codes, found.scale[0], zero


def _packed_rows(zero: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Packs each row of zero points apart, filled with a zero to whole bytes."""
    even = np.pad(zero, ((0, 0), (0, zero.shape[1] % 2)))
    return np.asarray(even[:, 0::2] | even[:, 1::2] << 4, np.uint8)
