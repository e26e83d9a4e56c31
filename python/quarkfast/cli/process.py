"""The process of the command, which nobody else's code runs in."""

import gc
import os
import signal
from types import FrameType

from quarkfast.cli.app import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.streams import open_streams

# OpenBLAS's threads wait for work for 2^26 cycles before they sleep, first of all when NumPy is imported: 55 ms of
# processor time for two threads. Nothing here multiplies matrices; 4 is the least that OpenBLAS takes.
_SLEEP_SOON = ("OPENBLAS_THREAD_TIMEOUT", "4")

# What ends a process from outside: the second is sent when its terminal closes, and is unknown to Windows.
_ENDINGS = ("SIGTERM", "SIGHUP")


def run() -> int:
    """Run the command in a process of its own, which spends no time on waiting and on being cleaned up.

    What the environment says goes before what is set here. Signals that end the process do so as an interrupt from the
    keyboard does, so that nothing is left over.

    Returns:
        The exit status, one of `ExitCode`.
    """
    os.environ.setdefault(*_SLEEP_SOON)
    open_streams()
    ended = _interrupts()
    try:
        status = main()
        return ExitCode.TERMINATED if ended and status == ExitCode.INTERRUPTED else status
    finally:
        gc.freeze()  # Python would look for cycles in all that was imported, three times: 80 ms


def _interrupts() -> list[int]:
    """Makes interrupts of the signals that end a process, and returns the list of those that will have come."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for number in (getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored
            signal.signal(number, interrupt)
    return came
