"""Standard streams that take every text, whatever the command was started with."""

import io
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["open_streams"]


class _Forgiving(io.FileIO):
    """A file that fails at most once: what is written after that is dropped, and at once where a pipe has no reader."""

    _failed = False

    def write(self, data: Any) -> int:
        """Write what the buffer hands over."""
        if not self._failed:
            try:
                return super().write(data)
            except OSError as error:
                self._failed = True
                if not isinstance(error, BrokenPipeError):
                    raise
        return len(data)


def open_streams() -> None:
    """Give the process standard streams on which no line of the command fails.

    A stream that is closed leads nowhere. Characters that an encoding lacks are escaped. Where nobody reads a pipe any
    more, as behind ``| head``, what is left to say is dropped, and the exit status is that of the work.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # opened in this order, each gets the number that it has in every process
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")
            if not stream.isatty():
                setattr(sys, name, _forgiving(stream))


def _forgiving(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    binary = io.BufferedWriter(_Forgiving(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        binary,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
