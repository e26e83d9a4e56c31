"""Samples that are read several times: beyond a budget in a file, and not in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numpy.typing import NDArray

from quarkfast.evaluate.activation_store import ActivationStore
from quarkfast.evaluate.partial_model import Feed

__all__ = ["stored_feeds"]

# Bytes of samples to keep in memory.
_BUDGET = 1 << 18


class _StoredFeed(Feed):
    """Arrays by name, those in a file read when they are asked for."""

    def __init__(self, store: ActivationStore, place: int, feed: Feed) -> None:
        self._store, self._place, self._names = store, place, list(feed)
        for name, array in feed.items():
            store.put(name, place, array)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._store.get(name, self._place)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def stored_feeds(feeds: Iterable[Feed], budget: int = _BUDGET) -> Iterator[Feed]:
    """Yields feeds like the given ones, of which at most `budget` bytes are in memory.

    The file of the others goes away with the last of them.

    Example:
        >>> import numpy as np
        >>> found = list(stored_feeds(({"x": np.float32([value])} for value in range(3)), budget=4))
        >>> [feed["x"].tolist() for feed in found], "y" in found[2]
        ([[0.0], [1.0], [2.0]], False)
    """
    store = ActivationStore(budget)
    for place, feed in enumerate(feeds):
        yield _StoredFeed(store, place, feed)
