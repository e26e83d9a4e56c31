"""The clock of the core, in cycles a second, from a loop whose length in cycles is known.

The time-stamp counter does not tell it: it ticks at a fixed rate whatever the core does. A chain of dependent 64-bit
multiplications takes three cycles each on every x86-64 core since 2008, so a loop of 16 takes 48, its counter and
branch running beside it. The machine code is written into memory, because no compiler may be at hand.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from collections.abc import Callable

CYCLES_A_LOOP = 48
LOOPS = 20_000

# loop: 16 x imul rax, rax; sub rdi, 1; jnz loop; ret
_CODE = b"\x48\x0f\xaf\xc0" * 16 + b"\x48\x83\xef\x01" + b"\x75\xba" + b"\xc3"


def available() -> bool:
    """Whether this machine runs the code: x86-64 with the calling convention of Linux and macOS."""
    return platform.machine().lower() in ("x86_64", "amd64") and platform.system() != "Windows"


def cycle_counter() -> Callable[[], float]:
    """Return a function that measures the clock in hertz, over a third of a millisecond."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(_CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    loop = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(address)

    def hertz() -> float:
        begin = time.perf_counter()
        loop(LOOPS)
        assert memory  # the code lives as long as this function
        return LOOPS * CYCLES_A_LOOP / (time.perf_counter() - begin)

    return hertz
