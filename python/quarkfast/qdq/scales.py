"""From the range of a tensor and its spec to a quantizer."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from quarkfast import qparams
from quarkfast.config import TensorSpec
from quarkfast.qdq.plan import Quantizer

__all__ = ["quantizer_for_range", "unit_quantizer"]


def unit_quantizer(spec: TensorSpec) -> Quantizer:
    """Returns scale 1 and zero point 0: how 16-bit floats are written as a Q/DQ pair."""
    return Quantizer(spec.dtype, np.ones((), np.float32), np.zeros((), np.int64))


def quantizer_for_range(minimum: ArrayLike, maximum: ArrayLike, spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns the quantizer that maps ``[minimum, maximum]`` onto the codes of `spec`.

    Args:
        minimum: Least finite value, a scalar or one for each channel; above `maximum` where there was none.
        maximum: Greatest finite value, of the same shape.
        spec: An integer type.
        axis: Axis of the channels.

    Source:
        :func:`quarkfast.qparams.from_range`; a range without values is one of zero alone, which has scale 1.

    Example:
        >>> q = quantizer_for_range(-1.0, 3.0, TensorSpec("uint8", symmetric=False))
        >>> float(q.scale), int(q.zero_point)
        (0.01568627543747425, 64)
    """
    low, high = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    empty = low > high
    params = qparams.from_range(
        np.where(empty, 0.0, low), np.where(empty, 0.0, high), spec.dtype, symmetric=spec.symmetric
    )
    return Quantizer(spec.dtype, params.scale, params.zero_point.astype(np.int64), axis, params.qmin, params.qmax)
