"""Statistics of arrays: exact, and the same whatever the order, the batches or the threads."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.kernels.arguments import as_array, as_integer, float_remedy

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "HISTOGRAM_SIDE",
    "Histogram",
    "Moments",
    "Range",
    "absmax",
    "extremes",
    "histogram",
    "moments",
    "reduce_range",
]

#: Bins of a dyadic histogram on each side of zero.
HISTOGRAM_SIDE = 2048

_CODES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}


def _floats(x: ArrayLike, where: str) -> tuple[NDArray[Any], str]:
    """Return x as an array and the code of its dtype."""
    array = as_array(x, where)
    code = _CODES.get(array.dtype)
    if code is None:
        remedy = float_remedy(array.dtype)
        raise TypeError(f"{where}: x: expected dtype float32, float16 or bfloat16, got {array.dtype}{remedy}")
    return array, code


@dataclass(frozen=True)
class Range:
    """Extremes of the finite values of an array, and counts.

    Attributes:
        min: Smallest finite value, ``inf`` when there is none.
        max: Largest finite value, ``-inf`` when there is none.
        count: Number of all values.
        nan: Number of NaN.
        pos_inf: Number of +infinity.
        neg_inf: Number of -infinity.
        zero: Number of zeros of either sign.
        subnormal: Number of values, zero not counted, below the smallest normal number of the array's own type.
    """

    min: float
    max: float
    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    zero: int = 0
    subnormal: int = 0

    @property
    def finite(self) -> int:
        """Number of finite values."""
        return self.count - self.nan - self.pos_inf - self.neg_inf


def _range(fields: dict[str, Any]) -> Range:
    """Make a range from the native library's result, past the constructor, which takes four times as long."""
    made = object.__new__(Range)
    made.__dict__.update(fields)
    return made


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the finite values of an array in dyadic bins (``docs/numerics.md``, "Histograms").

    Attributes:
        counts: uint64 array of 4096 bins, from the most negative to the most positive. With ``w = 2.0**exponent``, bin
            ``2048 + b`` holds the values in ``[b * w, (b + 1) * w)`` and bin ``2047 - b`` those in
            ``(-(b + 1) * w, -b * w]``, but for zero, which is in bin 2048 whatever its sign.
        exponent: Binary logarithm of the bin width, from -126 to 117: the least with which the largest magnitude fits.
        range: Extremes and counts of the same values.
    """

    counts: NDArray[np.uint64]
    exponent: int
    range: Range

    @property
    def edges(self) -> NDArray[np.float64]:
        """The 4097 edges between bins, in order; computed anew each time, for they take as much as the counts."""
        return np.ldexp(np.arange(-HISTOGRAM_SIDE, HISTOGRAM_SIDE + 1, dtype=np.float64), self.exponent)


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums over the finite values of an array; ``mean`` and ``variance`` are rounded once.

    Attributes:
        count: Number of finite values.
        units: Their sum as a multiple of 2**-149.
        square_units: The sum of their squares as a multiple of 2**-298.
    """

    count: int
    units: int
    square_units: int

    @property
    def sum(self) -> Fraction:
        """The sum of the values."""
        from fractions import Fraction  # 3 ms and 0.4 MB, with the decimal module, for what few programs ask

        return Fraction(self.units, 1 << 149)

    @property
    def squares(self) -> Fraction:
        """The sum of their squares."""
        from fractions import Fraction

        return Fraction(self.square_units, 1 << 298)

    @property
    def mean(self) -> float:
        """The arithmetic mean, correctly rounded to float64; 0 for no values."""
        return float(self.sum / self.count) if self.count else 0.0

    @property
    def variance(self) -> float:
        """The mean squared distance from the mean, correctly rounded to float64; 0 for no values."""
        return float(self.squares / self.count - (self.sum / self.count) ** 2) if self.count else 0.0


def reduce_range(x: ArrayLike) -> Range:
    """Find minimum and maximum of the finite values and count the special ones.

    Args:
        x: float32, float16 or bfloat16 array of any shape.

    Returns:
        The range; ``min`` and ``max`` are never ``-0.0``.

    Raises:
        TypeError: ``x`` has another dtype.

    Example:
        >>> reduce_range(np.float32([1.5, -2.0, -0.0, np.nan, np.inf]))
        Range(min=-2.0, max=1.5, count=5, nan=1, pos_inf=1, neg_inf=0, zero=1, subnormal=0)
    """
    array, code = _floats(x, "reduce_range")
    return _range(getattr(_core, f"reduce_range_{code}")(array))


def histogram(x: ArrayLike) -> Histogram:
    """Count the finite values of an array in bins whose width is a power of two.

    The width is the least with which the largest magnitude fits into 2048 bins a side, so the result is a function of
    the values alone: that of a whole is the merge of those of its parts.

    Args:
        x: float32, float16 or bfloat16 array of any shape.

    Raises:
        TypeError: ``x`` has another dtype.

    Example:
        >>> h = histogram(np.float32([0.0, 0.25, 1.5, -1.5]))
        >>> h.exponent  # 1.5 < 2.0 = 2048 * 2.0**-10
        -10
        >>> np.flatnonzero(h.counts).tolist()
        [511, 2048, 2304, 3584]
    """
    array, code = _floats(x, "histogram")
    seen, (counts, exponent) = getattr(_core, f"count_histogram_{code}")(array)
    return Histogram(counts, exponent, _range(seen))


def moments(x: ArrayLike) -> Moments:
    """Sum the finite values of an array, and their squares, without any rounding.

    Args:
        x: float32, float16 or bfloat16 array of any shape.

    Raises:
        TypeError: ``x`` has another dtype.

    Example:
        >>> m = moments(np.float32([1e30, 1.0, -1e30, np.nan]))
        >>> m.count, m.sum, m.mean
        (3, Fraction(1, 1), 0.3333333333333333)
    """
    array, code = _floats(x, "moments")
    seen, (total, squares) = getattr(_core, f"sum_moments_{code}")(array)
    return Moments(_range(seen).finite, total, squares)


def absmax(x: ArrayLike, axis: int | None = None, *, channel_axis: int | None = None) -> NDArray[np.float32]:
    """Find the largest magnitude of the finite values, of a whole array or of each channel.

    Args:
        x: float32, float16 or bfloat16 array of any shape.
        axis: The old name of ``channel_axis``, deprecated: from the next version on it is the axis that is reduced, as
            in NumPy.
        channel_axis: The axis to keep, from ``-x.ndim`` to ``x.ndim - 1``, or ``None`` for one maximum.

    Returns:
        float32 array of shape ``(x.shape[channel_axis],)``, or ``()`` without an axis; 0 where no value is finite.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: there is no such axis.

    Example:
        >>> absmax(np.float32([[1, -3], [2, np.inf]]), channel_axis=1)
        array([2., 3.], dtype=float32)
    """
    array, code = _floats(x, "absmax")
    channel_axis = _channel_axis("absmax", axis, channel_axis)
    reduce = getattr(_core, f"reduce_absmax_{code}")
    if channel_axis is None:
        return np.asarray(reduce(array, (1, 1, array.size))).reshape(())
    return np.asarray(reduce(array, _dims(array, channel_axis, "absmax")))


def extremes(
    x: ArrayLike, axis: int | None = None, *, channel_axis: int | None = None, block_size: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find the least and the greatest value of a whole array, of each channel, or of each block along an axis.

    Args:
        x: float32, float16 or bfloat16 array of any shape, not empty.
        axis: The old name of ``channel_axis``, deprecated as in :func:`absmax`.
        channel_axis: The axis of channels or blocks, from ``-x.ndim`` to ``x.ndim - 1``, or ``None`` for the whole.
        block_size: Elements along ``channel_axis`` that make a block; 0 means one result for each index.

    Returns:
        Two arrays of the dtype of ``x``, of the shape of scales that :func:`quantize_linear` takes: ``()`` without an
        axis, ``(x.shape[channel_axis],)``, or the shape of ``x`` with ``ceil(x.shape[channel_axis] / block_size)``
        there.
        Unlike the range of :func:`reduce_range` they count infinity, and both are NaN where a value is; never ``-0.0``.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: ``x`` is empty, there is no such axis, or ``block_size`` is negative or has no axis.

    Example:
        >>> low, high = extremes(np.float32([[1, -3], [2, np.inf], [5, 4]]), channel_axis=0, block_size=2)
        >>> low
        array([[ 1., -3.],
               [ 5.,  4.]], dtype=float32)
        >>> high
        array([[ 2., inf],
               [ 5.,  4.]], dtype=float32)
    """
    array, code = _floats(x, "extremes")
    channel_axis = _channel_axis("extremes", axis, channel_axis)
    block = as_integer(block_size, "extremes", "block_size")
    if block < 0 or (block and channel_axis is None):
        wanted = "0 without an axis" if channel_axis is None else "0 or a positive integer"
        raise ValueError(f"extremes: block_size: expected {wanted}, got {block}")
    if not array.size:
        raise ValueError(f"extremes: x: expected one value or more, got shape {array.shape}")
    reduce = getattr(_core, f"reduce_extremes_{code}")
    if channel_axis is None:
        low, high = reduce(array, (1, array.size, 1), array.size)
        return low.reshape(()), high.reshape(())
    dims = _dims(array, channel_axis, "extremes")
    low, high = reduce(array, dims, min(block, dims[1]))
    if block:
        shape = list(array.shape)
        shape[channel_axis] = -(-dims[1] // block)
        low, high = low.reshape(shape), high.reshape(shape)
    return low, high


def _channel_axis(where: str, axis: int | None, channel_axis: int | None) -> int | None:
    """Return the axis that is kept, by its name or by the one that it had."""
    if axis is None:
        return None if channel_axis is None else as_integer(channel_axis, where, "channel_axis")
    if channel_axis is not None:
        raise ValueError(f"{where}: channel_axis: expected it alone, got axis too")
    warnings.warn(
        f"{where}: axis: expected channel_axis, the new name of the axis that is kept, got axis; from the next version "
        "on axis is the one that is reduced, as in NumPy",
        DeprecationWarning,
        stacklevel=3,
    )
    return as_integer(axis, where, "axis")


def _dims(array: NDArray[Any], axis: int, where: str) -> tuple[int, int, int]:
    """Return the elements before, along and behind an axis."""
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"{where}: channel_axis: expected an axis of a tensor of rank {array.ndim}, got {axis}")
    axis %= array.ndim
    return math.prod(array.shape[:axis]), array.shape[axis], math.prod(array.shape[axis + 1 :])
