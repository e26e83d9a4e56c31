"""Tensors of many samples between two stages of a model: in memory, and on the disk beyond a budget."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ActivationStore"]


class ActivationStore:
    """Arrays by name and sample.

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
        self._arrays: dict[str, dict[int, NDArray[Any] | Path]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0

    def __enter__(self) -> ActivationStore:
        """Returns the store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drops everything, files too."""
        self._arrays.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def __contains__(self, name: str) -> bool:
        """Whether any sample of a tensor is here."""
        return name in self._arrays

    def put(self, name: str, sample: int, array: NDArray[Any]) -> None:
        """Keeps an array."""
        kept: NDArray[Any] | Path = array
        if self._held + array.nbytes > self._budget and array.dtype != object:
            kept = self._write(array)
        else:
            self._held += array.nbytes
        self._arrays.setdefault(name, {})[sample] = kept

    def get(self, name: str, sample: int) -> NDArray[Any]:
        """Returns an array."""
        kept = self._arrays[name][sample]
        return np.load(kept, allow_pickle=False) if isinstance(kept, Path) else kept

    def drop(self, name: str) -> None:
        """Forgets a tensor."""
        for kept in self._arrays.pop(name).values():
            if isinstance(kept, Path):
                kept.unlink()
            else:
                self._held -= kept.nbytes

    def _write(self, array: NDArray[Any]) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="quarkfast_")
        self._files += 1
        path = Path(self._folder.name) / f"{self._files}.npy"
        np.save(path, array, allow_pickle=False)
        return path
