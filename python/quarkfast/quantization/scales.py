"""From the range of a tensor and its spec to a quantizer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import kernels, qparams
from quarkfast.config import TensorSpec
from quarkfast.formats.scalar import qtype
from quarkfast.graph.placement import Quantizer
from quarkfast.qparams import QParams
from quarkfast.ranges.estimate import estimate_range, needs_histogram
from quarkfast.ranges.params import params_for
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import ValuesSummary

__all__ = ["quantizer_for_range", "quantizer_for_values", "unit_quantizer"]


def unit_quantizer(spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns scale 1 and zero point 0: how 16-bit floats are written as a pair, and block formats along `axis`."""
    return Quantizer(spec.dtype, np.ones((), np.float32), np.zeros((), np.int64), axis)


def quantizer_for_range(minimum: ArrayLike, maximum: ArrayLike, spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns the quantizer that maps ``[minimum, maximum]`` onto the codes of `spec`.

    Args:
        minimum: Least finite value, a scalar or one for each channel; above `maximum` where there was none.
        maximum: Greatest finite value, of the same shape.
        spec: A type with a scale.
        axis: Axis of the channels.

    Source:
        Integers: :func:`quarkfast.qparams.from_range`; a range without values is one of zero alone, which has scale 1.
        Floats: the largest magnitude becomes 2 (bfloat16), 65504 (float16) or the largest float8, as in Quark (its
        specification, section 3.5).

    Example:
        >>> q = quantizer_for_range(-1.0, 3.0, TensorSpec("uint8", symmetric=False))
        >>> float(q.scale), int(q.zero_point)
        (0.01568627543747425, 64)
    """
    if not spec.format.is_integer:
        return _float_quantizer(minimum, maximum, spec, axis)
    low, high = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    empty = low > high
    return _quantizer(params_for(np.where(empty, 0.0, low), np.where(empty, 0.0, high), spec), spec, axis)


def quantizer_for_values(values: NDArray[np.float32], spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns the quantizer for values that are all at hand: a weight.

    Args:
        values: Finite, any shape.
        spec: A type with a scale, and a method; power-of-two scales of least squared error are searched over the values
            themselves, other methods that read histograms get one of each channel.
        axis: Axis of the channels, or None for one scale.
    """
    if not values.size:
        return quantizer_for_range(0.0, 0.0, spec)
    if METHODS[spec.method].searches_constants and spec.scale == "power_of_two":
        low, high = _extremes(values, axis)
        params = qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
        return _quantizer(qparams.search_power_of_two(values, params, axis=axis or 0), spec, axis)
    if not needs_histogram(spec):
        return quantizer_for_range(*_extremes(values, axis), spec, axis)
    if axis is None:
        return quantizer_for_range(*_kept(values, spec), spec)
    low, high = zip(*(_kept(channel, spec) for channel in np.moveaxis(values, axis, 0)), strict=True)
    return quantizer_for_range(low, high, spec, axis)


def _extremes(values: NDArray[np.float32], axis: int | None) -> tuple[Any, Any]:
    others = None if axis is None else tuple(each for each in range(values.ndim) if each != axis)
    return values.min(axis=others), values.max(axis=others)


def _kept(values: NDArray[np.float32], spec: TensorSpec) -> tuple[float, float]:
    if values.size == 1:
        return _kept_of_number(float(values.item()), spec)
    return estimate_range(ValuesSummary(kernels.histogram(values)), spec, "weight")


@lru_cache(maxsize=256)
def _kept_of_number(value: float, spec: TensorSpec) -> tuple[float, float]:
    """Returns the range to keep of a constant with one value: a graph has the same few numbers over and over."""
    return estimate_range(ValuesSummary(kernels.histogram(np.array([value], np.float32))), spec, "weight")


def _float_quantizer(minimum: ArrayLike, maximum: ArrayLike, spec: TensorSpec, axis: int | None) -> Quantizer:
    low, high = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    absmax = np.where(low > high, 0.0, np.maximum(np.abs(low), np.abs(high)))
    scale = np.where(absmax == 0, 1.0, absmax / qtype(spec.dtype).scaled_max).astype(np.float32)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    return Quantizer(spec.dtype, scale, np.zeros(scale.shape, np.int64), axis)


def _quantizer(params: QParams, spec: TensorSpec, axis: int | None) -> Quantizer:
    return Quantizer(spec.dtype, params.scale, params.zero_point.astype(np.int64), axis, params.qmin, params.qmax)
