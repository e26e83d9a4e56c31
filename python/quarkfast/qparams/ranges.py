"""From a range to scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast.formats.scalar import ScalarFormat, integer_type

__all__ = ["SOFTMAX_RANGE", "QParams", "code_range", "from_range", "stored_scale"]

#: The range of a Softmax output, known without calibration.
SOFTMAX_RANGE = (0.0, 1.0)

# Ranges end at half the largest float32, so that rmax - rmin is finite in float32 too.
_LARGEST_END = float(np.finfo(np.float32).max) / 2


@dataclass(frozen=True, eq=False)
class QParams:
    """Scale, zero point and code range of one tensor.

    Attributes:
        scale: float32 or float16, finite and > 0; shape ``()`` per tensor, else one element per channel or block.
        zero_point: Codes of ``qtype`` with the shape of ``scale``.
        qtype: The integer type of codes.
        qmin: Lowest code in use.
        qmax: Highest code in use.

    Example:
        >>> p = from_range(-1.0, 3.0, "uint8")
        >>> [float(v) for v in p.limits()]
        [-1.003921627998352, 2.996078608557582]
    """

    scale: NDArray[Any]
    zero_point: NDArray[Any]
    qtype: ScalarFormat
    qmin: int
    qmax: int

    def limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and the highest real value that the codes represent."""
        scale, zero = self.scale.astype(np.float64), self.zero_point.astype(np.float64)
        return (self.qmin - zero) * scale, (self.qmax - zero) * scale

    def with_scale(self, scale: NDArray[Any]) -> QParams:
        """Return the same codes with another scale."""
        return replace(self, scale=np.asarray(scale, self.scale.dtype))


def code_range(
    dtype: DTypeLike, *, bits: int | None = None, symmetric: bool = False, reduce_range: bool = False
) -> tuple[int, int]:
    """Return the lowest and the highest code in use.

    Args:
        dtype: An integer type.
        bits: Width of a code where it is narrower than the type, e.g. 3 for 3-bit codes kept in int8.
        symmetric: Leave out the lowest code of a signed type, so that codes mirror each other.
        reduce_range: Half the range, for CPUs whose 8-bit dot products saturate at 16 bits; wins over ``symmetric``.

    Raises:
        TypeError: not an integer type.
        ValueError: ``bits`` is not in [2, width of dtype], or too narrow to be reduced (fewer than 4).

    Source:
        onnxruntime's and Quark's tables (8 bits: -128..127, -127..127, -64..64; 0..255, 0..127; 4 bits reduced:
        -4..3), continued to other widths.

    Example:
        >>> code_range("int8", symmetric=True), code_range("int8", bits=3), code_range("uint16", reduce_range=True)
        ((-127, 127), (-4, 3), (0, 32767))
    """
    row = integer_type(dtype)
    width = row.bits if bits is None else bits
    if not 2 <= width <= row.bits:
        raise ValueError(f"code_range: bits: expected 2 to {row.bits} for {row.name}, got {bits}")
    if reduce_range and width < 4:
        raise ValueError(f"code_range: reduce_range: expected codes of at least 4 bits, got {width}")
    signed, half = row.signed, 1 << (width - 1)
    if reduce_range:
        return (-half // 2, half // 2 - (width < 8)) if signed else (0, half - 1)
    if not signed:
        return 0, 2 * half - 1
    return -half + symmetric, half - 1


def from_range(
    rmin: ArrayLike,
    rmax: ArrayLike,
    dtype: DTypeLike,
    *,
    bits: int | None = None,
    symmetric: bool = False,
    reduce_range: bool = False,
    scale_dtype: DTypeLike = np.float32,
) -> QParams:
    """Return scale and zero point for values in [rmin, rmax].

    The range is widened to contain zero and, where ``symmetric``, to mirror itself. Then ``scale = (rmax - rmin) /
    (qmax - qmin)`` and ``zero_point = round_half_to_even(qmin - rmin / scale)``, both in float64; the zero point of a
    symmetric range is ``round_half_to_even((qmin + qmax) / 2)``: 0, or 128 for uint8. A range of zero alone gives scale
    1; a tiny one gives the smallest scale that its dtype holds without loss (float32: the smallest normal number).

    Args:
        rmin: Lowest values, finite; one element per channel or block.
        rmax: Highest values, of the same shape, finite and >= ``rmin``.
        dtype: The integer type of codes.
        bits: As in :func:`code_range`.
        symmetric: As in :func:`code_range`; also mirrors the range.
        reduce_range: As in :func:`code_range`.
        scale_dtype: float32 or float16.

    Raises:
        TypeError: not an integer type, or a scale dtype that is not among the above.
        ValueError: NaN, infinity, ``rmin > rmax``, or a range too wide for float16 scales.

    Source:
        ONNX QuantizeLinear; onnxruntime's and Quark's ``compute_scale_zp``.

    Example:
        >>> p = from_range([-1.0, 0.0], [2.0, 0.0], "int8", symmetric=True)
        >>> p.scale, p.zero_point
        (array([0.01574803, 1.        ], dtype=float32), array([0, 0], dtype=int8))
    """
    row = integer_type(dtype)
    qmin, qmax = code_range(row.name, bits=bits, symmetric=symmetric, reduce_range=reduce_range)
    low, high = _checked_range(rmin, rmax)
    if symmetric:
        high = np.maximum(-low, high)
        low = -high
    exact = (high - low) / (qmax - qmin)
    empty = exact == 0
    exact = np.where(empty, 1.0, exact)
    scale = stored_scale(exact, scale_dtype)
    if symmetric:
        zero = np.full(low.shape, np.rint((qmin + qmax) / 2))
    else:
        # From the scale before rounding to float32, as onnxruntime; float16 is coarse enough to move a 16-bit code.
        step = exact if scale.dtype == np.float32 else scale.astype(np.float64)
        step = np.maximum(step, np.finfo(np.float32).tiny)
        zero = np.where(empty, 0.0, np.clip(np.rint(qmin - low / step), qmin, qmax))
    return QParams(scale, zero.astype(np.int64).astype(row.dtype), row, qmin, qmax)


def _checked_range(rmin: ArrayLike, rmax: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the range in float64, containing zero and within the limits of float32."""
    low, high = np.asarray(rmin, np.float64), np.asarray(rmax, np.float64)
    if low.shape != high.shape:
        raise ValueError(f"from_range: rmax: expected shape {low.shape} as of rmin, got {high.shape}")
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))[0]
        raise ValueError(
            f"from_range: expected finite ranges, got [{low.flat[bad]}, {high.flat[bad]}] at index {bad}; "
            "take the range over finite values"
        )
    if (low > high).any():
        bad = np.flatnonzero(low > high)[0]
        raise ValueError(f"from_range: expected rmin <= rmax, got [{low.flat[bad]}, {high.flat[bad]}] at index {bad}")
    return np.maximum(np.minimum(low, 0.0), -_LARGEST_END), np.minimum(np.maximum(high, 0.0), _LARGEST_END)


def stored_scale(scale: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """Round scales to their dtype: to nearest where normal, upwards to a float16 subnormal, never to zero.

    Args:
        scale: Positive, any shape.
        dtype: float32 or float16.

    Raises:
        TypeError: another dtype.
        ValueError: a scale that float16 cannot hold.

    Example:
        >>> stored_scale(np.array([0.3, 1e-9]), "float16")
        array([3.e-01, 6.e-08], dtype=float16)
    """
    dtype = np.dtype(dtype)
    if dtype == np.float32:
        return np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    if dtype != np.float16:
        raise TypeError(f"from_range: scale_dtype: expected float32 or float16, got {dtype}")
    if (scale > float(np.finfo(np.float16).max)).any():
        raise ValueError(
            f"from_range: expected scales of at most 65504 for float16, got {scale.max()}; use float32 scales"
        )
    step = 2.0**-24  # spacing of float16 subnormals: rounding down there could lose a third of the range
    subnormal = scale < float(np.finfo(np.float16).tiny)
    return np.where(subnormal, np.ceil(scale / step) * step, scale).astype(np.float16)
