"""Calibration data of every accepted kind, as a stream of feeds; nothing is held beyond one batch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.calibration.inputs import Feed, ModelInput, check_feed
from quarkfast.errors import CalibrationError

__all__ = ["CalibrationData", "DataReader", "count_samples", "open_file", "read_feeds"]

_WHERE = "calibration data"


@runtime_checkable
class DataReader(Protocol):
    """ONNX Runtime's and Quark's reader: one feed a call, then None."""

    def get_next(self) -> Mapping[str, ArrayLike] | None:
        """Returns the next feed, or None at the end."""


CalibrationData = str | os.PathLike[str] | NDArray[Any] | Mapping[str, ArrayLike] | DataReader | Iterable[Any]
"""An .npz or .npy file; an array or a dict of arrays, whose first axis counts samples; a reader with ``get_next``; or
an iterable of feeds (dicts by input name, arrays for a model of one input, tuples in the order of the inputs)."""


def read_feeds(
    data: CalibrationData | None, inputs: Sequence[ModelInput], samples: int | None = None, batch_size: int = 32
) -> Iterator[Feed]:
    """Yields checked feeds.

    Files and arrays are cut into batches of `batch_size`, or of the model's own batch size where that is fixed. Readers
    and iterables are fed as they come.

    Args:
        data: The samples.
        inputs: What the model wants.
        samples: How many to read: rows of arrays, items of readers and iterables. None means all.
        batch_size: Rows a feed, for files and arrays.

    Raises:
        CalibrationError: If there is no data, or a sample does not fit the model.
    """
    if data is None:
        raise CalibrationError(f"{_WHERE}: expected samples, got None; the preset needs them to find ranges")
    count = 0
    for count, feed in enumerate(_open(data, inputs, samples, batch_size), 1):
        check_feed(feed, inputs, f"{_WHERE}: sample {count}")
        yield feed
    if not count:
        raise CalibrationError(f"{_WHERE}: expected at least one sample, got none{_remedy(data)}")


def count_samples(data: CalibrationData | None, samples: int | None = None) -> int | None:
    """Returns how many rows :func:`read_feeds` will yield, or None where only reading tells (readers, iterables)."""
    arrays = [data] if isinstance(data, np.ndarray) else list(data.values()) if isinstance(data, Mapping) else []
    if not arrays or not np.ndim(arrays[0]):
        return None
    rows = len(np.asarray(arrays[0]))
    return rows if samples is None else min(rows, samples)


def open_file(data: CalibrationData | None) -> CalibrationData | None:
    """Returns the arrays of a file, and data of any other kind as it is.

    Raises:
        CalibrationError: If there is no such file, or it is neither an .npz nor an .npy file.
    """
    return _load(Path(data)) if isinstance(data, str | os.PathLike) else data


def _remedy(data: CalibrationData) -> str:
    used_up = isinstance(data, Iterator | DataReader)
    return "; an iterator that has been read once is empty, pass a fresh one" if used_up else ""


def _open(data: CalibrationData, inputs: Sequence[ModelInput], samples: int | None, batch_size: int) -> Iterator[Feed]:
    if isinstance(data, str | os.PathLike):
        return _batches(_load(Path(data)), inputs, samples, batch_size)
    if isinstance(data, np.ndarray | Mapping):
        return _batches(data, inputs, samples, batch_size)
    if isinstance(data, DataReader):
        return itertools.islice((_as_feed(item, inputs) for item in _drain(data)), samples)
    if isinstance(data, Iterable):
        return itertools.islice((_as_feed(item, inputs) for item in data), samples)
    raise CalibrationError(
        f"{_WHERE}: expected a path, arrays, a reader with get_next or an iterable, got {type(data).__name__}"
    )


def _drain(reader: DataReader) -> Iterator[Mapping[str, ArrayLike]]:
    first = reader.get_next()
    if first is None and hasattr(reader, "rewind"):
        reader.rewind()
        first = reader.get_next()
    while first is not None:
        yield first
        first = reader.get_next()


def _load(path: Path) -> NDArray[Any] | Mapping[str, NDArray[Any]]:
    if not path.is_file():
        got = "a directory" if path.is_dir() else "no such file"
        raise CalibrationError(f"{_WHERE}: expected an .npz or .npy file, got {got} at {str(path)!r}")
    try:
        # Not pickled data: a calibration file must not be able to run code.
        with path.open("rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                return np.lib.format.open_memmap(path, mode="r")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as loaded:
                return {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise CalibrationError(f"{_WHERE}: expected an .npz or .npy file, got another kind at {str(path)!r}") from error


def _batches(
    data: NDArray[Any] | Mapping[str, ArrayLike], inputs: Sequence[ModelInput], samples: int | None, batch_size: int
) -> Iterator[Feed]:
    arrays = _as_feed(data, inputs)
    if not arrays:
        return
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    total = next(iter(lengths.values()))
    if any(length != total for length in lengths.values()):
        listed = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise CalibrationError(f"{_WHERE}: expected the same number of samples for every input, got {listed}")
    total = total if samples is None else min(total, samples)
    fixed = next((wanted.batch for wanted in inputs if wanted.batch is not None), None)
    step = fixed or batch_size
    if fixed and total % fixed:
        raise CalibrationError(f"{_WHERE}: expected a multiple of the model's batch size {fixed}, got {total} samples")
    for start in range(0, total, step):
        # A copy of each batch, because a slice of a large array may not be contiguous and ONNX Runtime wants it so.
        yield {name: np.ascontiguousarray(array[start : min(start + step, total)]) for name, array in arrays.items()}


def _as_feed(item: Any, inputs: Sequence[ModelInput]) -> Feed:
    if isinstance(item, Mapping):
        return {str(name): np.asarray(value) for name, value in item.items()}
    values = list(item) if isinstance(item, tuple | list) else [item]
    if len(values) != len(inputs):
        names = ", ".join(repr(wanted.name) for wanted in inputs)
        raise CalibrationError(
            f"{_WHERE}: expected one array for each of the inputs {names}, got {len(values)}; pass dicts by input name"
        )
    return {wanted.name: np.asarray(value) for wanted, value in zip(inputs, values, strict=True)}
