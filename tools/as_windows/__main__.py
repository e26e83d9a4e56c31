"""Runs a command as on Windows, on Linux: ``python -m tools.as_windows COMMAND ...``.

The processes of the command, and those that they start, lack what Windows lacks: site/sitecustomize.py tells what.
It shows faults of Python code, not of compiled code: that is `nox -s windows`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SITE = Path(__file__).with_name("site")


def main() -> None:
    """Becomes the command."""
    if len(sys.argv) < 2 or sys.platform != "linux":
        sys.exit(f"tools.as_windows: expected a command, on Linux, got {sys.argv[1:]} on {sys.platform}")
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.execvpe(sys.argv[1], sys.argv[1:], os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "0"})


if __name__ == "__main__":
    main()
