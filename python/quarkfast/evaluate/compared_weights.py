"""Weight comparison: constants that are stored as codes, beside what they were in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.evaluate.tensor_comparison import TensorComparison, worst_channels
from quarkfast.graph.access import array_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.traced_pairs import TracedPair
from quarkfast.ranges.decibels import decibels

__all__ = ["compare_weight"]

# Rounding, to nearest or otherwise, moves a weight by a step at most, unless it is clipped. One that was equalized, or
# folded into, before it was quantized differs by more in many places.
_REWRITTEN = 0.01


def compare_weight(pair: TracedPair) -> TensorComparison | str:
    """Compares the codes of a constant with its original, or returns why they are none of the same.

    Args:
        pair: Of a constant, with an original that is one too.
    """
    assert pair.original is not None
    assert pair.codes.values is not None
    original = array_of(pair.original)
    codes = array_of(pair.codes.values)
    if original.shape != codes.shape:
        return f"{pair.tensor!r}: of shape {list(original.shape)} in the float model, {list(codes.shape)} as codes"
    scale, zero = (_spread(each, pair, codes.shape) for each in (pair.codes.scale, pair.codes.zero_point))
    if scale is None:
        return f"{pair.tensor!r}: scales of a form that is not read here"
    step, wide, noise = np.abs(scale), original.astype(np.float64), codes.astype(np.float64)
    inside = _inside(codes, pair.codes.dtype)
    # In place: a matrix of the size of a language model's head is 8 bytes a weight in doubles.
    noise -= 0.0 if zero is None else zero
    noise *= scale
    noise -= wide
    np.abs(noise, out=noise)
    if codes.size and np.mean((noise > step * (1 + 2**-10)) & inside) > _REWRITTEN:
        return f"{pair.tensor!r}: rewritten in floats before it was quantized"
    # Codes that make up for others, as of corrected biases, lie further off than half a step, and are not at an end.
    clipped = float(np.mean((noise > step * (0.5 + 2**-10)) & ~inside)) if codes.size else 0.0
    axis = _channel_axis(pair, codes.ndim) % max(codes.ndim, 1)
    rest = tuple(each for each in range(codes.ndim) if each != axis)
    sums = np.stack([np.square(each, out=each).sum(axis=rest).reshape(-1) for each in (wide, noise)], axis=-1)
    ratio = decibels(*map(float, sums.sum(axis=0)))
    dtype = "" if pair.codes.dtype is None else pair.codes.dtype.name.lower()
    return TensorComparison(pair.tensor, "weight", dtype, ratio, ratio, clipped, None, worst_channels(sums))


def _inside(codes: NDArray[Any], dtype: ir.DataType | None) -> NDArray[np.bool_]:
    """Returns which codes lie between the ends of their type; symmetric ones have none at the lowest."""
    signed = dtype is not None and dtype.name.startswith("INT")
    if dtype is None or not (signed or dtype.name.startswith("UINT")):
        return np.asarray((codes > codes.min(initial=0)) & (codes < codes.max(initial=0)))
    high = (1 << (dtype.bitwidth - signed)) - 1
    low = -high if signed else 0
    wide = codes.astype(np.int64)
    return np.asarray((wide > low) & (wide < high))


def _spread(found: NDArray[Any] | None, pair: TracedPair, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Returns scales or zero points of a tensor, of channels or of blocks in a form that multiplies codes."""
    if found is None:
        return None
    values = np.asarray(found, np.float64)
    if values.size == 1:
        return values.reshape(())
    axis = pair.dequantize.attributes.get_int("axis", 1)
    if values.ndim == 1 and -len(shape) <= axis < len(shape) and shape[axis] == values.size:
        return values.reshape([-1 if index == axis % len(shape) else 1 for index in range(len(shape))])
    block = pair.dequantize.attributes.get_int("block_size", 0)
    if block and values.ndim == len(shape):
        repeated = np.repeat(values, block, axis=axis)
        return np.take(repeated, np.arange(shape[axis]), axis=axis)
    return None


def _channel_axis(pair: TracedPair, rank: int) -> int:
    for node, index in pair.rounded.uses():
        operator = find_operator(node)
        if operator is not None and index == operator.weight and rank > 1:
            return operator.channel_axis(node, rank)
    return 0
