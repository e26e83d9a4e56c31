"""The methods of range estimation: from what statistics say of a tensor to the range to keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from quarkfast import kernels, qparams
from quarkfast.errors import UnsupportedError
from quarkfast.formats.scalar import qtype
from quarkfast.kernels import Histogram
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.qparams import QParams, code_range
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary, histogram_of, mirrored

__all__ = [
    "ERROR_METRICS",
    "absolute_error",
    "auto",
    "distribution",
    "entropy",
    "layerwise_percentile",
    "minmax",
    "minmse",
    "moving_average",
    "nonoverflow",
    "normal_clip",
    "params_for",
    "percentile",
    "squared_error",
]


def params_for(low: ArrayLike, high: ArrayLike, spec: RangeSpec) -> QParams:
    """Returns scale and zero point of the range ``[low, high]``, element by element where these are arrays.

    Power-of-two scales are the nearest ones, for ``"nonoverflow"`` the next larger ones: Quark's method of that name
    rounds to the nearest and saturates up to 29 % of the range. Scales ``M / 2^N`` are the nearest ones, and so are
    those of float16, but for subnormal ones (below ``2^-14``), which are rounded up to whole ``2^-24``.

    Raises:
        UnsupportedError: If a scale ``M / 2^N`` would be above 32767, or one of float16 above 65504.
    """
    if spec.scale == "half":
        return _half_params(low, high, spec)
    params = qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
    if spec.scale == "power_of_two":
        return qparams.power_of_two(params, METHODS[spec.method].power_of_two)
    if spec.scale == "float32":
        return params
    if (params.scale > qparams.LARGEST_MULTIPLIER).any():
        raise UnsupportedError(
            f"dyadic scales: expected numbers of at most {qparams.LARGEST_MULTIPLIER}, got {params.scale.max()}; "
            "use float32 scales"
        )
    return qparams.dyadic_scale(params)[0]


def _half_params(low: ArrayLike, high: ArrayLike, spec: RangeSpec) -> QParams:
    """Returns parameters whose scales are numbers of float16, held as float32, which gives the same codes."""
    settings = {"symmetric": spec.symmetric, "reduce_range": spec.reduce_range}
    try:
        params = qparams.from_range(low, high, spec.dtype, **settings, scale_dtype="float16")
    except ValueError as error:
        message = str(error).removeprefix("from_range: ")
        raise UnsupportedError(f"float16 scales: {message}") from None
    return replace(params, scale=params.scale.astype(np.float32))


def squared_error(h: Histogram, params: QParams) -> float:
    """Returns the expected mean squared error of integer codes."""
    return kernels.quantization_error(h, float(params.scale), int(params.zero_point), params.qmin, params.qmax)


def absolute_error(h: Histogram, params: QParams) -> float:
    """Returns the expected mean absolute error of integer codes, values evenly spread inside a bin, zeros exact.

    With ``u = x / scale`` and ``n`` the nearest code, its antiderivative is ``n / 4 + (u - n)|u - n| / 2``, inside the
    codes and beyond them.
    """
    weights = h.counts.astype(np.float64)
    weights[HISTOGRAM_SIDE] -= h.range.zero
    scale, zero = float(params.scale), int(params.zero_point)
    u = h.edges / scale
    n = np.rint(np.clip(u, params.qmin - zero, params.qmax - zero))
    integral = n / 4 + (u - n) * np.abs(u - n) / 2
    width = math.ldexp(1.0, h.exponent) / scale
    return float((weights * np.diff(integral)).sum() * scale / (width * max(h.range.finite, 1)))


ERROR_METRICS: Mapping[str, Callable[[Histogram, QParams], float]] = MappingProxyType(
    {"mae": absolute_error, "mse": squared_error}
)
"""Name -> metric."""


def minmax(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the extremes."""
    return mirrored(summary.range.min, summary.range.max, spec)


def moving_average(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the mean of the minima and the mean of the maxima of runs."""
    return mirrored(*summary.mean_extremes, spec)


nonoverflow = minmax
"""The extremes; the method is another in how power-of-two scales are rounded."""


def percentile(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range that keeps ``spec.percentile`` percent."""
    return mirrored(*kernels.percentile_range(histogram_of(summary), spec.percentile, symmetric=spec.mirrored), spec)


def layerwise_percentile(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of that percentile of ``spec.percentiles`` which leaves the least error by ``spec.metric``."""
    h, error = histogram_of(summary), ERROR_METRICS[spec.metric]
    ranges = [kernels.percentile_range(h, percent, symmetric=spec.mirrored) for percent in spec.percentiles]
    found = min(ranges, key=lambda found: error(h, params_for(found[0], found[1], spec)))
    return mirrored(*found, spec)


def entropy(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range by TensorRT's definition, or by onnxruntime's arithmetic where ``spec.bins`` are given."""
    levels = spec.levels or min(1 << (qtype(spec.dtype).bits - 1), spec.bins or HISTOGRAM_SIDE)
    if spec.bins is None:
        return mirrored(*kernels.entropy_range(histogram_of(summary), levels=levels), spec)
    found = kernels.entropy_range(histogram_of(summary), levels=levels, rule="onnxruntime", bins=spec.bins)
    return mirrored(*found, spec)


def distribution(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns mean and so many standard deviations as leave a normal distribution the least squared error."""
    root: Literal[1, 3] = 3 if spec.scenario == "p3" else 1
    mean, deviation = kernels.spread(histogram_of(summary), root=root)
    distance = normal_clip(qtype(spec.dtype).bits) * deviation
    low, high = mirrored((mean - distance) ** root, (mean + distance) ** root, spec)
    return max(low, min(summary.range.min, 0.0)), min(high, max(summary.range.max, 0.0))


def normal_clip(bits: int) -> float:
    """Returns how many standard deviations of a normal distribution `bits` bits should reach.

    Least of ``c^2 / (3 * 4^bits) + 2 * integral from c of (x - c)^2``, the squared error of uniform steps inside
    ``[-c, c]`` and of what saturates beyond.

    Source:
        R. Banner et al., "Post training 4-bit quantization of convolutional networks for rapid-deployment", 2019.

    Example:
        >>> [round(normal_clip(bits), 2) for bits in (2, 4, 8)]
        [1.71, 2.56, 3.92]
    """
    low, high = 0.0, 16.0
    for _ in range(60):  # the derivative grows with c: halve until float64 ends
        c = (low + high) / 2
        tail = math.erfc(c / math.sqrt(2)) / 2
        density = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
        falls = c / (3 * 4.0**bits) < 2 * (density - c * tail)
        low, high = (c, high) if falls else (low, c)
    return (low + high) / 2


_PERCENTS = (99.9, 99.99, 99.999)


def minmse(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of the least expected squared error, among powers of two where scales are such."""
    codes = code_range(spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
    find = kernels.power_of_two_range if spec.scale == "power_of_two" else kernels.least_error_range
    return mirrored(*find(histogram_of(summary), *codes, symmetric=spec.symmetric), spec)


def auto(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Returns the range of least expected squared error among those of several methods; the first of equals wins."""
    h = histogram_of(summary)
    return min(_candidates(summary, spec), key=lambda found: squared_error(h, params_for(found[0], found[1], spec)))


def _candidates(summary: TensorSummary, spec: RangeSpec) -> Iterator[ClippingRange]:
    """Yields what ``"auto"`` chooses from.

    Not entropy, which takes as long as all others: of 1115 tensors of four models and five types it won 2, by 0.02
    percent of the error.
    """
    yield minmax(summary, spec)
    yield minmse(summary, spec)
    h = histogram_of(summary)
    yield from (kernels.percentile_range(h, percent, symmetric=spec.mirrored) for percent in _PERCENTS)
