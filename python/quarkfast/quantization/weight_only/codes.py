"""Codes of stored weights and their scales, from their values alone (round to nearest, no data), as lazy streams."""

from __future__ import annotations

from typing import Any, NamedTuple

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

__all__ = ["StoredScales", "channel_stream", "codes_of", "group_stream", "grouped", "has_zero_points", "scales_of"]


class StoredScales(NamedTuple):
    """Scales and zero points of channels or groups.

    Attributes:
        scale: Finite and > 0, of the dtype asked for; below zero where codes are mirrored.
        zero_point: int64 codes of the shape of `scale`.
    """

    scale: NDArray[Any]
    zero_point: NDArray[np.int64]


def scales_of(
    low: NDArray[Any],
    high: NDArray[Any],
    code: str,
    *,
    symmetric: bool,
    dtype: np.dtype[Any] | None = None,
    mirrored: bool = False,
) -> StoredScales:
    """Returns scale and zero point for weights between `low` and `high`.

    1. Symmetric: the zero point is the middle code, and the scale the least one under which no weight is off by more
       than half a step: ``max(-low / (zero_point - qmin + 0.5), high / (qmax - zero_point + 0.5))``. On the 4-bit
       weights of a sentence encoder this is 0.7 dB (groups of 32) and 0.9 dB (128) better than the largest magnitude
       over 7.
       Where `mirrored` and the weights reach further up than down, the same of the negated weights, below zero: the
       lowest code, which has no counterpart, then stands for the largest weight. That is 0.5 dB better again, and 0.1
       to 0.3 dB better than onnxruntime's, whose scale is the signed extreme over -8.
    2. Asymmetric: ``(high - low) / (qmax - qmin)`` over a range that contains zero, with the zero point
       ``round(qmin - low / scale)``.
    3. A range of zero alone has scale 1. The scale is rounded to `dtype` before the zero point is taken from it.

    Args:
        low: Least weights, finite.
        high: Greatest weights, of the same shape.
        code: Name of an integer type.
        symmetric: Which of the two.
        dtype: float32, float16 or bfloat16; float32 by default.
        mirrored: Whether a symmetric scale may be below zero.

    Example:
        >>> import numpy as np
        >>> scales_of(np.float32([-8.5]), np.float32([1]), "int4", symmetric=True).scale
        array([1.], dtype=float32)
    """
    row = qtype(code)
    qmin, qmax = int(row.qmin), int(row.qmax)
    least, most = np.minimum(low.astype(np.float64), 0.0), np.maximum(high.astype(np.float64), 0.0)
    middle = (qmin + qmax + 1) // 2
    below = np.zeros(least.shape, np.bool_)
    if symmetric:
        ends = qmin - middle - 0.5, qmax - middle + 0.5
        exact = np.maximum(least / ends[0], most / ends[1])
        if mirrored:
            negated = np.maximum(-most / ends[0], -least / ends[1])
            below, exact = negated < exact, np.minimum(exact, negated)
    else:
        exact = (most - least) / (qmax - qmin)
    scale = _stored(np.where(exact == 0, 1.0, exact), np.dtype(np.float32) if dtype is None else dtype)
    if symmetric:
        return StoredScales(np.where(below, -scale, scale), np.full(scale.shape, middle, np.int64))
    zero = np.clip(np.rint(qmin - least / scale.astype(np.float64)), qmin, qmax)
    return StoredScales(scale, np.where(exact == 0, middle, zero).astype(np.int64))


def _stored(scale: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rounds to the dtype, never to zero and never to infinity: weights of that dtype have no larger scale."""
    tiny = {"float16": 2.0**-24}.get(dtype.name, float(np.finfo(np.float32).tiny))
    return np.maximum(scale, tiny).astype(np.float32).astype(dtype)


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
