"""Weights in the layout of onnxruntime's MatMulNBits: codes of 4 or 8 bits, column after column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import shape_of
from quarkfast.graph.chunked_io import PIECE_BYTES, Append, Output, Stream, element_pieces
from quarkfast.quantization.weight_only.codes import codes_of, grouped
from quarkfast.quantization.weight_only.layout import StoredLayout

__all__ = ["nbits_stream"]

# Columns are put next to each other in memory before they are written; that many bytes of them at a time.
_SLAB_BYTES = 4 * PIECE_BYTES


def nbits_stream(tensor: ir.TensorProtocol, name: str, spec: TensorSpec, *, transposed: bool) -> Stream:
    """Returns the inputs B, scales and (if asymmetric) zero_points of MatMulNBits for a weight of K rows and N columns.

    Args:
        tensor: ``[K, N]``, or ``[N, K]`` if `transposed`; float32, float16 or bfloat16, not empty.
        name: Stem of the new names.
        spec: A type of 4 or 8 bits, group size and symmetry. Without zero points the operator takes the middle code.
        transposed: Whether rows of the tensor are columns of the product.

    Source:
        onnxruntime, docs/ContribOperators.md, com.microsoft.MatMulNBits; `quarkfast.kernels.pack_matmul_nbits` is the
        same for a weight in memory.
    """
    n, k = shape_of(tensor) if transposed else shape_of(tensor)[::-1]
    blocks = -(-k // spec.group_size)
    bits = int(spec.format.bits)
    unsigned = TensorSpec(f"uint{bits}", spec.symmetric, "group", group_size=spec.group_size)

    def run(append: Append) -> None:
        for weight, scale, zero in (_rows if transposed else _columns)(tensor, n, k, unsigned, name):
            append(0, weight)
            append(1, scale)
            if not spec.symmetric:
                append(2, _packed_rows(zero) if bits == 4 else zero)

    byte = ir.DataType.UINT8
    outputs = (
        Output(f"{name}_nbits", byte, (n, blocks, spec.group_size * bits // 8)),
        Output(f"{name}_scale", tensor.dtype, (n * blocks,)),
        Output(f"{name}_zero_point", byte, (n * (-(-blocks * bits // 8)),)),
    )
    return Stream(outputs[:2] if spec.symmetric else outputs, run)


def _columns(tensor: ir.TensorProtocol, n: int, k: int, spec: TensorSpec, name: str) -> Any:
    """Yields weight, scales and zero points of a few columns of ``[K, N]`` at a time."""
    size = spec.group_size
    blocks = -(-k // size)
    bits = int(spec.format.bits)
    row_bytes = blocks * size * bits // 8
    step = max(_SLAB_BYTES // row_bytes, 1)
    layout = StoredLayout(tensor, 1, k, n)
    for first in range(0, n, step):
        columns = slice(first, min(first + step, n))
        width = columns.stop - first
        weight = np.empty((width, row_bytes), np.uint8)
        scale, zero = np.empty((width, blocks), layout.dtype), np.empty((width, blocks), np.uint8)
        row = 0
        for piece in layout.pieces(size):
            part = piece[:, :, columns]
            codes, found_scale, found_zero = _quantized(np.ascontiguousarray(part), spec, name)
            block, row = row, row + found_scale.shape[1]
            slab = weight[:, block * size * bits // 8 : row * size * bits // 8]
            if bits == 4:
                kernels.pack_columns(codes[0], out=slab)
            else:
                slab[:] = codes[0].T
            scale[:, block:row], zero[:, block:row] = found_scale[0].T, found_zero[0].T
        yield weight, scale, zero


def _rows(tensor: ir.TensorProtocol, n: int, k: int, spec: TensorSpec, name: str) -> Any:
    """Yields weight, scales and zero points of a few rows of ``[N, K]`` at a time."""
    layout = StoredLayout(tensor, n, k, 1)
    spans = layout.outer_spans()
    flat = element_pieces(tensor, [(first * k, last * k) for first, last in spans])
    for (first, last), piece in zip(spans, flat, strict=True):
        codes, scale, zero = _quantized(piece.reshape(last - first, k, 1), spec, name)
        yield codes if spec.format.bits == 8 else kernels.pack_codes(codes), scale, zero[..., 0]


def _quantized(part: NDArray[Any], spec: TensorSpec, name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]:
    """Returns codes ``[outer, blocks * size, inner]`` of ``[outer, rows, inner]``, with scales and zero points.

    Codes behind the last row are the zero points.
    """
    size = spec.group_size
    found = grouped(part, spec, name)
    zero = found.zero_point.astype(np.uint8)
    codes = codes_of(part, found.scale, zero, spec.dtype, size)
    missing = zero.shape[1] * size - codes.shape[1]
    if missing:
        codes = np.concatenate([codes, np.repeat(zero[:, -1:], missing, axis=1).astype(codes.dtype)], axis=1)
    return codes, found.scale, zero


def _packed_rows(zero: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Packs each row of zero points apart, filled with a zero to whole bytes."""
    even = np.pad(zero, ((0, 0), (0, zero.shape[1] % 2)))
    return np.asarray(even[:, 0::2] | even[:, 1::2] << 4, np.uint8)
