"""The command in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

RunModule = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_module() -> RunModule:
    """Runs `python -m quarkfast` with the modules that this process sees and the given environment variables."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        command = [sys.executable, "-m", "quarkfast", *map(str, arguments)]
        encoding = environment.get("PYTHONIOENCODING")
        return subprocess.run(command, capture_output=True, text=True, encoding=encoding, env=variables, check=False)

    return run
