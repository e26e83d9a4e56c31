"""Tensors of many samples between two stages of a model: in memory, and on the disk beyond a budget."""

from __future__ import annotations

import tempfile
import weakref
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ActivationStore"]

# The file consists of pages, each of which is written again as soon as its array is dropped: bytes that the file has
# take a third of the time of new ones.
_PAGE = 1 << 18


class _StoredArray(NamedTuple):
    """An array in the file."""

    pages: list[int]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class ActivationStore:
    """Arrays by name and sample. The file goes away with the store, or at the end of a context.

    Example:
        >>> import numpy as np
        >>> with ActivationStore(budget=4) as store:
        ...     store.put("x", 0, np.float32([1.0]))
        ...     store.put("x", 1, np.float32([2.0]))  # over the budget
        ...     [store.get("x", sample).tolist() for sample in range(2)]
        [[1.0], [2.0]]
    """

    def __init__(self, budget: int) -> None:
        """Takes at most `budget` bytes of memory, apart from arrays that somebody else holds too."""
        self._budget, self._held = budget, 0
        self._arrays: dict[str, dict[int, NDArray[Any] | _StoredArray]] = {}
        self._file: IO[bytes] | None = None
        self._free: list[int] = []
        self._pages = 0

    def __enter__(self) -> ActivationStore:
        """Returns the store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drops everything, the file too."""
        self._arrays.clear()
        if self._file is not None:
            self._file.close()

    def __contains__(self, name: str) -> bool:
        """Whether any sample of a tensor is here."""
        return name in self._arrays

    @property
    def on_disk(self) -> int:
        """Number of bytes that arrays take on the disk, in pages."""
        return (self._pages - len(self._free)) * _PAGE

    def put(self, name: str, sample: int, array: NDArray[Any]) -> None:
        """Keeps an array."""
        kept: NDArray[Any] | _StoredArray = array
        if self._held + array.nbytes > self._budget and array.dtype != object:
            kept = self._write(array)
        else:
            self._held += array.nbytes
        self._arrays.setdefault(name, {})[sample] = kept

    def get(self, name: str, sample: int) -> NDArray[Any]:
        """Returns an array."""
        kept = self._arrays[name][sample]
        return self._read(kept) if isinstance(kept, _StoredArray) else kept

    def drop(self, name: str, sample: int) -> None:
        """Forgets an array."""
        kept = self._arrays[name].pop(sample)
        if not self._arrays[name]:
            del self._arrays[name]
        if isinstance(kept, _StoredArray):
            self._free += kept.pages
        else:
            self._held -= kept.nbytes

    def _write(self, array: NDArray[Any]) -> _StoredArray:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="quarkfast_")  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        data, pages = np.ascontiguousarray(array).reshape(-1).view(np.uint8), list[int]()
        for begin in range(0, data.size, _PAGE):
            if not self._free:
                self._free.append(self._pages)
                self._pages += 1
            pages.append(self._free.pop())
            self._file.seek(pages[-1] * _PAGE)
            self._file.write(data[begin : begin + _PAGE].data)
        return _StoredArray(pages, array.shape, array.dtype)

    def _read(self, written: _StoredArray) -> NDArray[Any]:
        assert self._file is not None
        found = np.empty(written.shape, written.dtype)
        data = found.reshape(-1).view(np.uint8)
        for place, page in enumerate(written.pages):
            self._file.seek(page * _PAGE)
            self._file.readinto(data[place * _PAGE : (place + 1) * _PAGE].data)  # type: ignore[attr-defined]
        return found
