"""The most memory that this process has held."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Returns the largest resident memory so far, in bytes.

    Linux begins ``ru_maxrss`` of a new process with that of the process that started it; its status does not.
    """
    if _STATUS.exists():
        return int(_STATUS.read_text(encoding="ascii").partition("VmHWM:")[2].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
