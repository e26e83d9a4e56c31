"""Feeds that can be read only once: held on the disk, within a budget."""

from __future__ import annotations

import itertools
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.check import check_feed
from quarkfast.calibration.data.inputs import Feed, ModelInput, batch_of, may_rebatch, regroup, rows_of
from quarkfast.errors import CalibrationError

__all__ = ["Samples", "Spool"]


class Spool:
    """A temporary file of feeds, written as they pass and read in the same order; one feed at a time is in memory.

    The file goes away with the object.
    """

    def __init__(self) -> None:
        """Opens the file.

        Raises:
            CalibrationError: If there is no place for one.
        """
        self._names: list[list[str]] = []
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="quarkfast_")  # noqa: SIM115
        except OSError as error:
            raise CalibrationError(
                f"calibration data: expected a temporary file for samples, got {error.strerror}"
            ) from error
        weakref.finalize(self, self._file.close)

    def write(self, feed: Feed) -> None:
        """Appends a feed.

        Raises:
            CalibrationError: If there is no room.
        """
        try:
            for array in feed.values():
                np.save(self._file, array, allow_pickle=array.dtype.hasobject)
        except OSError as error:
            raise CalibrationError(
                f"calibration data: expected room to keep samples for another pass, got {error.strerror}; "
                "pass files, arrays or a reader with rewind"
            ) from error
        self._names.append(list(feed))

    def __iter__(self) -> Iterator[Feed]:
        """Yields the feeds from the first on."""
        self._file.seek(0)
        for names in self._names:
            # Strings are objects; nobody else has written to the file.
            yield {name: np.load(self._file, allow_pickle=True) for name in names}


class Samples:
    """Feeds, and what is known of them beforehand. Each iteration yields all of them, in the same order.

    What can be opened only once is read only once, unless :meth:`keep` was called before the first iteration.

    Attributes:
        first: The first feed, which iteration yields again.
        total: Number of samples (rows of the first input), or None where only reading tells.
        random: Whether the data is random.
        held: Whether all of it is in memory anyway, as arrays that the caller has.
        resizable: Whether :meth:`resize` may join feeds, and cut them.
        whole: Whether a feed is one sample, however many rows it has.
        unsized: Whether nobody has said how many rows a feed has: they come one by one, to be resized.
        single: Whether each row runs alone because it changes what comes of others.
    """

    def __init__(
        self,
        feeds: Callable[[], Iterator[Feed]],
        inputs: Sequence[ModelInput],
        *,
        again: bool = True,
        total: int | None = None,
        random: bool = False,
        unsized: bool = False,
        held: bool = False,
        remedy: str = "",
        items: Callable[[], Iterator[Feed]] | None = None,
    ) -> None:
        """Reads the first feed and checks it.

        Args:
            feeds: Opens the data and yields the feeds from the first on.
            inputs: What the model wants.
            again: Whether `feeds` may be called more than once.
            total: Number of samples, where it is known.
            random: Whether the data is random.
            unsized: Whether the feeds come one by one because nobody has said how many rows one has.
            held: Whether all of it is in memory anyway.
            remedy: What to do if there is none, for the message.
            items: `feeds`, or what opens the data as it comes where `feeds` cuts it; None where rows are samples by
                what the data is, or by what was asked for.

        Raises:
            CalibrationError: If there is none, or it does not fit the model.
        """
        opened = feeds()
        found = next(opened, None)
        if found is None:
            raise CalibrationError(f"calibration data: expected at least one sample, got none{remedy}")
        check_feed(found, inputs, "calibration data: sample 1")
        self.first, self.total, self.random, self.unsized, self.held = found, total, random, unsized, held
        self.resizable = may_rebatch(inputs) and batch_of(inputs) is None
        self.whole = items is not None and not may_rebatch(inputs) and len({len(each) for each in _ranked(found)}) > 1
        self.single = False
        self._opened: Iterator[Feed] | None = itertools.chain([found], opened)
        self._feeds, self._again, self._inputs, self._items = feeds, again, inputs, items
        self._rows_for: Callable[[Feed], int] | None = None
        self._spool: Spool | None = None
        self._kept_rows: int | None = None

    def item(self) -> Feed | None:
        """Returns the first item as it came, or None where rows are samples by what the data is."""
        if self._items is None:
            return None
        return self.first if self._items == self._feeds else next(self._items())

    def keep_whole(self) -> None:
        """Yields items as they come from now on, and neither joins nor cuts them, for each is one sample."""
        self.resizable, self.unsized, self.whole = False, False, True
        if self._items is not None and self._items != self._feeds:
            self._feeds, opened = self._items, self._items()
            self.first = next(opened)
            self._opened = itertools.chain([self.first], opened)

    def keep_single(self) -> None:
        """Yields row by row from now on, and joins none, for a row changes what comes of others that it runs with."""
        if not self.unsized:
            self.resize(1)
        self.resizable, self.unsized, self.single = False, False, True

    def count(self, feed: Feed) -> int:
        """Returns how many samples a feed holds."""
        return 1 if self.whole else rows_of(feed)

    def row(self) -> Feed:
        """Returns the first sample alone, or the first feed where feeds cannot be cut."""
        return next(regroup(iter([self.first]), 1)) if self.resizable else self.first

    def head(self, rows: int) -> list[Feed]:
        """Returns the first feeds, which have `rows` rows or a few more, or all if there are fewer.

        Later iterations yield them again, also where the data can be read only once.

        Raises:
            CalibrationError: If one does not fit the model, or reading it fails.
        """
        again = self._opened is not None
        opened = self._from_the_first() if again else iter(self)
        found: list[Feed] = []
        while sum(map(self.count, found)) < rows and (feed := next(opened, None)) is not None:
            check_feed(feed, self._inputs, f"calibration data: sample {len(found) + 1}")
            found.append(feed)
        if again:
            self._opened = itertools.chain(found, opened)
        return found

    def rows(self, most: int) -> list[Feed]:
        """Returns the first samples, each alone, or the first feeds where feeds cannot be cut (`head`).

        Raises:
            CalibrationError: If one does not fit the model, or reading it fails.
        """
        feeds = self.head(most)
        return list(itertools.islice(regroup(iter(feeds), 1), most)) if self.resizable else feeds[:most]

    def resize(self, rows: int) -> None:
        """Makes batches of `rows` rows from now on, and of fewer where rows are larger than the first one."""
        most = rows * _row_bytes(self.first)
        self._rows_for = lambda feed: max(1, min(rows, most // max(1, _row_bytes(feed))))
        opened = regroup(self._from_the_first(), self._rows_for)
        self.first = next(opened)
        self._opened = itertools.chain([self.first], opened)

    def keep(self, rows: int | None = None) -> None:
        """Has the first iteration write to a temporary file what can be read only once, for later ones.

        Args:
            rows: How many samples later iterations yield at the least; None means all.

        Raises:
            CalibrationError: If there is no place for one.
        """
        if not self._again and self._spool is None and self._opened is not None:
            self._spool, self._kept_rows = Spool(), rows

    def __iter__(self) -> Iterator[Feed]:
        """Yields every feed.

        Raises:
            CalibrationError: If one does not fit the model, reading it fails, or none can be read any more.
        """
        if self._opened is None and self._spool is not None:
            yield from self._spool
            return
        resized = self._opened is None and self._rows_for is not None
        opened = self._from_the_first()
        feeds = regroup(opened, self._rows_for) if resized and self._rows_for is not None else opened
        kept = 0
        for count, feed in enumerate(feeds, 1):
            check_feed(feed, self._inputs, f"calibration data: sample {count}")
            if self._spool is not None and (self._kept_rows is None or kept < self._kept_rows):
                self._spool.write(feed)
                kept += self.count(feed)
            yield feed

    def _from_the_first(self) -> Iterator[Feed]:
        """Returns what is open and has not been read, or opens the data again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            return opened
        if not self._again:
            raise CalibrationError(
                "calibration data: expected samples that can be read again, got some that can be read once; "
                "pass files, arrays or a reader with rewind"
            )
        return self._feeds()


def _ranked(feed: Feed) -> Iterator[NDArray[Any]]:
    return (array for array in feed.values() if array.ndim)


def _row_bytes(feed: Feed) -> int:
    return sum(array.nbytes for array in feed.values()) // max(1, rows_of(feed))
