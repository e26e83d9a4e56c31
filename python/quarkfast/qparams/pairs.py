"""Pairs of neighbouring codes of a weight whose products a processor without VNNI adds in saturating 16 bits.

There (x86 with AVX2 or AVX-512 alone) onnxruntime multiplies codes of 0 to 255 with int8 weights by VPMADDUBSW, which
adds the products of the 1st and 2nd, 3rd and 4th, ... code that an output sums over. Weights of one sign in a pair add
up: with activations up to 255 their magnitudes must not exceed 128 together.

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
"""How the codes that an output sums over lie in a weight: as a convolution's ``[M, C, *kernel]``, which are added
position by position and channel by channel within; as rows of ``[N, K]``; or as columns of ``[..., K, N]``."""

HIGHEST = 255
_MOST, _LEAST = 32767, -32768
# Of the least-squares problem without rounding, a first code that is n steps off costs n^2 more; that the second is
# rounded down costs at most 2 * 127 + 1. So the best first code is within 16 steps.
_WINDOW = np.arange(-16, 17)
# Twice its size leaves codes 7 bits, which never overflow.
_STEPS = 16
# Pairs that are fitted at once: their candidates take 33 numbers each.
_AT_ONCE = 1 << 16


def rows_of(weight: NDArray[Any], order: Order) -> NDArray[Any]:
    """Returns ``[N, K]``: one row for each output, in the order in which products are added up.

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
    """Returns a contiguous weight of `shape` whose rows these are.

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
    """Returns which pairs of neighbours can take a sum beyond 16 bits: from ``[N, K]`` to ``[N, K // 2]``.

    Args:
        rows: Codes in the order of the sum; an odd last one has no neighbour.
        highest: Largest code of the activation that each of them is multiplied with, ``[N, K]``; 255 by default.

    Example:
        >>> import numpy as np
        >>> overflowing_pairs(np.int8([[64, 64, 64, 65, -64, -65, 127, -128]])).tolist()
        [[False, True, True, False]]
    """
    first, second = (rows[:, start : rows.shape[1] // 2 * 2 : 2] for start in (0, 1))
    if highest is None:  # in codes, which fit 16 bits
        first, second = first.astype(np.int16), second.astype(np.int16)
        most, least = _MOST // HIGHEST, -(-_LEAST // HIGHEST)
    else:
        reach = _paired(highest)
        first, second = first * reach[:, :, 0], second * reach[:, :, 1]
        most, least = _MOST, _LEAST
    found: NDArray[np.bool_] = np.maximum(first, 0) + np.maximum(second, 0) > most
    found |= np.minimum(first, 0) + np.minimum(second, 0) < least
    return found


def fit_pairs(
    rows: NDArray[np.int8], wanted: NDArray[np.float32], highest: NDArray[np.int64] | None = None
) -> NDArray[np.int8]:
    """Returns codes none of whose pairs can overflow: those of least squared error, pair by pair.

    Codes of pairs that cannot overflow stay; the others become smaller, and none changes its sign.

    Args:
        rows: Codes ``[N, K]``.
        wanted: What they stand for, in steps and with the zero point added: `rows` before rounding.
        highest: As in :func:`overflowing_pairs`.

    Example:
        >>> import numpy as np
        >>> fit_pairs(np.int8([[90, 60, 127, 1]]), np.float32([[90.4, 59.8, 140.0, 1.2]])).tolist()
        [[79, 49, 127, 1]]
    """
    found = rows.copy()
    row, pair = np.nonzero(overflowing_pairs(rows, highest))
    for start in range(0, len(row), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        places = row[part, None], 2 * pair[part, None] + np.arange(2)
        reach = np.full(places[1].shape, HIGHEST) if highest is None else highest[places]
        found[places] = _nearest(rows[places].astype(np.int64), wanted[places].astype(np.float64), reach)
    return found


def grow_scales(
    exact: NDArray[np.float32],
    channel: NDArray[np.int64],
    zero: NDArray[np.int64],
    ends: tuple[int, int],
    highest: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Returns what the scale of each channel grows by, 1 to 2 in steps of 1/16: least squared error of fitted codes.

    Pairs that overflow and codes that are cut with the scale as it is are fitted; all others have the error of rounding
    evenly, a twelfth of a step squared.

    Args:
        exact: Weights over their scales, ``[N, K]`` in the order of the sum.
        channel: The scale of each row.
        zero: Zero point of each row.
        ends: Lowest and highest code.
        highest: As in :func:`overflowing_pairs`.
    """
    if exact.shape[1] % 2:
        exact = np.pad(exact, ((0, 0), (0, 1)))
        highest = None if highest is None else np.pad(highest, ((0, 0), (0, 1)))
    wanted = np.rint(exact) + zero[:, None]
    cut = _paired((wanted < ends[0]) | (wanted > ends[1])).any(axis=2)
    row, pair = np.nonzero(overflowing_pairs(np.clip(wanted, *ends).astype(np.int8), highest) | cut)
    own, reach = _paired(exact)[row, pair], None if highest is None else _paired(highest)[row, pair]
    middle, count = zero[row, None], int(channel.max(initial=0)) + 1
    others = np.bincount(channel, minlength=count) * exact.shape[1] - 2 * np.bincount(channel[row], minlength=count)
    factors, errors = 1 + np.arange(_STEPS + 1) / _STEPS, []
    for factor in factors:
        smaller = (own / np.float32(factor)).astype(np.float32)
        codes = np.clip(np.rint(smaller) + middle, *ends).astype(np.int8)
        fitted = fit_pairs(codes, smaller + middle.astype(np.float32), reach)
        error = np.square((fitted - middle) * factor - own).sum(axis=1)
        errors.append(others * factor**2 / 12 + np.bincount(channel[row], error, count))
    found: NDArray[np.float64] = factors[np.argmin(errors, axis=0)]
    return found


def _nearest(codes: NDArray[np.int64], wanted: NDArray[np.float64], reach: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the nearest codes ``[P, 2]`` that fit, of pairs of one sign that do not."""
    negative = codes.sum(axis=1) < 0
    limit = np.where(negative, -_LEAST, _MOST)
    sizes = np.abs(codes)
    target = np.where(negative[:, None], -wanted, wanted)
    over = (reach * target).sum(axis=1) - limit
    ideal = target[:, 0] - over * reach[:, 0] / np.square(reach).sum(axis=1)
    first = np.clip(np.rint(ideal)[:, None] + _WINDOW, 0, sizes[:, :1]).astype(np.int64)
    first = np.minimum(first, limit[:, None] // np.maximum(reach[:, :1], 1))
    second = (limit[:, None] - first * reach[:, :1]) // np.maximum(reach[:, 1:], 1)
    second = np.minimum(second, sizes[:, 1:])
    error = np.square(first - target[:, :1]) + np.square(second - target[:, 1:])
    best = np.arange(len(codes)), error.argmin(axis=1)
    chosen = np.stack([first[best], second[best]], axis=1)
    return np.where(negative[:, None], -chosen, chosen)


def _paired(rows: NDArray[Any]) -> NDArray[Any]:
    pairs = rows.shape[1] // 2
    return rows[:, : 2 * pairs].reshape(len(rows), pairs, 2)
