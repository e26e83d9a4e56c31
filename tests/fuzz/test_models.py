"""A short run of mutated models: the cases that a long run begins with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked processes")
def test_mutated_models_end_in_success_or_one_sentence(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *sys.path])
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "models", "--cases", str(CASES)]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert f"{CASES} cases in " in done.stdout, done.stderr
    assert " 0 findings" in done.stdout, done.stdout
