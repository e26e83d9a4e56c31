"""Opened calibration data: a first look, then every feed once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from quarkfast.calibration.data.batches import regroup
from quarkfast.calibration.data.check import check_feed
from quarkfast.calibration.data.inputs import Feed, ModelInput, batch_of, may_rebatch, rows_of
from quarkfast.errors import CalibrationError

__all__ = ["Samples"]


class Samples:
    """Feeds that can be read once, and what is known of them beforehand.

    Attributes:
        first: The first feed, which iteration yields again.
        total: Number of samples (rows of the first input), or None where only reading tells.
        random: Whether the data is random.
        resizable: Whether :meth:`resize` may join feeds, and cut them.
        unsized: Whether nobody has said how many rows a feed has: they come one by one, to be resized.
    """

    def __init__(
        self,
        feeds: Iterator[Feed],
        inputs: Sequence[ModelInput],
        *,
        total: int | None = None,
        random: bool = False,
        unsized: bool = False,
        remedy: str = "",
    ) -> None:
        """Reads the first feed and checks it.

        Args:
            feeds: The feeds.
            inputs: What the model wants.
            total: Number of samples, where it is known.
            random: Whether the data is random.
            unsized: Whether the feeds come one by one because nobody has said how many rows one has.
            remedy: What to do if there is none, for the message.

        Raises:
            CalibrationError: If there is none, or it does not fit the model.
        """
        found = next(feeds, None)
        if found is None:
            raise CalibrationError(f"calibration data: expected at least one sample, got none{remedy}")
        check_feed(found, inputs, "calibration data: sample 1")
        self.first, self.total, self.random, self.unsized = found, total, random, unsized
        self.resizable = may_rebatch(inputs) and batch_of(inputs) is None
        self._rest, self._inputs = feeds, inputs

    def row(self) -> Feed:
        """Returns the first sample alone, or the first feed where feeds cannot be cut."""
        return next(regroup(iter([self.first]), 1)) if self.resizable else self.first

    def resize(self, rows: int) -> None:
        """Makes batches of `rows` rows from now on, and of fewer where rows are larger than the first one."""
        most = rows * _row_bytes(self.first)
        self._rest = regroup(
            itertools.chain([self.first], self._rest), lambda feed: max(1, min(rows, most // max(1, _row_bytes(feed))))
        )
        self.first = next(self._rest)

    def __iter__(self) -> Iterator[Feed]:
        """Yields every feed.

        Raises:
            CalibrationError: If one does not fit the model, or reading it fails.
        """
        for count, feed in enumerate(itertools.chain([self.first], self._rest), 1):
            check_feed(feed, self._inputs, f"calibration data: sample {count}")
            yield feed


def _row_bytes(feed: Feed) -> int:
    return sum(array.nbytes for array in feed.values()) // max(1, rows_of(feed))
