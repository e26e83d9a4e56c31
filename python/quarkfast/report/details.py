"""The data from which the page's script draws histograms and channels, when somebody wants to see them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import Bins, Channels, Records, TensorRecord
from quarkfast.report.content import Content

__all__ = ["ALPHABET", "details_json", "levels"]

#: 64 characters, one for each height of a bar, the lowest first; none has a meaning in HTML or JSON.
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"


def levels(values: ArrayLike, low: float, high: float) -> str:
    """Returns one character for each value: its place between `low` and `high`, in 63 steps.

    Example:
        >>> levels([0.0, 0.5, 1.0], 0.0, 1.0)
        '0W_'
    """
    width = high - low
    if not width > 0:
        return ALPHABET[0] * np.size(values)
    places = np.rint((np.asarray(values, np.float64) - low) / width * 63).clip(0, 63).astype(int)
    return "".join(ALPHABET[place] for place in places)


def details_json(content: Content) -> str:
    """Returns JSON that may stand in a script element: no character in it can end one.

    ``nodes`` has the indices of the tensors that each node reads and computes, ``tensors`` what is known of each.
    """
    records = content.records
    place = {name: index for index, name in enumerate(records.tensors)}
    measured = {row.tensor: row for row in content.compared}
    tensors = [_tensor(record, place, measured.get(name)) for name, record in records.tensors.items()]
    text = json.dumps({"nodes": _nodes(records, place), "tensors": tensors}, separators=(",", ":"), allow_nan=False)
    for each in "<>&\u2028\u2029":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return text


def _nodes(records: Records, place: dict[str, int]) -> list[list[list[int]]]:
    return [
        [[place[name] for name in dict.fromkeys(names) if name in place] for names in (node.inputs, node.outputs)]
        for node in records.nodes
    ]


def _tensor(record: TensorRecord, place: dict[str, int], measured: TensorComparison | None) -> dict[str, Any]:
    """Returns what is known, in short keys, since a model has hundreds of tensors."""
    found = {
        "n": record.name,
        "k": record.kind,
        "t": record.dtype,
        "s": record.shape,
        "c": record.scales or None,
        "d": _digits(record.scale),
        "z": record.zero_point,
        "v": _range(record.seen),
        "r": _range(record.kept),
        "q": _decibels(record.sqnr),
        "x": _digits(record.clipped),
        "h": None if record.bins is None else _bins(record.bins),
        "w": None if record.channels is None else _channels(record.channels),
        "o": None if record.root is None else place.get(record.root),
    }
    if measured is not None:
        found |= {"m": _decibels(measured.sqnr), "p": _decibels(measured.rounding_sqnr)}
        found |= {"g": _digits(measured.used), "l": _digits(measured.clipped)}
        found["u"] = [[index, _decibels(ratio)] for index, ratio in measured.worst_channels if _decibels(ratio)] or None
    return {key: value for key, value in found.items() if value is not None}


def _range(ends: tuple[float, float] | None) -> list[float | None] | None:
    """Returns both ends, or None where one cannot be drawn, as of a mask of minus infinity."""
    return None if ends is None or not all(map(math.isfinite, ends)) else [_digits(each) for each in ends]


def _bins(bins: Bins) -> list[Any]:
    """Returns where bars begin, their width, and the logarithms of their counts as characters."""
    heights = np.log1p(bins.counts.astype(np.float64))
    return [_digits(bins.low), _digits(bins.width), levels(heights, 0.0, float(heights.max()))]


def _channels(channels: Channels) -> list[Any]:
    """Returns how many there are, the ends of the axis, and least, greatest and reach of each column as characters."""
    end = float(max(channels.high.max(), -channels.low.min(), channels.reach.max()))
    if not math.isfinite(end):
        return [channels.number, 0.0, "", "", ""]
    rows = (levels(row, -end, end) for row in (channels.low, channels.high))
    return [channels.number, _digits(end), *rows, levels(channels.reach, 0.0, end)]


def _digits(value: float | None) -> float | None:
    """Returns a number of six digits, or None for what JSON cannot say."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _decibels(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 2)
