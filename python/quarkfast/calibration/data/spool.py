"""Feeds on the disk, for samples that can be read only once."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from typing import IO

import numpy as np

from quarkfast.calibration.data.inputs import Feed
from quarkfast.errors import CalibrationError

__all__ = ["Spool"]


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
