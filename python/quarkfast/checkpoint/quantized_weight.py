"""A quantized matrix: codes, scales, zero points, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.kernels import cast, dequantize_linear

__all__ = ["QuantizedWeight", "block_of", "scale_shape", "spread_blocks"]


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """Codes of a weight ``[outputs, inputs]`` and their scales.

    Attributes:
        scheme: How it was quantized.
        codes: Of the element's dtype.
        scale: One for each block, ``[ceil(outputs / block rows), ceil(inputs / block columns)]``, of the dtype in which
            it is stored; None for elements that need none.
        zero_point: Codes of the shape of `scale`, or None where symmetric.
        global_scale: What the scales are divided by, float32; None for 1.
    """

    scheme: WeightScheme
    codes: NDArray[Any]
    scale: NDArray[Any] | None = None
    zero_point: NDArray[Any] | None = None
    global_scale: np.float32 | None = None

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """What some rows stand for, float32; `begin` is a multiple of a block's rows."""
        codes = self.codes[begin:end]
        if self.scale is None:
            return _widened(codes)
        height, width = block_of(self.scheme, self.codes.shape)
        first, last = begin // height, -(-end // height)
        scale = _widened(self.scale[first:last])
        if self.global_scale is not None:
            scale = scale / self.global_scale
        if self.scheme.element.is_integer and height == 1 and self.scheme.scale == "float":
            zero = None if self.zero_point is None else self.zero_point[first:last]
            exact: NDArray[np.float32] = dequantize_linear(codes, scale, zero, axis=1, block_size=width)
            return exact
        values = _widened(codes)
        if self.scheme.element.is_integer and self.scheme.scale == "e8m0":
            values = values / np.float32(64)  # as MXINT8 has it: codes are in steps of 1/64
        product: NDArray[np.float32] = values * spread_blocks(scale, (height, width), values.shape)
        return product


def block_of(scheme: WeightScheme, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that share a scale.

    Example:
        >>> from quarkfast.checkpoint.schemes import scheme_of
        >>> block_of(scheme_of("int4_wo_64"), (8, 128)), block_of(scheme_of("fp8"), (8, 128))
        ((1, 64), (8, 128))
    """
    if scheme.granularity == "tensor":
        return max(shape[0], 1), max(shape[1], 1)
    if scheme.granularity == "channel":
        return 1, max(shape[1], 1)
    return (scheme.group_size if scheme.granularity == "block" else 1), scheme.group_size


def scale_shape(scheme: WeightScheme, shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of the scales of a weight of `shape`."""
    height, width = block_of(scheme, shape)
    return -(-shape[0] // height), -(-shape[1] // width)


def spread_blocks(values: NDArray[Any], block: tuple[int, int], shape: tuple[int, ...]) -> NDArray[Any]:
    """One value of each block, for each element of a matrix of `shape`."""
    height, width = block
    tall = values if height == 1 else np.repeat(values, height, axis=0)[: shape[0]]
    return np.repeat(tall, width, axis=1)[:, : shape[1]]


def _widened(array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype == np.float32:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float32)
    return cast(array, np.float32)
