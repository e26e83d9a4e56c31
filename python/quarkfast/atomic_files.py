"""A file appears whole or not at all: written beside its destination, flushed to disk, then renamed.

What a killed process leaves beside an output is removed when the next one writes there. A temporary file is known by
its name, which has a hash of the output's, and its process lives as long as somebody holds its lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from quarkfast.errors import OutputError

try:
    import fcntl
except ImportError:  # on Windows, where nobody renames an open file or opens a folder either
    _LOCKS = False
else:
    _LOCKS = True

__all__ = [
    "Writer",
    "check_output",
    "folder_beside",
    "link_file",
    "put_back_on_failure",
    "save_bytes",
    "save_files",
    "target_of",
]

Writer = Callable[[IO[bytes]], None]

_SUFFIX = ".tmp"

# Seconds after which a temporary file is nobody's any more where files have no locks.
_OLD = 86400


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
        target = target_of(output)
        if not target.parent.is_dir():
            raise OutputError(f"output: expected an existing folder, got {str(target.parent)!r}")
    # Permission bits do not tell (root ignores them, a read-only file system ignores root): make a file and remove it.
    with _beside(target, target):
        return output


def target_of(output: Path) -> Path:
    """Returns what is written where `output` is to be: the file that a symbolic link leads to, otherwise itself.

    Raises:
        OutputError: If it is a link that leads to itself.
    """
    target = Path(os.path.realpath(output)) if output.is_symlink() else output
    if target.is_symlink():
        raise OutputError(f"output: expected a file name, got the loop of symbolic links {str(output)!r}")
    return target


def save_bytes(data: bytes, output: Path) -> None:
    """Replaces `output` by `data`; when the process dies half-way, `output` is what it was before.

    Raises:
        OutputError: If the file cannot be written.
    """
    save_files({output: data})


def save_files(files: Mapping[Path, bytes | Writer], retract: Path | None = None) -> None:
    """Replaces several files; all are on the disk, beside their destinations, before the first takes its name.

    Args:
        files: What each file is to hold, as bytes or as a function that writes them. The last is the one that was asked
            for: what a killed process has left of all of them is removed when that is written again. Links stay, and
            the files that they lead to are replaced.
        retract: A file that is removed before the first is replaced, because its old contents must not be read beside
            new contents of another.

    Raises:
        OutputError: If one cannot be written; then none is replaced.
    """
    main = target_of([*files][-1])
    with contextlib.ExitStack() as stack:
        written = []
        for output, data in files.items():
            target = target_of(output)
            stream, temporary = stack.enter_context(_beside(target, main))
            with _telling(output):
                if callable(data):
                    data(stream)
                else:
                    stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                if not _LOCKS:  # elsewhere the file stays locked until it has its name
                    stream.close()
                _take_mode(temporary, target)
            written.append((target, temporary))
        if retract is not None:
            with _telling(retract):
                target_of(retract).unlink(missing_ok=True)
        for target, temporary in written:
            with _telling(target):
                temporary.replace(target)


def link_file(link: Path, target: Path) -> None:
    """Makes a symbolic link to `target`, in place of another; nothing if `link` is that file already.

    Raises:
        OutputError: If there is another file, or no link can be made.
    """
    with _telling(link):
        if os.path.realpath(link) != os.path.realpath(target):
            if link.is_symlink():
                link.unlink()
            link.symlink_to(os.path.relpath(target, os.path.realpath(link.parent)))


@contextlib.contextmanager
def put_back_on_failure(*outputs: Path) -> Iterator[None]:
    """Has files be again what they were, or not there, if the block raises something.

    Raises:
        OutputError: If there is no room beside the first for what they are.
    """
    targets = [target_of(output) for output in outputs]
    with folder_beside(targets[0]) as folder:
        kept = {target: folder / str(count) for count, target in enumerate(targets) if target.exists()}
        for target, copy in kept.items():
            with _telling(target):
                try:
                    os.link(target, copy)
                except OSError:  # not every file system has links
                    shutil.copy2(target, copy)
        try:
            yield
        except BaseException:
            for target in targets:
                if target in kept:
                    kept[target].replace(target)
                else:
                    target.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def folder_beside(output: Path) -> Iterator[Path]:
    """Makes a temporary folder beside `output`, which is removed at the end, or before the next file is written there.

    Raises:
        OutputError: If it cannot be made.
    """
    _sweep(output)
    with _telling_of_folder(output):
        folder, descriptor = _locked_folder(output)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def _telling(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"output: expected to write {str(output)!r}, got {error.strerror}") from error


@contextlib.contextmanager
def _telling_of_folder(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"output: expected a folder that can be written to, got {str(output.parent)!r} ({error.strerror})"
        ) from error


@contextlib.contextmanager
def _beside(output: Path, main: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Makes a temporary file beside `output` that belongs to the output `main`, and sweeps what was left of that."""
    _sweep(main)
    with _telling_of_folder(output):
        descriptor, temporary = _locked_file(output, main)
    stream = os.fdopen(descriptor, "wb")
    try:
        yield stream, temporary
    finally:
        # On a full disk closing tries the write again, whose failure was raised before. Otherwise it is closed already.
        with contextlib.suppress(OSError):
            stream.close()
        temporary.unlink(missing_ok=True)


def _prefix(output: Path) -> str:
    """Returns how temporary files of an output begin: short, since names of 255 bytes are legal."""
    return f".quarkfast-{hashlib.sha256(os.fsencode(output.name)).hexdigest()[:12]}-"


def _locked_file(output: Path, main: Path) -> tuple[int, Path]:
    while True:
        descriptor, name = tempfile.mkstemp(prefix=_prefix(main), suffix=_SUFFIX, dir=output.parent)
        if _lock(descriptor) is not False and Path(name).exists():
            return descriptor, Path(name)
        os.close(descriptor)  # another process swept it before it was locked


def _locked_folder(output: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(output), suffix=_SUFFIX, dir=output.parent))
        if not _LOCKS:
            return folder, None
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY)
            if _lock(descriptor) is not False and folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Locks a file until it is closed, and returns whether it could; None where files have no locks."""
    if not _LOCKS:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sweep(output: Path) -> None:
    """Removes temporary files and folders of `output` whose processes have gone."""
    with contextlib.suppress(OSError):  # what cannot be removed stays
        for path in (each for each in output.parent.iterdir() if each.name.startswith(_prefix(output))):
            if path.name.endswith(_SUFFIX):
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW) if _LOCKS else None
    try:
        held = None if descriptor is None else _lock(descriptor)
        if held or (held is None and time.time() - path.stat().st_mtime > _OLD):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _take_mode(temporary: Path, output: Path) -> None:
    """Gives the new file the permissions of the old one, or those that a new file would get (mkstemp makes 0600)."""
    if output.exists():
        temporary.chmod(output.stat().st_mode & 0o777)
        return
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
