"""Stochastic rounding: up with the probability of what rounding down takes away."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.formats.scalar import integer_type
from quarkfast.kernels.arguments import F32, as_integer, contiguous, converted, output
from quarkfast.kernels.block_arguments import widened

__all__ = ["cast_stochastic", "quantize_linear_stochastic"]

_BF16 = np.dtype(ml_dtypes.bfloat16)
_WIDTHS = (4, 8, 16)


def quantize_linear_stochastic(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    seed: int,
    dtype: DTypeLike = np.int8,
    axis: int = 1,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Quantize floats to integers with stochastic rounding: ``saturate(stochastic(x / scale) + zero_point)``.

    Args:
        x: float32, float16 or bfloat16 array of any shape.
        scale: float32 or narrower, finite and > 0: a scalar (or one element), or shape ``[x.shape[axis]]``.
        zero_point: Integers in the range of ``dtype``, of the shape of ``scale``; zeros when absent.
        seed: Chooses the random numbers, from 0 to 2^63 - 1. They depend on it and on the place of an element in C
            order, on nothing else: not on threads, instruction set or the values.
        dtype: int4, uint4, int8, uint8, int16 or uint16.
        axis: Axis of channels; negative counts from the end.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Codes of ``dtype`` with the shape of ``x``. Whole quotients stay as they are; of others the expectation is the
        quotient, to within 2^-24. NaN becomes the lowest code, infinities saturate.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, scale, zero point or seed do not fit.

    Source:
        docs/numerics.md, "Stochastic rounding".

    Example:
        >>> import numpy as np
        >>> codes = quantize_linear_stochastic(np.full(1000, 0.25, np.float32), 1.0, seed=7)
        >>> np.unique(codes).tolist(), round(float(codes.mean()), 1)
        ([0, 1], 0.3)
    """
    row = integer_type(dtype)
    if row.bits not in _WIDTHS:
        raise TypeError(
            f"quantize_linear_stochastic: dtype: expected an integer type of 4, 8 or 16 bits, got {row.name}"
        )
    where = f"quantize_linear_stochastic_f32_{row.code}"
    array = contiguous(widened(x, where), where, F32)
    scales, zeros, axis, _ = converted(where, row.dtype, scale, zero_point, axis, 0)
    dims = _dims(where, array.shape, scales, axis)
    _check_values(where, scales)
    if zeros is None:
        zeros = np.zeros(scales.shape, row.dtype)
    elif zeros.shape != scales.shape:
        raise ValueError(f"{where}: zero_point: expected shape {scales.shape}, got {zeros.shape}")
    y = output(out, where, array.shape, row.dtype)
    getattr(_core, where)(array, y, dims, scales, zeros, int(row.qmin), int(row.qmax), _seed(where, seed))
    return y


def cast_stochastic(x: ArrayLike, *, seed: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Cast float32 to bfloat16 with stochastic rounding, as in training.

    Args:
        x: float32 array of any shape.
        seed: As in :func:`quantize_linear_stochastic`.
        out: bfloat16 array of the shape of ``x`` to write to.

    Returns:
        bfloat16 array. What bfloat16 holds stays as it is; of other values the expectation is the value, exactly. NaN
        stays NaN.

    Raises:
        TypeError: ``x`` is not float32.
        ValueError: the seed is negative or beyond 63 bits.

    Source:
        docs/numerics.md, "Stochastic rounding".

    Example:
        >>> import numpy as np
        >>> np.unique(cast_stochastic(np.full(100, 1.002, np.float32), seed=1)).astype(float).tolist()
        [1.0, 1.0078125]
    """
    where = "cast_stochastic_f32_bf16"
    array = contiguous(x, where, F32)
    y = output(out, where, array.shape, _BF16)
    _core.cast_stochastic_f32_bf16(array, y, _seed(where, seed))
    return y


def _seed(where: str, seed: int) -> int:
    value = as_integer(seed, where, "seed")
    if value < 0:
        raise ValueError(f"{where}: seed: expected 0 or a positive integer, got {value}")
    return value


def _dims(where: str, shape: tuple[int, ...], scales: NDArray[Any], axis: int) -> tuple[int, int, int]:
    """Return the elements before, along and behind the axis of channels; all lie behind it where one scale serves."""
    if scales.size == 1 and scales.ndim < 2:
        return 1, 1, math.prod(shape)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"{where}: axis: expected an axis of a tensor of rank {len(shape)}, got {axis}")
    axis %= len(shape)
    if scales.shape != (shape[axis],):
        raise ValueError(f"{where}: scale: expected a scalar or shape ({shape[axis]},), got {scales.shape}")
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _check_values(where: str, scales: NDArray[Any]) -> None:
    wrong = scales[~(np.isfinite(scales) & (scales > 0))]
    if wrong.size:
        raise ValueError(f"{where}: scale: expected finite values greater than 0, got {wrong.reshape(-1)[0]}")
