"""Ctrl-C, and other signals that end a process, at a moment that suits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["uninterrupted"]

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets the block finish before an interrupt from the keyboard is raised; a second one is raised at once.

    The same holds for the other signals that end a process, where they raise something too. They reach the main thread
    alone, so in other threads there is nothing to do.
    """
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    previous = {number: handler for number, handler in found.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not previous:
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            previous[number](number, frame)
        waiting.append((number, frame))

    for number in previous:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if waiting:
            previous[waiting[0][0]](*waiting[0])
