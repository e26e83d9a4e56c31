"""The cache of a search: what quantizations of one model on the same samples find out alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from quarkfast.deferred import ir
from quarkfast.graph.fingerprint import fingerprint

__all__ = ["Cache"]

_Found = TypeVar("_Found")


class Cache:
    """The last result of each kind, with what it was found for: no more than one quantization holds."""

    def __init__(self) -> None:
        """Holds nothing."""
        self._last: dict[str, tuple[tuple[str, object], Any]] = {}

    def find(self, kind: str, model: ir.Model, asked: object, make: Callable[[], _Found]) -> _Found:
        """Returns what was found last for a model that computes the same and for the same question, or finds it.

        Args:
            kind: What it is.
            model: What it is found on.
            asked: All else that decides it; compared with ``==``.
            make: Finds it.
        """
        key = fingerprint(model), asked
        if kind not in self._last or self._last[kind][0] != key:
            self._last.pop(kind, None)  # both would be in memory
            self._last[kind] = key, make()
        found: _Found = self._last[kind][1]
        return found
