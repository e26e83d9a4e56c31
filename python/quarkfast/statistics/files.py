"""Statistics on disk: JSON for people with arrays beside it, and the tables of ranges that other tools write."""

from __future__ import annotations

import hashlib
import io
import json
import math
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from quarkfast._version import version
from quarkfast.atomic_files import check_output, save_files, target_of
from quarkfast.errors import CalibrationError, shown
from quarkfast.kernels import Histogram, Range
from quarkfast.statistics.tensor import TensorStatistics, merge_statistics

__all__ = ["Fields", "read_statistics", "read_table", "write_statistics"]

# Of float64, and so of what an integer can be made a float of.
_GREATEST_FLOAT64 = sys.float_info.max


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
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _GREATEST_FLOAT64
    return value if known else None


Fields = Mapping[str, Any]
"""What a file says besides the statistics, by the names of the attributes of `Calibration`."""

_FORMAT = "quarkfast calibration"
_VERSION = 1
_FIELDS = ("samples", "runs", "random", "batch_size", "complete")
_GREATEST = float(np.finfo(np.float32).max)
# Bytes of a sum of values and of a sum of squares, in two's complement (docs/numerics.md, "Moments").
_SUM, _SQUARES = 48, 80


def write_statistics(path: Path, tensors: Mapping[str, TensorStatistics], fields: Fields) -> Path:
    """Writes statistics to `path` and to an .npz file of the same name beside it, both whole or not at all.

    Raises:
        OutputError: If they cannot be written.
    """
    output = target_of(check_output(path))
    arrays = _arrays(tensors)
    stream = io.BytesIO()
    # The members carry no time, so that the same calibration gives the same bytes.
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    data = stream.getvalue()
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "quarkfast": version(),
        "model_and_settings": fields["key"],
        **{name: fields[name] for name in _FIELDS},
        "arrays": {"file": output.with_suffix(".npz").name, "sha256": hashlib.sha256(data).hexdigest()},
        "tensors": {name: _describe(each) for name, each in tensors.items()},
    }
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    save_files({output.with_suffix(".npz"): data, output: text.encode()})
    return output


def _describe(statistics: TensorStatistics) -> dict[str, Any]:
    seen = statistics.range
    described: dict[str, Any] = {"min": _shortest(seen.min), "max": _shortest(seen.max)}
    described |= {name: getattr(seen, name) for name in _COUNTS}
    if statistics.extremes is not None:
        described["observations"] = statistics.extremes[0]
    if statistics.histogram is not None:
        described["bin_width"] = f"2^{statistics.histogram.exponent}"
    return described


_COUNTS = ("count", "nan", "pos_inf", "neg_inf", "zero", "subnormal")


def _shortest(value: float) -> float | None:
    """Returns the decimal number of fewest digits that is `value` in float32; None for the extreme of no values."""
    return float(str(np.float32(value))) if np.isfinite(value) else None


def _arrays(tensors: Mapping[str, TensorStatistics]) -> dict[str, NDArray[Any]]:
    """Returns what JSON would not be readable with: one row a tensor."""
    each = list(tensors.values())
    arrays: dict[str, NDArray[Any]] = {}
    if each and all(one.extremes is not None for one in each):
        arrays["extremes"] = _pack([one.extremes[1:] for one in each if one.extremes], (_SUM, _SUM))
    if any(one.histogram is not None for one in each):
        arrays["counts"] = np.stack([one.histogram.counts for one in each if one.histogram])
        arrays["exponents"] = np.array([one.histogram.exponent for one in each if one.histogram], np.int16)
        arrays |= _rows("counts_rows", [one.histogram is not None for one in each])
    if any(one.sums is not None for one in each):
        arrays["sums"] = _pack([one.sums for one in each if one.sums], (_SUM, _SQUARES))
        arrays |= _rows("sums_rows", [one.sums is not None for one in each])
    channels = [one.channel_absmax for one in each]
    if any(one is not None for one in channels):
        arrays["channels"] = np.array([-1 if one is None else one.size for one in channels], np.int64)
        arrays["channel_absmax"] = np.concatenate([one for one in channels if one is not None])
    return arrays


def _rows(name: str, known: list[bool]) -> dict[str, NDArray[Any]]:
    """Returns the row of each tensor in an array that not all of them have; -1 for one that has none."""
    return {} if all(known) else {name: np.where(known, np.cumsum(known) - 1, -1).astype(np.int64)}


def _row_in(name: str, row: int, arrays: Mapping[str, NDArray[Any]]) -> int | None:
    """Returns the row of a tensor in an array, or None if it has none there."""
    if name not in arrays:
        return None
    own = int(arrays[f"{name}_rows"][row]) if f"{name}_rows" in arrays else row
    return None if own < 0 else own


def _pack(rows: list[tuple[int, ...]], sizes: tuple[int, ...]) -> NDArray[np.uint8]:
    data = b"".join(
        value.to_bytes(size, "little", signed=True) for row in rows for value, size in zip(row, sizes, strict=True)
    )
    return np.frombuffer(data, np.uint8).reshape(len(rows), sum(sizes))


def _unpack(row: NDArray[np.uint8], first: int) -> tuple[int, int]:
    data = row.tobytes()
    return int.from_bytes(data[:first], "little", signed=True), int.from_bytes(data[first:], "little", signed=True)


# What reading meets in files that somebody else has written or changed.
_DAMAGED = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, EOFError, RuntimeError),
    *(OSError, MemoryError, BadZipFile, zlib.error),
)


def read_statistics(path: Path) -> tuple[dict[str, TensorStatistics], Fields]:
    """Reads what :func:`write_statistics` wrote, or a table of ONNX Runtime or Quark, which has ranges alone.

    Raises:
        CalibrationError: If there is no such file, or it is of another kind or version, or damaged.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CalibrationError(f"calibration: expected a file at {str(path)!r}, got {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"calibration: expected JSON at {str(path)!r}, got another kind of file") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        return read_table(document, str(path)), {"key": None, "samples": 0, "runs": 0}
    if document.get("version") != _VERSION:
        raise CalibrationError(
            f"calibration: expected version {_VERSION} of the format at {str(path)!r}, got {document.get('version')}; "
            "use the quarkfast that wrote it"
        )
    try:
        beside = path.with_name(document["arrays"]["file"])
        if not beside.exists():
            beside = target_of(path).with_name(beside.name)
        arrays = _read_arrays(beside, document["arrays"]["sha256"])
        tensors = {
            name: _restore(row, described, arrays) for row, (name, described) in enumerate(document["tensors"].items())
        }
        merge_statistics([[*tensors.values()]])  # which looks at types and sizes of all of it
        return tensors, _fields(document)
    except _DAMAGED as error:
        raise CalibrationError(f"calibration: expected a whole file at {str(path)!r}, got a damaged one") from error


def _read_arrays(path: Path, digest: str) -> dict[str, NDArray[Any]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CalibrationError(
            f"calibration: expected its arrays at {str(path)!r}, got {error.strerror}; keep the two files together"
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise CalibrationError(
            f"calibration: expected the arrays at {str(path)!r} that the JSON file was written with, got others"
        )
    with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    if any(array.dtype.kind not in "iu" for name, array in arrays.items() if name != "channel_absmax"):
        raise TypeError
    return arrays


def _fields(document: Mapping[str, Any]) -> Fields:
    """Returns what a file says besides the statistics.

    Raises:
        TypeError: If something is of another type.
        ValueError: If a number is below 0.
    """
    key, batch_size = document["model_and_settings"], document["batch_size"]
    counts = {name: _count(document[name]) for name in ("samples", "runs")}
    flags = {name: document[name] for name in ("random", "complete")}
    if not isinstance(key, str) or not all(isinstance(each, bool) for each in flags.values()):
        raise TypeError
    return {"key": key, "batch_size": None if batch_size is None else _count(batch_size), **counts, **flags}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    if not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _extreme(value: Any, none: float) -> float:
    """Returns the least or the greatest value of a tensor, `none` where it has none."""
    if value is None:
        return none
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not abs(value) <= _GREATEST:
        raise ValueError
    return float(np.float32(value))


def _restore(row: int, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TensorStatistics:
    low, high = _extreme(described["min"], np.inf), _extreme(described["max"], -np.inf)
    counts = {name: _count(described[name]) for name in _COUNTS}
    seen = Range(low, high, **counts)
    if (low > high) != (seen.finite == 0) or seen.finite < 0:
        raise ValueError
    extremes = None
    if "extremes" in arrays:
        extremes = (_count(described["observations"]), *_unpack(arrays["extremes"][row], _SUM))
    histogram = None
    counted, summed = _row_in("counts", row, arrays), _row_in("sums", row, arrays)
    if counted is not None:
        bins = np.ascontiguousarray(arrays["counts"][counted])
        histogram = Histogram(bins, int(arrays["exponents"][counted]), seen)
        if seen.zero > bins[bins.size // 2]:
            raise ValueError
    sums = None if summed is None else _unpack(arrays["sums"][summed], _SUM)
    return TensorStatistics(seen, extremes, histogram, sums, _channels(row, arrays))


def _channels(row: int, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32] | None:
    if "channels" not in arrays or arrays["channels"][row] < 0:
        return None
    start = int(np.maximum(arrays["channels"][:row], 0).sum())
    size = int(arrays["channels"][row])
    found: NDArray[np.float32] = arrays["channel_absmax"][start : start + size]
    if found.shape != (size,) or found.dtype != np.float32:
        raise ValueError
    return found
