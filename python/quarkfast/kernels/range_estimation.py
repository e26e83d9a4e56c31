"""Range estimation: from the histogram of a tensor to the range of values worth keeping.

Every function reads a :class:`Histogram` alone, takes microseconds to half a millisecond, and gives the same bits on
every machine (``docs/numerics.md``, "Range estimation"). What lies outside a range becomes its nearer end.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from quarkfast import _core
from quarkfast.errors import shown
from quarkfast.kernels.arguments import as_flag, as_integer
from quarkfast.kernels.statistics import Histogram

__all__ = [
    "entropy_range",
    "least_error_range",
    "percentile_range",
    "power_of_two_range",
    "quantization_error",
    "spread",
]

_BINS = 4096


def _view(h: Histogram, where: str) -> tuple[Any, int, tuple[float, float], int]:
    if not isinstance(h, Histogram):
        raise TypeError(f"{where}: h: expected a Histogram, got {shown(h)}")
    return h.counts, h.exponent, (h.range.min, h.range.max), h.range.zero


def _number(value: Any, where: str, argument: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{where}: {argument}: expected a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:  # an int beyond float64
        return math.inf


def _within(value: Any, where: str, argument: str, low: int, high: int) -> int:
    integer = as_integer(value, where, argument)
    if not low <= integer <= high:
        raise ValueError(f"{where}: {argument}: expected {low} to {high}, got {integer}")
    return integer


def _codes(qmin: Any, qmax: Any, where: str) -> tuple[int, int]:
    low, high = as_integer(qmin, where, "qmin"), as_integer(qmax, where, "qmax")
    if not -(1 << 31) <= low < high < 1 << 32:
        raise ValueError(f"{where}: expected codes with -2**31 <= qmin < qmax < 2**32, got {low} and {high}")
    return low, high


def percentile_range(h: Histogram, percentile: float = 99.999, *, symmetric: bool = True) -> tuple[float, float]:
    """Find the range that keeps a share of the values.

    Args:
        h: What was seen.
        percentile: Percent to keep, from 0 to 100; 100 keeps everything, exactly.
        symmetric: Take the share of magnitudes, for a range around zero; otherwise cut half of what is too much at
            either end. Places inside a bin are interpolated linearly.

    Returns:
        Lowest and highest value, not beyond what was seen; (0, 0) where nothing was.

    Raises:
        ValueError: the percentile is out of range.

    Source:
        The Percentile calibrators of onnxruntime and Quark, which return the left edge of a bin instead.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> h = histogram(np.arange(-1000, 1001, dtype=np.float32))
        >>> percentile_range(h, 90.0), percentile_range(h, 90.0, symmetric=False)
        ((-900.475, 900.475), (-900.475, 900.475))
    """
    where = "percentile_range"
    share = _number(percentile, where, "percentile")
    if not 0 <= share <= 100:
        raise ValueError(f"{where}: percentile: expected 0 to 100, got {percentile}")
    return _core.percentile_range(*_view(h, where), share, as_flag(symmetric, where, "symmetric"))


def entropy_range(
    h: Histogram, *, levels: int = 128, rule: Literal["tensorrt", "onnxruntime"] = "tensorrt", bins: int = 2048
) -> tuple[float, float]:
    """Find the symmetric range that loses the least information, as the Kullback-Leibler divergence measures it.

    Args:
        h: What was seen.
        levels: Groups that the values inside are spread over: 128 for the magnitudes of 8-bit codes.
        rule: ``"tensorrt"`` searches the 2048 bins of magnitudes, without zeros. ``"onnxruntime"`` searches windows of
            signed bins with that library's arithmetic, among ``bins`` bins.
        bins: Bins of the ``"onnxruntime"`` rule, a power of two from ``levels`` to 4096.

    Returns:
        Lowest and highest value, not beyond what was seen; (0, 0) where nothing was.

    Raises:
        ValueError: unknown rule, or ``levels`` or ``bins`` out of range.

    Source:
        S. Migacz, "8-bit inference with TensorRT", GTC 2017; onnxruntime's ``HistogramCollector``.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
        >>> low, high = entropy_range(histogram(np.append(x, np.float32(50.0))))
        >>> 4.0 < high < 6.0
        True
    """
    where = "entropy_range"
    levels = _within(levels, where, "levels", 2, _BINS // 2)
    if not isinstance(rule, str) or rule not in ("tensorrt", "onnxruntime"):
        raise ValueError(f"{where}: rule: expected 'tensorrt' or 'onnxruntime', got {shown(rule)}")
    bins = as_integer(bins, where, "bins")
    if not levels <= bins <= _BINS or bins & (bins - 1):
        raise ValueError(f"{where}: bins: expected a power of two from {levels} to {_BINS}, got {bins}")
    if rule == "tensorrt":
        return _core.entropy_range(*_view(h, where), levels)
    return _core.entropy_window_range(*_view(h, where), bins, levels)


def least_error_range(h: Histogram, qmin: int, qmax: int, *, symmetric: bool = True) -> tuple[float, float]:
    """Find the range whose codes leave the least expected squared error.

    Thresholds are fractions of the extremes: 1/8 octave apart over eleven octaves at first, then 1/64 octave apart
    around the best. Where not symmetric both ends shrink together, then each alone.

    Args:
        h: What was seen.
        qmin: Lowest code in use.
        qmax: Highest code in use.
        symmetric: Whether the range mirrors itself around zero.

    Returns:
        Lowest and highest value, not beyond what was seen; (0, 0) where nothing was.

    Raises:
        ValueError: not ``qmin < qmax``, or beyond 32 bits.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
        >>> low, high = least_error_range(histogram(x), -8, 7)
        >>> 2.0 < high < 3.0  # theory: 2.5 standard deviations for four bits
        True
    """
    where = "least_error_range"
    codes = _codes(qmin, qmax, where)
    return _core.least_error_range(*_view(h, where), *codes, as_flag(symmetric, where, "symmetric"))


def power_of_two_range(
    h: Histogram, qmin: int, qmax: int, *, symmetric: bool = True, count: int = 5
) -> tuple[float, float]:
    """Find the range of the power-of-two scale that leaves the least expected squared error.

    Args:
        h: What was seen.
        qmin: Lowest code in use.
        qmax: Highest code in use.
        symmetric: Whether the zero point is the middle of the codes.
        count: Scales to compare, from twice the power nearest to the observed range's scale downwards; from 1 to 32.

    Returns:
        ``(qmin - zero_point) * scale`` and ``(qmax - zero_point) * scale``; (0, 0) where nothing was seen.

    Raises:
        ValueError: not ``qmin < qmax``, beyond 32 bits, or no candidate.

    Source:
        Quark's ``PowerOfTwoMethod.MinMSE``, which takes values at the middles of bins.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
        >>> power_of_two_range(histogram(x), -128, 127)
        (-4.0, 3.96875)
    """
    where = "power_of_two_range"
    codes, count = _codes(qmin, qmax, where), _within(count, where, "count", 1, 32)
    return _core.power_of_two_range(*_view(h, where), *codes, as_flag(symmetric, where, "symmetric"), count)


def quantization_error(h: Histogram, scale: float, zero_point: int, qmin: int, qmax: int) -> float:
    """Return the expected mean squared error of integer codes over what was seen.

    Values count as evenly spread inside a bin, and zeros as exact.

    Args:
        h: What was seen.
        scale: Greater than 0 and within float32.
        zero_point: A code.
        qmin: Lowest code in use.
        qmax: Highest code in use.

    Raises:
        ValueError: an argument is outside those bounds.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import fake_quantize_linear, histogram
        >>> x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
        >>> expected = quantization_error(histogram(x), 0.125, 0, -8, 7)
        >>> measured = np.square(x - fake_quantize_linear(x, 0.125, qmin=-8, qmax=7)).mean()
        >>> bool(abs(expected / measured - 1) < 0.01)
        True
    """
    where = "quantization_error"
    codes, step = _codes(qmin, qmax, where), _number(scale, where, "scale")
    if not 2.0**-149 <= step < 2.0**128:
        raise ValueError(f"{where}: scale: expected a value within float32 and > 0, got {scale}")
    zero_point = _within(zero_point, where, "zero_point", *codes)
    return _core.quantization_error(*_view(h, where), step, zero_point, *codes)


def spread(h: Histogram, *, root: Literal[1, 3] = 1) -> tuple[float, float]:
    """Return mean and standard deviation of what was seen, or of its signed cube root.

    Args:
        h: What was seen; values are taken as the middles of their bins, zeros as zero.
        root: 1, or 3 for onnxruntime's scenario ``"p3"``.

    Raises:
        ValueError: another root.

    Source:
        onnxruntime's Distribution calibrator.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> mean, deviation = spread(histogram(np.float32([-1.0, 1.0])))
        >>> mean, round(deviation, 2)
        (0.0, 1.0)
    """
    if as_integer(root, "spread", "root") not in (1, 3):
        raise ValueError(f"spread: root: expected 1 or 3, got {root}")
    return _core.spread(*_view(h, "spread"), root)
