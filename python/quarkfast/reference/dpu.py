"""Operators of XINT8 in integers, as an accelerator that shifts computes them: codes and positions in, codes out.

The position of a tensor is the number of bits behind the point: a code q stands for ``q * 2^-position``. The rules are
those of Quark's specification, sections 11.2 and 11.3; halves go to even, as in ONNX's QuantizeLinear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["average", "clipped", "hard_sigmoid", "leaky_relu", "product", "shifted", "total", "weighted_total"]

Codes = NDArray[Any]

# Slope of HardSigmoid: 2731 / 2^14.
_SLOPE, _SLOPE_BITS = 2731, 14
# Slope of LeakyRelu: a numerator over 2^8.
_LEAKY_BITS = 8
_IDENTITY = 1 << _LEAKY_BITS


def shifted(sums: Codes, shift: int) -> Codes:
    """Returns ``sums * 2^-shift`` as int8 codes: halves to even, saturated.

    Example:
        >>> shifted(np.array([1, 3, 5, 900]), 1).tolist()
        [0, 2, 2, 127]
    """
    wide = np.asarray(sums, np.int64)
    if shift <= 0:
        return _saturated(wide << -shift)
    floor, rest, half = wide >> shift, wide & ((1 << shift) - 1), 1 << (shift - 1)
    up = (rest > half) | ((rest == half) & (floor & 1 == 1))
    return _saturated(floor + up)


def _saturated(wide: Codes) -> Codes:
    codes: Codes = np.clip(wide, -128, 127).astype(np.int8)
    return codes


def weighted_total(
    sums: Codes, bias: Codes | None, data: int, weight: int, at: int, out: int, slope: int = _IDENTITY
) -> Codes:
    """Conv, ConvTranspose, Gemm, MatMul: sums of products of codes at position ``data + weight``, bias codes at `at`.

    The activation that the accelerator computes along comes before the one shift.

    Args:
        sums: int64, of products of codes of data and weight.
        bias: Codes that are broadcast to `sums`, or None.
        data: Position of the data.
        weight: Position of the weight.
        at: Position of the bias.
        out: Position of the output.
        slope: What totals below zero are multiplied with, over 256: 0 for a Relu behind the layer, 256 for none.
    """
    products = data + weight
    common = products if bias is None else max(products, at)
    wide = np.asarray(sums, np.int64) << (common - products)
    if bias is not None:
        wide = wide + (np.asarray(bias, np.int64) << (common - at))
    return shifted(_leaky(wide, slope), _LEAKY_BITS + common - out)


def total(first: Codes, second: Codes, positions: tuple[int, int], out: int) -> Codes:
    """Add, and Sub with the second input's codes negated: both at the larger of their positions."""
    common = max(positions)
    parts = zip((first, second), positions, strict=True)
    left, right = (np.asarray(codes, np.int64) << (common - position) for codes, position in parts)
    return shifted(left + right, common - out)


def product(first: Codes, second: Codes, positions: tuple[int, int], out: int) -> Codes:
    """Mul: the product is at the sum of the positions."""
    return shifted(np.asarray(first, np.int64) * np.asarray(second, np.int64), sum(positions) - out)


def average(sums: Codes, multiplier: int, bits: int, data: int, out: int) -> Codes:
    """AveragePool, GlobalAveragePool, ReduceMean: a sum of codes, times ``multiplier / 2^bits``."""
    return shifted(np.asarray(sums, np.int64) * multiplier, bits + data - out)


def leaky_relu(codes: Codes, slope: int, data: int, out: int) -> Codes:
    """LeakyRelu with the slope ``slope / 256``."""
    return shifted(_leaky(np.asarray(codes, np.int64), slope), _LEAKY_BITS + data - out)


def _leaky(wide: Codes, slope: int) -> Codes:
    """Returns totals times 256, those below zero times `slope`."""
    found: Codes = np.where(wide < 0, wide * slope, wide << _LEAKY_BITS)
    return found


def clipped(codes: Codes, low: int, high: int, data: int, out: int) -> Codes:
    """Clip between whole numbers: the bounds are shifted to the data's position, which is 0 or more."""
    wide = np.asarray(codes, np.int64)
    return shifted(np.clip(wide, low << data, high << data), data - out)


def hard_sigmoid(codes: Codes, data: int, out: int) -> Codes:
    """HardSigmoid with the slope 2731 / 2^14: ``clip(x + 3, 0, 6)`` times the slope."""
    one = 1 << data
    sums = np.clip(np.asarray(codes, np.int64) + 3 * one, 0, 6 * one) * _SLOPE
    return shifted(sums, _SLOPE_BITS + data - out)
