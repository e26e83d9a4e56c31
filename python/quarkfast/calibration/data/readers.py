"""Calibration data of every accepted kind, as a stream of feeds; nothing is held beyond one batch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.calibration.data.array_files import StoredArray, open_arrays
from quarkfast.calibration.data.check import as_array, as_feed, check_feed, warn_of_no_numbers, warn_of_raw_pixels
from quarkfast.calibration.data.folders import Folder, open_folder
from quarkfast.calibration.data.inputs import Feed, ModelInput, batch_of, may_rebatch, regroup, rows_of
from quarkfast.calibration.data.random_data import RandomDataReader, random_feeds
from quarkfast.calibration.data.samples import Samples
from quarkfast.calibration.user_code import UserCode
from quarkfast.errors import CalibrationError

__all__ = ["CalibrationData", "DataReader", "open_data", "read_feeds"]

_WHERE = "calibration data"
# Of a model whose inputs do not share their first dimension, so that it is not known what a row is.
_BATCH = 32
_RANDOM = "random"
# What readers call the method that puts them back to their first feed.
_REWINDS = ("rewind", "reset", "reset_iter")


@runtime_checkable
class DataReader(Protocol):
    """ONNX Runtime's and Quark's reader: one feed a call, then None."""

    def get_next(self) -> Mapping[str, ArrayLike] | None:
        """Returns the next feed, or None at the end."""


CalibrationData = (
    str | os.PathLike[str] | NDArray[Any] | Mapping[str, ArrayLike] | DataReader | RandomDataReader | Iterable[Any]
)
"""An .npz or .npy file, or a folder of such or of images; an array or a dict of arrays, whose first axis counts
samples; a reader with ``get_next``; an iterable of feeds (dicts by input name, arrays for a model of one input, tuples
in the order of the inputs, labels behind them left out); or ``"random"``."""

_Table = NDArray[Any] | StoredArray


def open_data(
    data: CalibrationData | None,
    inputs: Sequence[ModelInput],
    samples: int | None = None,
    batch_size: int | None = None,
    preprocess: str | Mapping[str, Any] | None = None,
) -> Samples:
    """Opens calibration data and checks its first sample.

    Args:
        data: The samples.
        inputs: What the model wants.
        samples: How many to read: rows of arrays, files of folders, items of readers and iterables. None means all.
        batch_size: Rows of a feed; a batch size that the model fixes goes before it. With None, files, arrays and
            random data are fed row by row, to be joined by the caller; readers and iterables are fed item by item.
        preprocess: How image files become arrays, a row of :data:`PREPROCESSES`.

    Raises:
        CalibrationError: If there is no data, its first sample does not fit the model, or `batch_size` is given for a
            model whose inputs do not share their first dimension.
        DependencyError: If the data is images and Pillow is not installed.

    Warns:
        UserWarning: If the first sample looks like pixels that were not preprocessed, or has no finite value.
    """
    if data is None:
        raise CalibrationError(f"{_WHERE}: expected samples, which the preset needs to find ranges, got none")
    if isinstance(data, str | os.PathLike) and data != _RANDOM:
        opened = _open_path(Path(data), inputs, samples, batch_size, preprocess)
    elif isinstance(data, str | RandomDataReader):
        reader = data if isinstance(data, RandomDataReader) else RandomDataReader(samples or RandomDataReader.samples)
        unsized = batch_size is None and _sizable(inputs)

        def draw() -> Iterator[Feed]:
            return _rebatched(itertools.islice(random_feeds(reader, inputs), samples), inputs, batch_size, 1)

        opened = Samples(draw, inputs, random=True, unsized=unsized)
    elif isinstance(data, np.ndarray | Mapping):
        opened = _open_table(data, inputs, samples, batch_size)
    elif isinstance(data, DataReader | Iterable):
        opened = _open_items(data, inputs, samples, batch_size)
    else:
        got = type(data).__name__
        raise CalibrationError(f"{_WHERE}: expected a path, arrays, a reader with get_next or an iterable, got {got}")
    raw = {wanted.name for wanted in inputs if wanted.bytes_by}
    warn_of_raw_pixels({name: array for name, array in opened.first.items() if name not in raw}, _WHERE)
    warn_of_no_numbers(opened.first, _WHERE)
    return opened


def read_feeds(
    data: CalibrationData | None,
    inputs: Sequence[ModelInput],
    samples: int | None = None,
    batch_size: int | None = None,
    preprocess: str | Mapping[str, Any] | None = None,
) -> Iterator[Feed]:
    """Yields the feeds of :func:`open_data`."""
    yield from open_data(data, inputs, samples, batch_size, preprocess)


def _open_path(
    path: Path,
    inputs: Sequence[ModelInput],
    samples: int | None,
    batch_size: int | None,
    preprocess: str | Mapping[str, Any] | None,
) -> Samples:
    if path.is_dir():
        folder = open_folder(path, inputs, preprocess, samples)
        total = len(folder) if folder.preprocess else None
        unsized = batch_size is None and _sizable(inputs)
        items = (lambda: iter(folder)) if batch_size is None and not folder.preprocess else None
        feeds = partial(_regrouped, folder, inputs, batch_size)
        return Samples(feeds, inputs, total=total, unsized=unsized, items=items)
    if not path.is_file():
        raise CalibrationError(f"{_WHERE}: expected a file or a folder, got no such file at {str(path)!r}")
    return _open_table(open_arrays(path), inputs, samples, batch_size)


def _open_table(
    data: _Table | Mapping[str, Any], inputs: Sequence[ModelInput], samples: int | None, batch_size: int | None
) -> Samples:
    """Opens arrays whose first axis counts samples."""
    if not isinstance(data, Mapping):
        data = {wanted.name: data for wanted in inputs} if len(inputs) == 1 else as_feed(data, inputs, _WHERE)
    columns: dict[str, _Table] = {
        str(name): column if isinstance(column, StoredArray) else as_array(column, f"{_WHERE}: input {str(name)!r}")
        for name, column in data.items()
    }
    lengths = {name: len(column) if column.shape else 0 for name, column in columns.items()}
    total = next(iter(lengths.values()), 0)
    if any(length != total for length in lengths.values()):
        listed = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise CalibrationError(f"{_WHERE}: expected the same number of samples for every input, got {listed}")
    total = total if samples is None else min(total, samples)
    fixed = batch_of(inputs)
    if fixed and total % fixed:
        raise CalibrationError(f"{_WHERE}: expected a multiple of the model's batch size {fixed}, got {total} samples")
    unsized = batch_size is None and _sizable(inputs)
    step = fixed or batch_size or (1 if unsized else _BATCH)
    held = not any(isinstance(column, StoredArray) for column in columns.values())
    if total:  # before a row is read, which may be of any size
        declared = {name: _declared(column, min(step, total)) for name, column in columns.items()}
        check_feed(declared, inputs, f"{_WHERE}: sample 1")
    return Samples(lambda: _rows(columns, total, step), inputs, total=total, unsized=unsized, held=held)


def _declared(column: _Table, rows: int) -> NDArray[Any]:
    return column.declared(rows) if isinstance(column, StoredArray) else column[:rows]


def _rows(columns: Mapping[str, _Table], total: int, step: int) -> Iterator[Feed]:
    for start in range(0, total, step):
        # Contiguous, because a slice may not be so and ONNX Runtime wants it.
        stop = min(start + step, total)
        yield {name: np.ascontiguousarray(column[start:stop]) for name, column in columns.items()}


def _sizable(inputs: Sequence[ModelInput]) -> bool:
    """Whether a run may have any number of rows."""
    return may_rebatch(inputs) and batch_of(inputs) is None


def _regrouped(folder: Folder, inputs: Sequence[ModelInput], batch_size: int | None) -> Iterator[Feed]:
    return _rebatched(iter(folder), inputs, batch_size, 1)


def _rebatched(
    feeds: Iterator[Feed], inputs: Sequence[ModelInput], batch_size: int | None, default: int | None = None
) -> Iterator[Feed]:
    """Joins and cuts feeds to `batch_size`, or to `default` where the model allows, or leaves them unchanged."""
    if batch_size is not None and not may_rebatch(inputs):
        listed = ", ".join(f"{wanted.name!r} {wanted}" for wanted in inputs)
        raise CalibrationError(
            f"batch_size: expected a model whose inputs share their first dimension, got {listed}; leave it out"
        )
    size = batch_size or (default if may_rebatch(inputs) else None)
    if size is None:
        return feeds
    fixed = batch_of(inputs)
    return regroup(map(_same_length, feeds), fixed or size, exact=fixed is not None)


def _same_length(feed: Feed) -> Feed:
    rows = rows_of(feed)
    for name, array in feed.items():
        if not array.ndim or len(array) != rows:
            raise CalibrationError(
                f"{_WHERE}: expected {rows} rows for every input of a sample, got {list(array.shape)} for {name!r}; "
                "leave batch_size out to feed each item by itself"
            )
    return feed


def _open_items(
    data: DataReader | Iterable[Any], inputs: Sequence[ModelInput], samples: int | None, batch_size: int | None
) -> Samples:
    """Opens a reader or an iterable. Iterators are read once, readers as often as they can be rewound."""
    remedy = "; an iterator that has been read once is empty, pass a fresh one"
    used_up = isinstance(data, Iterator | DataReader)
    again = _rewinding(data) is not None if isinstance(data, DataReader) else not used_up
    passes = itertools.count()

    def read() -> Iterator[Feed]:
        items = _items(data, rewind=next(passes) > 0)
        feeds = (
            as_feed(item, inputs, f"{_WHERE}: sample {count}")
            for count, item in enumerate(itertools.islice(items, samples), 1)
        )
        return _rebatched(feeds, inputs, batch_size)

    items = read if batch_size is None else None
    return Samples(read, inputs, again=again, remedy=remedy if used_up else "", items=items)


def _items(data: DataReader | Iterable[Any], rewind: bool) -> Iterator[Any]:
    end = object()
    with UserCode(f"{_WHERE}: expected an iterator"):
        items = _drain(data, rewind) if isinstance(data, DataReader) else iter(data)
    for count in itertools.count(1):
        with UserCode(f"{_WHERE}: sample {count}: expected the reader to give it"):
            item = next(items, end)
        if item is end:
            return
        yield item


def _rewinding(reader: DataReader) -> Callable[[], object] | None:
    """Returns what puts a reader back to its first feed, or None if it has no such method."""
    return next((getattr(reader, name) for name in _REWINDS if callable(getattr(reader, name, None))), None)


def _drain(reader: DataReader, rewind: bool) -> Iterator[Mapping[str, ArrayLike]]:
    back = _rewinding(reader)
    if rewind and back is not None:
        back()
    first = reader.get_next()
    if first is None and not rewind and back is not None:
        back()
        first = reader.get_next()
    while first is not None:
        yield first
        first = reader.get_next()
