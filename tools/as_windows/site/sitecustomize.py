"""Takes from every Python process what Windows lacks; Python imports it when it starts.

- Modules `fcntl`, `resource`, `pwd`, `grp`, `termios`, ...; `os.fork`, `os.sched_getaffinity`, `os.pread`, ...; signals
  but the six of C; advice to `mmap`; ways to start processes but by spawning; /proc.
- UTF-8 by default: text without an encoding, standard output and what child processes write are cp1252.
- Files that are open or mapped: they can be neither replaced, renamed nor removed, and mapped ones not truncated.
- Names with one of ``<>:"|?*``.

Modules of the standard library that have a branch for POSIX are imported first, and keep it.
"""

from __future__ import annotations

import builtins
import concurrent.futures.process  # noqa: F401
import ctypes.util  # noqa: F401
import getpass  # noqa: F401
import importlib.abc
import io
import locale
import logging.handlers  # noqa: F401
import mmap
import multiprocessing.context
import multiprocessing.popen_spawn_posix
import multiprocessing.resource_tracker
import os
import pathlib  # noqa: F401
import platform  # noqa: F401
import shutil  # noqa: F401
import signal
import socket  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import uuid  # noqa: F401
from typing import Any

MODULES = {"crypt", "fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
# Of os; but uname and getuid, which packages call on Linux when they are imported, and statvfs, by which shutil tells
# what is free on a disk.
FUNCTIONS = (
    "chown chroot fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority "
    "getresuid getsid initgroups killpg lchown lockf mkfifo mknod nice pathconf posix_fadvise posix_fallocate "
    "posix_spawn pread preadv pwrite pwritev register_at_fork sched_getaffinity sched_setaffinity sched_yield "
    "setsid setuid sync sysconf ttyname wait wait3 wait4"
)
# SIGKILL is what the POSIX branch of subprocess ends processes by.
SIGNALS = ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGKILL", "SIGSEGV", "SIGTERM")
ENCODING = "cp1252"
SHARING = "The process cannot access the file because it is being used by another process"

real_open, real_stat = io.open, os.stat
real_replace, real_rename, real_unlink = os.replace, os.rename, os.unlink


class Missing(importlib.abc.MetaPathFinder):
    """Finds that a module is not there."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def mapped() -> set[str]:
    """Paths of the files that the process has mapped."""
    with real_open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.rstrip("\n").split(maxsplit=5) for line in lines]
    return {row[5] for row in fields if len(row) == 6}


def opened() -> set[str]:
    """Paths of the files that the process has open."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # that of the list itself
            continue
    return found


def require_free(path: Any, folder: int | None = None) -> None:
    name = os.fsdecode(path)
    if folder is not None:
        name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    name = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
    if os.path.isfile(name) and name in opened() | mapped():
        raise PermissionError(13, SHARING, name)


def replace(source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    require_free(source, src_dir_fd)
    require_free(target, dst_dir_fd)
    real_replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def rename(source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    require_free(source, src_dir_fd)
    if os.path.exists(target):
        raise FileExistsError(17, "Cannot create a file when that file already exists", target)
    real_rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def unlink(path: Any, *, dir_fd: int | None = None) -> None:
    require_free(path, dir_fd)
    real_unlink(path, dir_fd=dir_fd)


def stat(path: Any, **options: Any) -> os.stat_result:
    if not isinstance(path, int) and os.fsdecode(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", path)
    return real_stat(path, **options)


def open_file(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **options: Any) -> Any:
    if not isinstance(file, int):
        name = os.fsdecode(file)
        if name.startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", name)
        if set(os.path.basename(name)) & set('<>:"|?*'):
            raise OSError(22, "Invalid argument", name)
        if "w" in mode and os.path.realpath(name) in mapped():
            raise OSError(22, "The requested operation cannot be performed on a file with a user-mapped section", name)
    if "b" not in mode and encoding in (None, "locale"):
        encoding = ENCODING
    return real_open(file, mode, buffering, encoding, *rest, **options)


def take_away() -> None:
    sys.meta_path.insert(0, Missing())
    for name in MODULES & set(sys.modules):
        del sys.modules[name]
    for owner, names in (
        (os, FUNCTIONS.split()),
        (mmap, [name for name in dir(mmap) if name.startswith("MADV_")]),
        (signal, [name for name in dir(signal) if name.startswith("SIG") and name not in SIGNALS]),
    ):
        for name in names:
            if hasattr(owner, name) and not name.startswith("SIG_"):
                delattr(owner, name)
    contexts = multiprocessing.context._concrete_contexts
    for name in set(contexts) - {"spawn"}:
        del contexts[name]
    multiprocessing.set_start_method("spawn", force=True)
    os.replace, os.rename, os.stat = replace, rename, stat
    os.unlink = os.remove = unlink
    io.open = builtins.open = open_file
    locale.getencoding = lambda: ENCODING
    locale.getpreferredencoding = lambda do_setlocale=True: ENCODING
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "PYTHONIOENCODING" not in os.environ:
            stream.reconfigure(encoding=ENCODING)


take_away()
