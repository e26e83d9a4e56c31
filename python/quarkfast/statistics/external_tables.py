"""Tables of ranges that other tools write."""

from __future__ import annotations

import math
import sys
from typing import Any

from quarkfast.errors import CalibrationError, shown
from quarkfast.kernels import Range
from quarkfast.statistics.tensor import TensorStatistics

__all__ = ["read_table"]


# Of float64, and so of what an integer can be made a float of.
_GREATEST = sys.float_info.max


def read_table(document: Any, where: str) -> dict[str, TensorStatistics]:
    """Returns the ranges of a table; there is no hash of a model in it to hold it against.

    Args:
        document: Parsed JSON in one of these forms: ``{"tensors_range": {tensor: [min, max]}}``, Quark's
            ``SaveAndRestore``; ``{tensor: TensorData}`` or ``{"CLS": "TensorsData", "data": {tensor: TensorData}}``,
            ONNX Runtime's, where a TensorData has ``lowest`` and ``highest``; or ``{tensor: [min, max]}``.
        where: The file, for messages.

    Raises:
        CalibrationError: If it is none of these.
    """
    table = document
    if isinstance(document, dict) and isinstance(document.get("tensors_range"), dict):
        table = document["tensors_range"]
    elif isinstance(document, dict) and document.get("CLS") == "TensorsData":
        table = document.get("data")
    if not isinstance(table, dict) or not table:
        raise CalibrationError(
            f"calibration: expected a calibration of quarkfast or a table of ONNX Runtime or Quark at {where!r}, "
            f"got other JSON"
        )
    return {name: _range(name, entry, where) for name, entry in table.items()}


def _range(name: str, entry: Any, where: str) -> TensorStatistics:
    pair = (entry.get("lowest"), entry.get("highest")) if isinstance(entry, dict) else entry
    numbers = [_number(value) for value in pair] if isinstance(pair, list | tuple) else []
    if (
        len(numbers) != 2
        or None in numbers
        or not all(math.isfinite(number) for number in numbers if number is not None)
    ):
        raise CalibrationError(
            f"calibration: expected the least and the greatest value of tensor {name!r} at {where!r}, "
            f"got {shown(entry)}"
        )
    low, high = (float(number) for number in numbers if number is not None)
    return TensorStatistics(Range(min(low, high), max(low, high), 0, 0, 0, 0))


def _number(value: Any) -> float | None:
    """Returns the number in ``1.5``, ``[1.5]`` or ONNX Runtime's ``{"CLS": "numpy.array", "data": [1.5], ...}``."""
    while isinstance(value, dict | list):
        inner = value.get("data") if isinstance(value, dict) else value
        value = inner[0] if isinstance(inner, list) and len(inner) == 1 else None
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _GREATEST
    return value if known else None
