"""Weights as integer codes with scales, made piece by piece: per channel, and per group along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import shape_of
from quarkfast.graph.chunked_io import Append, Output, Stream
from quarkfast.quantization.weight_only.layout import StoredLayout
from quarkfast.quantization.weight_only.scales import StoredScales, scales_of

__all__ = ["channel_stream", "codes_of", "group_stream", "grouped", "has_zero_points"]


def channel_stream(tensor: ir.TensorProtocol, name: str, axis: int | None, spec: TensorSpec) -> Stream:
    """Returns codes, scales and (if asymmetric) zero points of `tensor`, with one scale for each index of `axis`.

    The source is read twice: the first pass finds the extremes.

    Args:
        tensor: float32, float16 or bfloat16, not empty.
        name: Stem of the new names.
        axis: Axis of the channels, or None for one scale.
        spec: An integer type of 4 or 8 bits.
    """
    shape = shape_of(tensor)
    layout = StoredLayout.flat(tensor) if axis is None else StoredLayout.along(tensor, axis)
    scales = () if axis is None else (layout.length,)

    def run(append: Append) -> None:
        found = _channel_scales(layout, spec, name)
        pack = _Packer(append, qtype(spec.dtype).stored_bits)
        rows = 0
        for piece in layout.pieces(1):
            part = slice(rows, rows + piece.shape[1])
            rows = part.stop % layout.length
            pack(codes_of(piece, found.scale[part], found.zero_point[part], spec.dtype, 0))
        pack.finish()
        append(1, found.scale)
        if has_zero_points(spec):
            append(2, _packed(found.zero_point, spec))

    return Stream(_outputs(name, tensor, shape, scales, spec), run)


def group_stream(tensor: ir.TensorProtocol, name: str, axis: int, spec: TensorSpec) -> Stream:
    """Returns codes, scales and (if asymmetric) zero points, with one scale for `spec.group_size` weights along `axis`.

    A last group that is not full has a scale too. The source is read once.
    """
    shape = shape_of(tensor)
    layout, size = StoredLayout.along(tensor, axis), spec.group_size
    scales = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])

    def run(append: Append) -> None:
        pack = _Packer(append, qtype(spec.dtype).stored_bits)
        zeros = _Packer(append, qtype(spec.dtype).stored_bits, output=2)
        for piece in layout.pieces(size):
            found = grouped(piece, spec, name)
            pack(codes_of(piece, found.scale, found.zero_point, spec.dtype, size))
            append(1, found.scale)
            if has_zero_points(spec):
                zeros(found.zero_point.astype(qtype(spec.dtype).dtype))
        pack.finish()
        zeros.finish()

    return Stream(_outputs(name, tensor, shape, scales, spec), run)


def has_zero_points(spec: TensorSpec) -> bool:
    """Whether zero points have to be written: an operator that is given none takes 0."""
    return not spec.symmetric or not qtype(spec.dtype).signed


def grouped(piece: NDArray[Any], spec: TensorSpec, name: str) -> StoredScales:
    """Returns scales ``[outer, groups, inner]`` of a piece ``[outer, rows, inner]``."""
    low, high = _extremes(piece, spec.group_size, name)
    mirrored = spec.symmetric and qtype(spec.dtype).stored_bits == 4
    return scales_of(low, high, spec.dtype, symmetric=spec.symmetric, dtype=piece.dtype, mirrored=mirrored)


def codes_of(values: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any], dtype: str, size: int) -> NDArray[Any]:
    """Returns codes of ``[outer, rows, inner]`` with a scale, perhaps below zero, for `size` rows; for each if 0."""
    row, steps = qtype(dtype), scale.astype(np.float32)
    quantize = kernels.quantize_linear_mirrored if row.stored_bits == 4 else kernels.quantize_linear
    return quantize(values, steps, zero.astype(row.dtype), dtype=row.name, axis=1, block_size=size)


def _extremes(piece: NDArray[Any], size: int, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns least and greatest values of the rows of ``[outer, rows, inner]``, or of groups of `size` of them.

    Raises:
        ModelError: If one is NaN or infinite.
    """
    low, high = kernels.extremes(piece, channel_axis=1, block_size=size)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        found = kernels.reduce_range(piece)
        infinite = found.pos_inf + found.neg_inf
        raise ModelError(
            f"tensor {name!r}: expected finite weights, got {found.nan} NaN and {infinite} infinite values"
        )
    return low, high


def _channel_scales(layout: StoredLayout, spec: TensorSpec, name: str) -> StoredScales:
    low = np.zeros(layout.length, layout.dtype)
    high, rows = low.copy(), 0
    for piece in layout.pieces(1):
        part = slice(rows, rows + piece.shape[1])
        rows = part.stop % layout.length
        least, most = _extremes(piece, 0, name)
        np.minimum(low[part], least, out=low[part])
        np.maximum(high[part], most, out=high[part])
    return scales_of(low, high, spec.dtype, symmetric=spec.symmetric, dtype=layout.dtype)


def _outputs(
    name: str, tensor: ir.TensorProtocol, shape: tuple[int, ...], scales: tuple[int, ...], spec: TensorSpec
) -> tuple[Output, ...]:
    code = ir.DataType(qtype(spec.dtype).onnx)
    found = (Output(f"{name}_quantized", code, shape), Output(f"{name}_scale", tensor.dtype, scales))
    return (*found, Output(f"{name}_zero_point", code, scales)) if has_zero_points(spec) else found


def _packed(zero: NDArray[np.int64], spec: TensorSpec) -> NDArray[Any]:
    row = qtype(spec.dtype)
    codes = zero.astype(row.dtype)
    return kernels.pack_codes(codes) if row.stored_bits == 4 else codes


class _Packer:
    """Appends codes of one output; 4-bit codes go two to a byte, also across pieces."""

    def __init__(self, append: Append, bits: int, output: int = 0) -> None:
        self._append, self._bits, self._output = append, bits, output
        self._left: NDArray[Any] | None = None

    def __call__(self, codes: NDArray[Any]) -> None:
        if self._bits == 8:
            self._append(self._output, codes)
            return
        flat = codes.reshape(-1)
        if self._left is not None:
            flat = np.concatenate([self._left, flat])
        even = flat.size - flat.size % 2
        self._left = flat[even:] if even < flat.size else None
        self._append(self._output, kernels.pack_codes(flat[:even]))

    def finish(self) -> None:
        if self._left is not None:
            self._append(self._output, kernels.pack_codes(self._left))
