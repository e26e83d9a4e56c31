"""Arrays in .npy and .npz files, read a few rows at a time."""

from __future__ import annotations

import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import CalibrationError

__all__ = ["StoredArray", "open_arrays", "read_arrays"]

_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = b"PK"
_SKIPPED_AT_ONCE = 1 << 20

# Bytes of a header that are read: NumPy's own limit, which it holds against what it has read already.
_LONGEST_HEADER = 10_000
# Bytes that an array may say it has: what does not fit into a signed number of 64 bits is no size.
_LARGEST = 2**63 - 1


# What reading meets in files that are damaged, of another kind, or packed in a way that Python does not know.
_FAILURES = (
    *(ValueError, OSError, EOFError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


class StoredArray:
    """An array in a file, whose first axis counts samples; rows are read when they are asked for.

    In a .npy file and in a member that is stored as it is they are found at once. A compressed member is read as a
    stream, forwards at the cost of what is read, backwards from the start. Nothing is mapped: mapped pages count as
    memory of the process, and a file that is cut meanwhile would end it.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        """Reads the header only.

        Raises:
            CalibrationError: If it is no array, or one of Python objects: those could run code.
        """
        self._path, self._member = path, member
        self._stream: IO[bytes] | None = None
        self._row = 0
        with _reading(path), self._open() as stream:
            self.shape, fortran, self.dtype = _header(stream)
            self._start = self._find(stream.tell())
        # With Fortran's order the rows do not lie in one piece.
        self._in_columns = fortran and len(self.shape) > 1
        self._held: NDArray[Any] | None = None

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Returns the rows of a slice of step 1.

        Raises:
            CalibrationError: If the file is damaged or too short.
        """
        start, stop, _ = rows.indices(len(self))
        if self._in_columns:
            if self._held is None:
                self._held = self.whole()
            return self._held[start:stop]
        with _reading(self._path), self._closing_on_failure():
            return self._read_on(start, stop) if self._start is None else self._read_at(self._start, start, stop)

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._stream is not None:
                self._stream.close()
            self._stream = None
            raise

    def _open(self) -> IO[bytes]:
        if self._member is None:
            return self._path.open("rb")
        with zipfile.ZipFile(self._path) as archive:
            return archive.open(self._member)  # keeps the file open until it is closed itself

    def _find(self, header: int) -> int | None:
        """Returns where in the file the values begin, given the header's length; None if they are compressed.

        Makes sure that there are as many bytes as the header says, before any of them is read.
        """
        start, size = 0, math.prod(self.shape) * self.dtype.itemsize
        if self._member is not None:
            with zipfile.ZipFile(self._path) as archive:
                info = archive.getinfo(self._member)
            if info.compress_type != zipfile.ZIP_STORED:
                if header + size > info.file_size:
                    raise EOFError(f"it ends {header + size - info.file_size} bytes early")
                return None
            with self._path.open("rb") as stream:
                # A local header is 30 bytes, the last four of which are the lengths of the two fields behind it.
                stream.seek(info.header_offset + 26)
                lengths = np.frombuffer(stream.read(4), "<u2")
                start = info.header_offset + 30 + int(lengths.sum())
        missing = start + header + size - self._path.stat().st_size
        if missing > 0:
            raise EOFError(f"it ends {missing} bytes early")
        return start + header

    def declared(self, rows: int | None = None) -> NDArray[Any]:
        """Returns an array of this dtype and shape, or of so many rows, that takes no memory and holds nothing."""
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        return np.broadcast_to(np.zeros((), self.dtype), shape)

    def whole(self) -> NDArray[Any]:
        """Returns all of it, in memory.

        Raises:
            CalibrationError: If the file is damaged or too short.
        """
        with _reading(self._path), self._open() as stream:
            return _whole(stream, *_header(stream))

    def _read_at(self, origin: int, start: int, stop: int) -> NDArray[Any]:
        row = math.prod(self.shape[1:])
        count, offset = (stop - start) * row, origin + start * row * self.dtype.itemsize
        values = np.fromfile(self._path, self.dtype, count=count, offset=offset)
        if len(values) != count:
            raise EOFError(f"it ends {(count - len(values)) * self.dtype.itemsize} bytes early")
        return values.reshape(stop - start, *self.shape[1:])

    def _read_on(self, start: int, stop: int) -> NDArray[Any]:
        if self._stream is None or start < self._row:
            self._stream = self._open()
            _header(self._stream)
            self._row = 0
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        left = (start - self._row) * row
        while left:
            left -= len(_exactly(self._stream, min(left, _SKIPPED_AT_ONCE)))
        data = _exactly(self._stream, (stop - start) * row)
        self._row = stop
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:])


def open_arrays(path: Path) -> StoredArray | Mapping[str, StoredArray]:
    """Opens a .npy file as an array, or an .npz file as arrays by name; the content decides, not the name.

    Raises:
        CalibrationError: If the file is of another kind or damaged.
    """
    with _reading(path):
        with path.open("rb") as stream:
            magic = stream.read(len(_NPY_MAGIC))
        if magic == _NPY_MAGIC:
            return StoredArray(path)
        if not magic.startswith(_ZIP_MAGIC):
            raise ValueError("neither magic number")
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        return {member.removesuffix(".npy"): StoredArray(path, member) for member in members}


def read_arrays(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """Reads all of a .npy file, or of an .npz file by name, into memory.

    Raises:
        CalibrationError: If the file is of another kind or damaged.
    """
    arrays = open_arrays(path)
    if isinstance(arrays, StoredArray):
        return arrays.whole()
    return {name: array.whole() for name, array in arrays.items()}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise CalibrationError(
            f"calibration data: expected an .npz or .npy file, got another kind at {str(path)!r} ({error})"
        ) from error


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    length = _exactly(stream, 2 if version == (1, 0) else 4)
    count = int.from_bytes(length, "little")
    if count > _LONGEST_HEADER:
        raise ValueError(f"a header of {count} bytes")
    try:
        shape, fortran, dtype = read(io.BytesIO(length + _exactly(stream, count)))
    except (SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError("a header that cannot be read") from error
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(size < 0 for size in shape) or math.prod(max(1, size) for size in shape) * dtype.itemsize > _LARGEST:
        raise ValueError(f"a header of the shape {list(shape)}")
    return shape, fortran, dtype


def _whole(stream: IO[bytes], shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any]) -> NDArray[Any]:
    flat = np.frombuffer(_exactly(stream, math.prod(shape) * dtype.itemsize), dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError(f"it ends {size - len(data)} bytes early")
    return data
