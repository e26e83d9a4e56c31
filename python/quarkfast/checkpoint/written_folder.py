"""A folder that appears whole or not at all: written beside its place, shard by shard, then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from quarkfast.checkpoint.folder import CONFIG
from quarkfast.errors import OutputError

__all__ = ["OutputFolder", "check_free", "check_output_folder", "output_folder"]

_FINGERPRINT = ".quarkfast.json"


def check_output_folder(output: Path, source: Path, *, force: bool, needed: int) -> None:
    """Makes sure that a folder can be written, before any work is done.

    Args:
        output: The folder that shall appear.
        source: The checkpoint that is read.
        force: Whether an older checkpoint in its place may be replaced.
        needed: Bytes that it will have.

    Raises:
        OutputError: If it cannot.
    """
    parent = output.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"output: expected an existing folder, got {str(parent)!r}")
    here, there = output.absolute().resolve(), source.absolute().resolve()
    if here == there or here in there.parents or there in here.parents:
        raise OutputError(f"output: expected a folder apart from the source, got {str(output)!r}")
    if output.exists():
        if not force:
            raise OutputError(f"output: expected a new folder, got {str(output)!r}, which exists; --force replaces it")
        if not output.is_dir() or (any(output.iterdir()) and not (output / CONFIG).is_file()):
            raise OutputError(f"output: expected a checkpoint or nothing to replace, got {str(output)!r}")
    check_free(parent, needed)


def check_free(folder: Path, needed: int) -> None:
    """Makes sure that a disk has room.

    Raises:
        OutputError: If it has not.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(f"output: expected {needed} free bytes in {str(folder)!r}, got {free}")


class OutputFolder:
    """The folder while it is written, under a name of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, name: str, size: int) -> bool:
        """Whether a file of an earlier run is finished there."""
        path = self.path / name
        return path.is_file() and path.stat().st_size == size

    def write(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        """Writes a file, which has its name only once it is whole."""
        half = self.path / f"{name}.half"
        with half.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self.path / name)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a JSON file."""
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        self.write(name, lambda file: _write(file, text.encode()))


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


@contextlib.contextmanager
def output_folder(output: Path, *, resume: bool, fingerprint: Mapping[str, Any]) -> Iterator[OutputFolder]:
    """A folder to write to, which takes its name when the block ends well and is gone when it does not.

    Args:
        output: Its name.
        resume: Keep what an interrupted run of the same `fingerprint` finished, and keep it again when interrupted.
        fingerprint: What the result depends on.

    Raises:
        OutputError: If it cannot be written.
    """
    partial = output.absolute().with_name(f".{output.name}.partial")
    try:
        if partial.exists() and not (resume and _fingerprint(partial) == fingerprint):
            shutil.rmtree(partial)
        partial.mkdir(exist_ok=True)
        folder = OutputFolder(partial)
        folder.write_json(_FINGERPRINT, fingerprint)
        yield folder
        (partial / _FINGERPRINT).unlink()
        _take_place(partial, output)
    except BaseException as error:
        if not resume:
            shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputError(f"output: expected to write {str(output)!r}, got {error.strerror}") from error
        raise


def _fingerprint(partial: Path) -> Any:
    try:
        return json.loads((partial / _FINGERPRINT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _take_place(partial: Path, output: Path) -> None:
    if not output.exists():
        partial.rename(output)
        return
    old = output.absolute().with_name(f".{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    output.rename(old)
    partial.rename(output)
    shutil.rmtree(old)
