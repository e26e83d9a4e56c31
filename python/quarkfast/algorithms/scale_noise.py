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
from quarkfast.ranges.registry import METHODS

__all__ = ["POSITIONS", "Noise", "factor_of", "noise_of_activations", "noise_of_weight", "range_of_scale", "searches"]

#: Factors that are tried in an octave.
POSITIONS = 16

# As many scales as the search for powers of two compares, from twice the nearest downwards.
_CANDIDATES = 5

# Values up to which a constant is rounded itself; the histogram of a larger one says the same in less time.
_MOST_VALUES = 1 << 16


def factor_of(position: int) -> float:
    """Returns ``2^(position / 16)``, of the octave around 1: positions that are 16 apart mean the same.

    Example:
        >>> factor_of(0), factor_of(8), factor_of(24)
        (1.0, 0.7071067811865476, 0.7071067811865476)
    """
    return float(2.0 ** (_centred(position) / POSITIONS))


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


def noise_of_activations(histograms: Sequence[Histogram], spec: TensorSpec) -> Noise | None:
    """Returns the noise of tensors that share a factor and a scale, added up; None where one has no values but zero.

    Args:
        histograms: What samples showed of each tensor.
        spec: Integers with a power-of-two scale of least error.
    """
    known = [(histogram, *kernels.spread(histogram)) for histogram in histograms]
    if any(mean == 0 and deviation == 0 for _, mean, deviation in known):
        return None
    params = [_params(histogram.range.min, histogram.range.max, spec) for histogram in histograms]

    def error(scale: float) -> float:
        return math.fsum(
            kernels.quantization_error(each, scale, int(q.zero_point), int(q.qmin), int(q.qmax)) / (mean**2 + dev**2)
            for (each, mean, dev), q in zip(known, params, strict=True)
        )

    reach = [float(q.scale) for q in params]
    return _table(error, max(reach), math.ceil(math.log2(max(reach) / min(reach))))


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


def _table(error: Callable[[float], float], reach: float, more: int = 0) -> Noise:
    """Returns the least of the errors of several powers of two, for each position.

    Args:
        error: From a scale for the tensor as it is to its noise.
        reach: The scale that reaches the extremes.
        more: How many powers of two to go further down than one tensor's search does.
    """
    ratios, scales = np.empty(POSITIONS), np.empty(POSITIONS)
    for position in range(POSITIONS):
        factor = factor_of(position)
        top = round(math.log2(reach * factor)) + 1
        candidates = [2.0 ** (top - each) for each in range(_CANDIDATES + more)]
        errors = [error(scale / factor) for scale in candidates]
        best = int(np.argmin(errors))
        ratios[position], scales[position] = errors[best], candidates[best]
    return Noise(ratios, scales)
