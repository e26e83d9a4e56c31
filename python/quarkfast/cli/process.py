"""The process of the command, which nobody else's code runs in."""

import gc
import os

from quarkfast.cli.app import main

# OpenBLAS's threads wait for work for 2^26 cycles before they sleep, first of all when NumPy is imported: 55 ms of
# processor time for two threads. Nothing here multiplies matrices; 4 is the least that OpenBLAS takes.
_SLEEP_SOON = ("OPENBLAS_THREAD_TIMEOUT", "4")


def run() -> int:
    """Run the command in a process of its own, which spends no time on waiting and on being cleaned up.

    What the environment says goes before what is set here.

    Returns:
        The exit status, one of `ExitCode`.
    """
    os.environ.setdefault(*_SLEEP_SOON)
    try:
        return main()
    finally:
        gc.freeze()  # Python would look for cycles in all that was imported, three times: 80 ms
