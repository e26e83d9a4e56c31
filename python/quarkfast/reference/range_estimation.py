"""Range estimation, slow and obvious; a ``HistogramView`` is (counts, exponent, min, max, zeros)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "entropy_divergences",
    "entropy_range",
    "entropy_window_range",
    "least_error_range",
    "percentile_range",
    "power_of_two_range",
    "qparams_from_range",
    "quantization_error",
    "spread",
]

Array = NDArray[Any]
HistogramView = tuple[Array, int, float, float, int]
ClippingRange = tuple[float, float]

_SIDE = 2048


def _limited(h: HistogramView, threshold: float) -> ClippingRange:
    return max(-threshold, h[2]), min(threshold, h[3])


def _absmax(h: HistogramView) -> float:
    return max(-h[2], h[3])


def _quantile(counts: Array, rank: float, zeros_before: Array, zeros_behind: Array) -> float:
    """Where `rank` of the counts lie below, in bins; zeros lie at the edge where a bin is entered, or left."""
    below = np.concatenate([[0], np.cumsum(counts)]).astype(np.float64)
    filled = np.flatnonzero(counts)
    for i in filled:
        if below[i + 1] >= rank:
            into = rank - below[i] - float(zeros_before[i])
            spread = float(counts[i]) - float(zeros_before[i]) - float(zeros_behind[i])
            return float(i + (0.0 if into <= 0 else 1.0 if into >= spread else into / spread))
    return float(filled[-1] + 1)


def percentile_range(h: HistogramView, percentile: float, symmetric: bool) -> ClippingRange:
    """Interpolate linearly inside the bin where the share is reached, from zero or from either end."""
    counts, exponent, low, high, zeros = h
    total = float(counts.sum())
    if not total:
        return 0.0, 0.0
    if percentile >= 100:
        return _limited(h, _absmax(h)) if symmetric else (low, high)
    at_zero, none = np.zeros(2 * _SIDE), np.zeros(2 * _SIDE)
    at_zero[_SIDE] = zeros
    if symmetric:
        folded = counts[_SIDE:] + counts[:_SIDE][::-1]
        threshold = _quantile(folded, total * (percentile / 100), at_zero[_SIDE:], none[_SIDE:])
        return _limited(h, threshold * 2.0**exponent)
    cut = total * ((100 - percentile) / 200)
    first = (_quantile(counts, cut, at_zero, none) - _SIDE) * 2.0**exponent
    last = (_SIDE - _quantile(counts[::-1], cut, none, at_zero[::-1])) * 2.0**exponent
    return min(max(first, low), high), max(min(last, high), low)


def entropy_divergences(h: HistogramView, levels: int) -> dict[int, float]:
    """The divergence of each threshold, by its number of bins: P is the magnitudes cut there, Q their groups' means."""
    counts = (h[0][_SIDE:] + h[0][:_SIDE][::-1]).astype(np.float64)
    counts[0] -= h[4]
    found = {}
    for bins in range(levels, int(np.flatnonzero(counts).max(initial=-1)) + 2):
        p, q = counts[:bins].copy(), np.zeros(bins)
        p[-1] += counts[bins:].sum()
        group = np.arange(bins) * levels // bins
        sums, filled = np.bincount(group, counts[:bins]), np.bincount(group, p > 0)
        q[p > 0] = (sums / np.maximum(filled, 1))[group][p > 0]
        if (q[p > 0] == 0).any():
            found[bins] = np.inf
            continue
        share, spread = p[p > 0] / p.sum(), q[p > 0] / q.sum()
        found[bins] = float((share * np.log2(share / spread)).sum())
    return found


def entropy_range(h: HistogramView, levels: int) -> ClippingRange:
    """The threshold of the first least divergence."""
    if not h[2] <= h[3]:
        return 0.0, 0.0
    found = entropy_divergences(h, levels)
    best = min(found, key=lambda bins: found[bins], default=None)
    if best is None or best == max(found):
        return _limited(h, _absmax(h))
    return _limited(h, best * 2.0 ** h[1])


def entropy_window_range(h: HistogramView, bins: int, levels: int) -> ClippingRange:
    """onnxruntime's search, from its documentation and arithmetic, in float64."""
    if not h[2] <= h[3]:
        return 0.0, 0.0
    counts = h[0].reshape(bins, -1).sum(axis=1).astype(np.int64)
    edges = np.arange(-bins // 2, bins // 2 + 1) * (2 * _SIDE // bins) * 2.0 ** h[1]
    found = {}
    for half in range(levels // 2, bins // 2 + 1):
        start, end = bins // 2 - half, min(bins // 2 + half + 1, bins)
        inside = counts[start:end]
        p = inside.astype(np.float64)
        p[0] += counts[:start].sum()
        p[-1] += counts[end:].sum()
        group = inside.size // levels
        sums = inside[: group * levels].reshape(levels, group).sum(axis=1)
        sums[-1] += inside[group * levels :].sum()
        filled = (p != 0)[: group * levels].reshape(levels, group).sum(axis=1)
        q = np.zeros(p.size)
        q[: group * levels] = np.repeat(np.where(filled > 0, sums // np.maximum(filled, 1), 0), group)
        found[half] = np.inf
        if p.any() and q.any():
            p, q = _smooth(p), _smooth(q)
            found[half] = float((p * np.log2(p / q)).sum())
    best = min(found, key=lambda half: found[half])
    start, end = bins // 2 - best, min(bins // 2 + best + 1, bins)
    return max(float(edges[start]), h[2]), min(float(edges[end]), h[3])


def _smooth(p: Array) -> Array:
    """Give each empty bin 1e-4, taken evenly from the others."""
    empty = p == 0
    moved: Array = np.where(empty, 1e-4, p - 1e-4 * empty.sum() / (~empty).sum())
    moved /= moved.sum()
    return moved


def qparams_from_range(found: ClippingRange, qmin: int, qmax: int, symmetric: bool) -> tuple[float, int]:
    """Scale, rounded to float32, and zero point of a range widened to hold zero and, where symmetric, its mirror."""
    end = float(np.finfo(np.float32).max) / 2  # the difference of two is finite in float32
    low, high = max(min(found[0], 0.0), -end), min(max(found[1], 0.0), end)
    if symmetric:
        high = max(-low, high)
        low = -high
    exact = (high - low) / (qmax - qmin)
    middle = int(np.rint((qmin + qmax) / 2))
    if exact == 0:
        return 1.0, middle if symmetric else int(np.clip(0, qmin, qmax))
    step = max(exact, 2.0**-126)
    zero = middle if symmetric else int(np.clip(np.rint(qmin - low / step), qmin, qmax))
    return float(np.float32(step)), zero


def quantization_error(h: HistogramView, scale: float, zero_point: int, qmin: int, qmax: int) -> float:
    """The mean squared error, by integrating piece by piece between the places where the code changes."""
    counts, exponent, _, _, zeros = h
    width = 2.0**exponent
    total = 0.0
    for i in np.flatnonzero(counts):
        weight = float(counts[i]) - (zeros if i == _SIDE else 0)
        left, right = (i - _SIDE) * width, (i - _SIDE + 1) * width
        first, last = (int(np.clip(np.rint(v / scale), qmin - zero_point, qmax - zero_point)) for v in (left, right))
        for code in range(first, last + 1):
            a = left if code == first else (code - 0.5) * scale
            b = right if code == last else (code + 0.5) * scale
            total += weight / width * ((b - code * scale) ** 3 - (a - code * scale) ** 3) / 3
    return total / float(counts.sum()) if counts.any() else 0.0


def _least(steps: int, error: Any) -> int:
    """The step of the least error: every eighth first, then those around the best; the first of equals."""
    found = {g: error(g) for g in range(0, steps, 8)}
    best = min(found, key=lambda g: found[g])
    for g in range(max(0, best - 7), min(steps, best + 8)):
        found.setdefault(g, error(g))
    return min(found, key=lambda g: found[g])


def _shrunk(step: int) -> float:
    return (128 - step % 64) / 128 * 2.0 ** -(step // 64)


def least_error_range(
    h: HistogramView, qmin: int, qmax: int, symmetric: bool, error: Any = quantization_error
) -> ClippingRange:
    """Shrink both ends together, then each alone where there are two."""
    if not h[2] <= h[3]:
        return 0.0, 0.0

    def cost(low: float, high: float) -> float:
        return float(error(h, *qparams_from_range((low, high), qmin, qmax, symmetric), qmin, qmax))

    if symmetric:
        top = _absmax(h)
        return _limited(h, top * _shrunk(_least(704, lambda g: cost(-top * _shrunk(g), top * _shrunk(g)))))
    low, high = min(h[2], 0.0), max(h[3], 0.0)
    both = _shrunk(_least(704, lambda g: cost(low * _shrunk(g), high * _shrunk(g))))
    first, last = low * both, high * both
    if first < 0 < last:
        last = high * _shrunk(_least(128, lambda g: cost(first, high * _shrunk(g))))
        first = low * _shrunk(_least(128, lambda g: cost(low * _shrunk(g), last)))
    return max(first, h[2]), min(last, h[3])


def power_of_two_range(h: HistogramView, qmin: int, qmax: int, symmetric: bool, count: int) -> ClippingRange:
    """Compare twice the power of two nearest to the range's scale, itself, its half, ...; the first of equals."""
    if not h[2] <= h[3]:
        return 0.0, 0.0
    scale, zero = qparams_from_range((h[2], h[3]), qmin, qmax, symmetric)
    nearest = int(np.rint(np.log2(scale)))
    best = 2.0**nearest
    if h[2] < 0 or h[3] > 0:
        least = np.inf
        for i in range(count):
            candidate = 2.0 ** int(np.clip(nearest + 1 - i, -126, 127))
            error = quantization_error(h, candidate, zero, qmin, qmax)
            if error < least * (1 - 2.0**-20):  # errors that differ by rounding alone count as equal
                least, best = error, candidate
    return (qmin - zero) * best, (qmax - zero) * best


def spread(h: HistogramView, root: int) -> tuple[float, float]:
    """Mean and deviation of the middles of bins, or of their cube roots; zeros are zero."""
    counts = h[0].astype(np.float64)
    total = counts.sum()
    counts[_SIDE] -= h[4]
    middles = (np.arange(-_SIDE, _SIDE) + 0.5) * 2.0 ** h[1]
    values = np.cbrt(middles) if root == 3 else middles
    mean = (counts * values).sum() / total
    return float(mean), float(np.sqrt(max((counts * values**2).sum() / total - mean**2, 0.0)))
