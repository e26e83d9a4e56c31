"""A file appears whole or not at all: written beside its destination, flushed to disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from quarkfast.errors import OutputError

__all__ = ["Writer", "check_output", "save_bytes", "save_files"]

Writer = Callable[[IO[bytes]], None]


def check_output(path: str | os.PathLike[str]) -> Path:
    """Returns `path` after making sure that a file can be written there, before any work is done.

    Raises:
        OutputError: If `path` is none, or a directory, a device or a pipe, or its folder does not exist or cannot be
            written to.
    """
    if not isinstance(path, str | os.PathLike):
        raise OutputError(f"output: expected a path, got {type(path).__name__}")
    output = Path(path)
    with _telling(output):
        if output.is_dir():
            raise OutputError(f"output: expected a file name, got the directory {str(output)!r}")
        if output.exists() and not output.is_file():  # which a file in its place would remove
            raise OutputError(f"output: expected a file name, got the device or pipe {str(output)!r}")
        if not output.parent.is_dir():
            raise OutputError(f"output: expected an existing folder, got {str(output.parent)!r}")
    # Permission bits do not tell (root ignores them, a read-only file system ignores root): make a file and remove it.
    with _beside(output):
        return output


def save_bytes(data: bytes, output: Path) -> None:
    """Replaces `output` by `data`; when the process dies half-way, `output` is what it was before.

    Raises:
        OutputError: If the file cannot be written.
    """
    save_files({output: data})


def save_files(files: Mapping[Path, bytes | Writer], retract: Path | None = None) -> None:
    """Replaces several files; all are on the disk, beside their destinations, before the first takes its name.

    Args:
        files: What each file is to hold, as bytes or as a function that writes them.
        retract: A file that is removed before the first is replaced, because its old contents must not be read beside
            new contents of another.

    Raises:
        OutputError: If one cannot be written; then none is replaced.
    """
    with contextlib.ExitStack() as stack:
        written = []
        for output, data in files.items():
            stream, temporary = stack.enter_context(_beside(output))
            with _telling(output):
                if callable(data):
                    data(stream)
                else:
                    stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                # Windows does not rename an open file.
                stream.close()
                _take_mode(temporary, output)
            written.append((output, temporary))
        if retract is not None:
            with _telling(retract):
                retract.unlink(missing_ok=True)
        for output, temporary in written:
            with _telling(output):
                temporary.replace(output)


@contextlib.contextmanager
def _telling(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"output: expected to write {str(output)!r}, got {error.strerror}") from error


@contextlib.contextmanager
def _beside(output: Path) -> Iterator[tuple[IO[bytes], Path]]:
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{output.name}.", suffix=".tmp", dir=output.parent)
    except OSError as error:
        raise OutputError(
            f"output: expected a folder that can be written to, got {str(output.parent)!r} ({error.strerror})"
        ) from error
    stream = os.fdopen(descriptor, "wb")
    try:
        yield stream, Path(temporary)
    finally:
        # On a full disk closing tries the write again, whose failure was raised before. Otherwise it is closed already.
        with contextlib.suppress(OSError):
            stream.close()
        Path(temporary).unlink(missing_ok=True)


def _take_mode(temporary: Path, output: Path) -> None:
    """Gives the new file the permissions of the old one, or those that a new file would get (mkstemp makes 0600)."""
    if output.exists():
        temporary.chmod(output.stat().st_mode & 0o777)
        return
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
