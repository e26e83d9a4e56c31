"""Codes of constants, in the form in which they are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of_tensor, shape_of
from quarkfast.graph.chunked_io import row_pieces
from quarkfast.graph.placement import Quantizer
from quarkfast.qparams import fit_pairs, from_rows, rows_of

__all__ = ["codes_of", "codes_of_tensor", "decode", "fit_codes", "limited", "scale_along", "zero_point_along"]


def limited(values: NDArray[np.float32], dtype: str) -> NDArray[np.float32]:
    """Returns float32 values whose magnitude `dtype` can hold as a normal number; zeros stay zero.

    Example:
        >>> import numpy as np
        >>> limited(np.float32([0.0, 1e-40, -3.4e38]), "bfloat16").tolist()
        [0.0, 1.1754943508222875e-38, -3.3895313892515355e+38]
    """
    limits = qtype(dtype).constant_limits
    if limits is None:
        return values
    smallest, largest = (np.float32(limit) for limit in limits)
    if not smallest:
        return np.clip(values, -largest, largest)
    magnitude = np.clip(np.abs(values), smallest, largest)
    return np.where(values == 0, values, np.copysign(magnitude, values))


def scale_along(quantizer: Quantizer, rank: int) -> NDArray[np.float32]:
    """Returns the scale in a shape that goes with values of that rank."""
    scale: NDArray[np.float32] = _along(quantizer, quantizer.scale, rank)
    return scale


def zero_point_along(quantizer: Quantizer, rank: int) -> NDArray[np.int64]:
    """Returns the zero point in a shape that goes with values of that rank."""
    zero_point: NDArray[np.int64] = _along(quantizer, quantizer.zero_point, rank)
    return zero_point


def _along(quantizer: Quantizer, parameter: NDArray[Any], rank: int) -> NDArray[Any]:
    if quantizer.axis is None or not parameter.ndim:
        return parameter
    others = tuple(axis for axis in range(rank) if axis != quantizer.axis)
    along: NDArray[Any] = np.expand_dims(parameter, others)
    return along


def codes_of_tensor(tensor: ir.TensorProtocol, quantizer: Quantizer) -> NDArray[Any]:
    """Returns a constant of floats as the codes of `quantizer`, made piece by piece but for pairs to fit."""
    if quantizer.pairs:
        return codes_of(array_of_tensor(tensor), quantizer)
    shape = shape_of(tensor)
    made = np.empty(shape, qtype(quantizer.dtype).dtype)
    start = 0
    for piece in row_pieces(tensor):
        if piece.shape == shape:
            return codes_of(piece, quantizer)
        stop = start + len(piece)
        made[start:stop] = codes_of(piece, _of_rows(quantizer, start, stop))
        start = stop
    return made


def _of_rows(quantizer: Quantizer, start: int, stop: int) -> Quantizer:
    """Returns the quantizer of a range of the first axis."""
    if quantizer.axis != 0 or not quantizer.scale.ndim:
        return quantizer
    return replace(quantizer, scale=quantizer.scale[start:stop], zero_point=quantizer.zero_point[start:stop])


def codes_of(values: NDArray[np.float32], quantizer: Quantizer) -> NDArray[Any]:
    """Returns `values` as the codes of `quantizer`, in the NumPy dtype of its type.

    A bias is divided in float64: its codes have up to 31 bits, more than a float32 quotient.
    """
    row = qtype(quantizer.dtype)
    if not row.is_integer:
        if not quantizer.is_plain_cast:
            values = values / scale_along(quantizer, values.ndim)
        return kernels.cast(limited(values, quantizer.dtype), row.dtype, saturate=row.bits == 8)
    if row.bits > 16:
        scale = scale_along(quantizer, values.ndim).astype(np.float64)
        zero_point = _along(quantizer, quantizer.zero_point, values.ndim)
        codes = np.rint(values.astype(np.float64) / scale) + zero_point
        clipped: NDArray[Any] = np.clip(codes, row.qmin, row.qmax).astype(row.dtype)
        return clipped
    axis = 0 if quantizer.axis is None else quantizer.axis
    codes = kernels.quantize_linear(
        values,
        quantizer.scale,
        quantizer.zero_point,
        dtype=row.name,
        axis=axis,
        qmin=quantizer.qmin,
        qmax=quantizer.qmax,
    )
    return fit_codes(codes, values, quantizer) if quantizer.pairs else codes


def decode(codes: NDArray[Any], quantizer: Quantizer) -> NDArray[np.float32]:
    """Returns what integer codes stand for: code minus zero point, times scale, as DequantizeLinear has it.

    Codes of more than 24 bits are rounded to float32 in front of the product, too.
    """
    axis = 0 if quantizer.axis is None else quantizer.axis
    return kernels.dequantize_linear(codes, quantizer.scale, quantizer.zero_point, axis=axis)


def fit_codes(codes: NDArray[Any], values: NDArray[np.float32], quantizer: Quantizer) -> NDArray[Any]:
    """Returns codes that fit every order in which they are added: what fits one only becomes smaller for the next."""
    rank = values.ndim
    wanted = values / scale_along(quantizer, rank) + zero_point_along(quantizer, rank).astype(np.float32)
    for pairs in quantizer.pairs:
        rows = fit_pairs(rows_of(codes, pairs.order), rows_of(wanted, pairs.order), pairs.highest)
        codes = from_rows(rows, codes.shape, pairs.order)
    return codes
