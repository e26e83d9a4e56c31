"""Joins and cuts feeds into the batches that the model runs on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping

import numpy as np

from quarkfast.calibration.data.inputs import Feed, rows_of

__all__ = ["regroup"]


def regroup(feeds: Iterator[Feed], size: int | Callable[[Feed], int], exact: bool = False) -> Iterator[Feed]:
    """Yields the samples of `feeds` in batches of `size` rows, in order, and holds at most one batch and one feed.

    A batch ends early where the next feed has other dimensions, as with sentences of varying length.

    Args:
        feeds: Feeds whose first dimension counts samples in every input.
        size: Rows of a batch, or a function from a feed to them, which depends on dtypes and dimensions only.
        exact: Whether the model fixes the batch size, so that samples that do not fill a batch are left out.

    Warns:
        UserWarning: If samples were left out.
    """
    held: list[Feed] = []
    left_out = 0
    rows_for = size if callable(size) else lambda _: size
    for feed in feeds:
        if held and _dtypes_and_dimensions(feed) != _dtypes_and_dimensions(held[0]):
            left_out += yield from _flush(held, exact)
            held = []
        held.append(feed)
        rows, wanted = sum(map(rows_of, held)), rows_for(feed)
        if rows >= wanted:
            joined = _join(held)
            for start in range(0, rows - wanted + 1, wanted):
                yield _cut(joined, start, start + wanted)
            held = [_cut(joined, rows - rows % wanted, rows)] if rows % wanted else []
    left_out += yield from _flush(held, exact)
    if left_out:
        warnings.warn(
            f"calibration data: {left_out} samples do not fill a batch of {size}, which the model fixes; left out",
            stacklevel=2,
        )


def _flush(held: list[Feed], exact: bool) -> Generator[Feed, None, int]:
    """Yields what is held as a last batch, or with `exact` returns the number of its samples, which are left out."""
    if held and not exact:
        yield _join(held)
    return sum(map(rows_of, held)) if exact else 0


def _dtypes_and_dimensions(feed: Feed) -> Mapping[str, object]:
    return {name: (array.dtype, array.shape[1:]) for name, array in feed.items()}


def _join(feeds: list[Feed]) -> Feed:
    if len(feeds) == 1:
        return feeds[0]
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def _cut(feed: Feed, start: int, stop: int) -> Feed:
    return {name: array[start:stop] for name, array in feed.items()}
