"""Expected noise of power-of-two scales, as a function of the factor that a tensor is multiplied by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels, qparams
from quarkfast.config import TensorSpec
from quarkfast.kernels import Histogram, Range
from quarkfast.ranges.error_norm import ErrorNorm
from quarkfast.ranges.registry import METHODS

__all__ = [
    "POSITIONS",
    "Noise",
    "anchor_of",
    "factor_of",
    "noise_of_activations",
    "noise_of_weight",
    "range_of_scale",
    "searches",
]

#: Factors that are tried in an octave.
POSITIONS = 16

# As many scales as the search for powers of two compares, from twice the nearest downwards.
_CANDIDATES = 5

# Of a step below the last code, a limit has that code.
_ROUNDED_UP = 0.49

# Values up to which a constant is rounded itself; the histogram of a larger one says the same in less time.
_MOST_VALUES = 1 << 16


def factor_of(position: int) -> float:
    """Returns ``2^(position / 16)``, of the octave around 1: positions that are 16 apart mean the same.

    Example:
        >>> factor_of(0), factor_of(8), factor_of(24)
        (1.0, 0.7071067811865476, 0.7071067811865476)
    """
    return float(2.0 ** (_centred(position) / POSITIONS))


def anchor_of(limit: float, spec: TensorSpec) -> float:
    """Returns what factors are multiplied by, less than a position, so that one has a limit where the last code is.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> anchor = anchor_of(6.0, PRESETS["XINT8"].activation)
        >>> factors = [anchor * factor_of(position) for position in range(16)]
        >>> min(abs(6.0 * factor - 127 / 16) for factor in factors) < 1e-6
        True
    """
    q = _params(0.0, limit, spec)
    position = POSITIONS * math.log2((int(q.qmax) - int(q.zero_point)) / limit)
    return float(np.float32(2.0 ** ((position - round(position)) / POSITIONS)))


def _centred(position: int) -> int:
    return (position + POSITIONS // 2) % POSITIONS - POSITIONS // 2


class Noise(NamedTuple):
    """Ratio of noise to signal for each position of a factor, and the scale that leaves it.

    Attributes:
        ratios: float64, one for each position.
        scales: The power of two for the tensor once it is multiplied, one for each position.
    """

    ratios: NDArray[np.float64]
    scales: NDArray[np.float64]


def noise_of_activations(
    histograms: Sequence[Histogram],
    spec: TensorSpec,
    power: float = 2.0,
    limit: float = math.inf,
    anchor: float = 1.0,
) -> Noise | None:
    """Returns the noise of tensors that share a factor and a scale, added up; None where one has no values but zero.

    Args:
        histograms: What samples showed of each tensor.
        spec: Integers with a power-of-two scale of least error.
        power: Of `quarkfast.ranges.error_norm.POWERS`: the mean of errors raised to it counts, and the square of its
            root stands for the noise.
        limit: Upper limit of the tensors, which must have the last code once a factor moves it.
        anchor: What factors of positions other than 0 are multiplied by.
    """
    known = [(histogram, *kernels.spread(histogram)) for histogram in histograms]
    if any(mean == 0 and deviation == 0 for _, mean, deviation in known):
        return None
    params = [_params(histogram.range.min, histogram.range.max, spec) for histogram in histograms]
    errors = [_mean_error(each, q, power) for each, q in zip(histograms, params, strict=True)]

    def error(scale: float) -> float:
        return math.fsum(
            error(scale) / (mean**2 + deviation**2) for error, (_, mean, deviation) in zip(errors, known, strict=True)
        )

    reach = [float(q.scale) for q in params]
    most = limit / (max(int(q.qmax) - int(q.zero_point) for q in params) - _ROUNDED_UP)
    return _table(error, max(reach), math.ceil(math.log2(max(reach) / min(reach))), most, anchor)


def _mean_error(h: Histogram, q: qparams.QParams, power: float) -> Callable[[float], float]:
    """Returns what makes the mean square of the error, or what stands for it, of a scale."""
    zero, low, high = int(q.zero_point), int(q.qmin), int(q.qmax)
    if power == 2:
        return lambda scale: kernels.quantization_error(h, scale, zero, low, high)
    norm = ErrorNorm(h)

    def error(scale: float) -> float:
        mean = norm.total(norm.of(scale, low - zero, high - zero), power) / norm.count
        return float(np.float32(mean ** (2 / power)))  # a power of any exponent is not rounded alike by all processors

    return error


def noise_of_weight(values: NDArray[np.float32], spec: TensorSpec) -> Noise | None:
    """Returns the noise of a constant with one power-of-two scale of least error; None where all of it is zero."""
    signal = float(np.square(values, dtype=np.float64).sum()) / max(values.size, 1)
    if not 0 < signal < math.inf:
        return None
    q = _params(values.min(), values.max(), spec)
    zero, low, high = int(q.zero_point), int(q.qmin), int(q.qmax)
    if values.size > _MOST_VALUES:
        histogram = kernels.histogram(np.ascontiguousarray(values))
        return _table(lambda s: kernels.quantization_error(histogram, s, zero, low, high) / signal, float(q.scale))

    def error(scale: float) -> float:
        rounded = kernels.fake_quantize_linear(
            values, np.float32(scale), q.zero_point, dtype=spec.dtype, qmin=low, qmax=high
        )
        return float(np.square(np.subtract(values, rounded, dtype=np.float64)).mean()) / signal

    return _table(error, float(q.scale))


def searches(spec: TensorSpec) -> bool:
    """Whether the scale of `spec` is the power of two of least error."""
    return spec.format.is_integer and spec.scale == "power_of_two" and METHODS[spec.method].searches_constants


def range_of_scale(seen: Range, scale: float, spec: TensorSpec) -> tuple[float, float]:
    """Returns the values of the lowest and the highest code of `spec` with `scale`, where these extremes were seen."""
    q = _params(seen.min, seen.max, spec)
    return (int(q.qmin) - int(q.zero_point)) * scale, (int(q.qmax) - int(q.zero_point)) * scale


def _params(low: Any, high: Any, spec: TensorSpec) -> qparams.QParams:
    return qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)


def _table(
    error: Callable[[float], float], reach: float, more: int = 0, most: float = math.inf, anchor: float = 1.0
) -> Noise:
    """Returns the least of the errors of several powers of two, for each position.

    Args:
        error: From a scale for the tensor as it is to its noise.
        reach: The scale that reaches the extremes.
        more: How many powers of two to go further down than one tensor's search does.
        most: The largest scale for the tensor as it is, at positions other than 0.
        anchor: What factors of these positions are multiplied by.
    """
    ratios, scales = np.empty(POSITIONS), np.empty(POSITIONS)
    for position in range(POSITIONS):
        factor = factor_of(position) * (anchor if position else 1.0)
        top = round(math.log2(reach * factor)) + 1
        powers = [2.0 ** (top - each) for each in range(_CANDIDATES + more)]
        candidates = [scale for scale in powers if position == 0 or scale <= most * factor]
        errors = [error(scale / factor) for scale in candidates]
        best = int(np.argmin(errors))
        ratios[position], scales[position] = errors[best], candidates[best]
    return Noise(ratios, scales)
