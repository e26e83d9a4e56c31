"""Pairs of weight codes whose products saturate: a processor without VNNI adds them in 16 bits.

On such a processor (x86 with AVX2 or AVX-512 alone) onnxruntime multiplies uint8 activations with int8 weights by the
instruction VPMADDUBSW. It adds the products of the 1st and 2nd, of the 3rd and 4th, ... code of an output's sum in 16
bits. Weights of the same sign add up: with activations up to 255 the magnitudes of a pair must not exceed 128 together.

Source:
    onnxruntime, "Quantize ONNX models", section "When to use reduce-range and per-channel quantization"; the order of
    products was checked against onnxruntime on such a processor (``bench/without_vnni.py``).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIGHEST", "Order", "fit_pairs", "from_rows", "grow_scales", "overflowing_pairs", "rows_of"]

Order = Literal["kernel", "rows", "columns"]
"""Layout of a weight: ``"kernel"`` is ``[M, C, *kernel]`` of a convolution, ``"rows"`` is ``[N, K]``, and ``"columns"``
is ``[..., K, N]``. An output of a convolution sums over all channels of the first kernel position, then of the next."""

HIGHEST = 255
"""Largest code of a uint8 activation."""

_INT16_MAX, _INT16_MIN = 32767, -32768
# Of the least-squares problem without rounding, a first code that is n steps off costs n^2 more; that the second is
# rounded down costs at most 2 * 127 + 1. So the best first code is within 16 steps.
_WINDOW = np.arange(-16, 17)
# Steps from a scale to twice that scale, where codes have 7 bits and never overflow.
_SCALE_STEPS = 16
# Pairs that are fitted at once, which bounds memory: each has 33 candidates.
_CHUNK = 1 << 16


def rows_of(weight: NDArray[Any], order: Order) -> NDArray[Any]:
    """Returns a weight as ``[N, K]``: one row for each output, in the order in which its products are added.

    Example:
        >>> import numpy as np
        >>> rows_of(np.arange(8).reshape(1, 2, 2, 2), "kernel")
        array([[0, 4, 1, 5, 2, 6, 3, 7]])
    """
    if order == "kernel":
        return np.moveaxis(weight, 1, -1).reshape(len(weight), -1)
    if order == "rows" or weight.ndim < 2:
        return weight.reshape(-1, weight.shape[-1])
    return np.swapaxes(weight, -1, -2).reshape(-1, weight.shape[-2])


def from_rows(rows: NDArray[Any], shape: tuple[int, ...], order: Order) -> NDArray[Any]:
    """Returns the contiguous weight of `shape` that has these rows: the inverse of :func:`rows_of`.

    Example:
        >>> import numpy as np
        >>> weight = np.arange(12).reshape(2, 3, 2)
        >>> bool((from_rows(rows_of(weight, "columns"), weight.shape, "columns") == weight).all())
        True
    """
    if order == "kernel":
        return np.ascontiguousarray(np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1))
    if order == "rows" or len(shape) < 2:
        return rows.reshape(shape)
    return np.ascontiguousarray(np.swapaxes(rows.reshape(*shape[:-2], shape[-1], shape[-2]), -1, -2))


def overflowing_pairs(rows: NDArray[np.int8], highest: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Returns whether the products of each pair of codes may leave 16 bits: from ``[N, K]`` to ``[N, K // 2]``.

    Args:
        rows: Weight codes in the order of the sum. The last of an odd number has no partner and cannot overflow.
        highest: Largest activation code that each weight code is multiplied with, ``[N, K]``; 255 by default.

    Example:
        >>> import numpy as np
        >>> overflowing_pairs(np.int8([[64, 64, 64, 65, -64, -65, 127, -128]])).tolist()
        [[False, True, True, False]]
    """
    first, second = (rows[:, start : rows.shape[1] // 2 * 2 : 2] for start in (0, 1))
    if highest is None:  # the limits are divided by 255 instead of multiplying codes: int16 is wide enough
        first, second = first.astype(np.int16), second.astype(np.int16)
        most, least = _INT16_MAX // HIGHEST, -(-_INT16_MIN // HIGHEST)
    else:
        activations = _paired(highest)
        first, second = first * activations[:, :, 0], second * activations[:, :, 1]
        most, least = _INT16_MAX, _INT16_MIN
    overflows: NDArray[np.bool_] = np.maximum(first, 0) + np.maximum(second, 0) > most
    overflows |= np.minimum(first, 0) + np.minimum(second, 0) < least
    return overflows


def fit_pairs(
    rows: NDArray[np.int8], wanted: NDArray[np.float32], highest: NDArray[np.int64] | None = None
) -> NDArray[np.int8]:
    """Returns the codes of least squared error among those whose pairs cannot overflow.

    Pairs that cannot overflow keep their codes. Codes of the others become smaller; none changes its sign.

    Args:
        rows: Weight codes ``[N, K]``.
        wanted: The same before rounding and clipping: weights over their scale, plus the zero point.
        highest: As in :func:`overflowing_pairs`.

    Example:
        >>> import numpy as np
        >>> fit_pairs(np.int8([[90, 60, 127, 1]]), np.float32([[90.4, 59.8, 140.0, 1.2]])).tolist()
        [[79, 49, 127, 1]]
    """
    fitted = rows.copy()
    row, pair = np.nonzero(overflowing_pairs(rows, highest))
    for start in range(0, len(row), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        places = row[chunk, None], 2 * pair[chunk, None] + np.arange(2)
        activations = np.full(places[1].shape, HIGHEST) if highest is None else highest[places]
        fitted[places] = _nearest(rows[places].astype(np.int64), wanted[places].astype(np.float64), activations)
    return fitted


def grow_scales(
    exact: NDArray[np.float32],
    channel: NDArray[np.int64],
    zero: NDArray[np.int64],
    ends: tuple[int, int],
    highest: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Returns the factor for the scale of each channel, 1 to 2 in steps of 1/16, of least squared error once codes fit.

    The error of a pair is computed where it overflows or is clipped with factor 1. All others count as evenly
    distributed between two codes, with an error of a twelfth of a squared step.

    Args:
        exact: Weights over their scales, ``[N, K]`` in the order of the sum.
        channel: Index of the scale of each row.
        zero: Zero point of each row.
        ends: Lowest and highest code.
        highest: As in :func:`overflowing_pairs`.
    """
    if exact.shape[1] % 2:
        exact = np.pad(exact, ((0, 0), (0, 1)))
        highest = None if highest is None else np.pad(highest, ((0, 0), (0, 1)))
    wanted = np.rint(exact) + zero[:, None]
    clipped = _paired((wanted < ends[0]) | (wanted > ends[1])).any(axis=2)
    row, pair = np.nonzero(overflowing_pairs(np.clip(wanted, *ends).astype(np.int8), highest) | clipped)
    fitting, activations = _paired(exact)[row, pair], None if highest is None else _paired(highest)[row, pair]
    zero_points, channels = zero[row, None], int(channel.max(initial=0)) + 1
    others = np.bincount(channel, minlength=channels) * exact.shape[1]
    others -= 2 * np.bincount(channel[row], minlength=channels)
    factors, errors = 1 + np.arange(_SCALE_STEPS + 1) / _SCALE_STEPS, []
    for factor in factors:
        steps = (fitting / np.float32(factor)).astype(np.float32)
        codes = np.clip(np.rint(steps) + zero_points, *ends).astype(np.int8)
        fitted = fit_pairs(codes, steps + zero_points.astype(np.float32), activations)
        error = np.square((fitted - zero_points) * factor - fitting).sum(axis=1)
        errors.append(others * factor**2 / 12 + np.bincount(channel[row], error, channels))
    best: NDArray[np.float64] = factors[np.argmin(errors, axis=0)]
    return best


def _nearest(
    codes: NDArray[np.int64], wanted: NDArray[np.float64], activations: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the codes nearest to `wanted` that fit, for pairs ``[P, 2]`` that overflow; both codes have one sign."""
    negative = codes.sum(axis=1) < 0
    limit = np.where(negative, -_INT16_MIN, _INT16_MAX)
    sizes = np.abs(codes)
    target = np.where(negative[:, None], -wanted, wanted)
    # Without rounding, the best pair is the projection of the target to the line where the sum meets the limit.
    over = (activations * target).sum(axis=1) - limit
    ideal = target[:, 0] - over * activations[:, 0] / np.square(activations).sum(axis=1)
    first = np.clip(np.rint(ideal)[:, None] + _WINDOW, 0, sizes[:, :1]).astype(np.int64)
    first = np.minimum(first, limit[:, None] // np.maximum(activations[:, :1], 1))
    second = (limit[:, None] - first * activations[:, :1]) // np.maximum(activations[:, 1:], 1)
    second = np.minimum(second, sizes[:, 1:])
    error = np.square(first - target[:, :1]) + np.square(second - target[:, 1:])
    best = np.arange(len(codes)), error.argmin(axis=1)
    chosen = np.stack([first[best], second[best]], axis=1)
    return np.where(negative[:, None], -chosen, chosen)


def _paired(rows: NDArray[Any]) -> NDArray[Any]:
    """Returns ``[N, K // 2, 2]`` from ``[N, K]``, without the last of an odd number."""
    pairs = rows.shape[1] // 2
    return rows[:, : 2 * pairs].reshape(len(rows), pairs, 2)
