"""Progress, as a person at a terminal sees it; a pseudo-terminal stands in for the terminal."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quarkfast.cli.console import kilobytes, stages
from quarkfast.demo.data import INPUT_NAME, MODEL, load_images

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")


def test_on_a_terminal_progress_tells_stage_samples_and_rate(tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, **{INPUT_NAME: load_images().calibration})
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "quarkfast", "quantize", MODEL, "-o", tmp_path / "o.onnx", "--batch-size", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(
        [*command, "--calibration-data", samples], stdout=subprocess.PIPE, stderr=terminal, env=environment
    )
    os.close(terminal)
    shown = read_all(screen)
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "calibrate" in shown
    assert "/256 samples" in shown
    assert b"A8W8" in output, "the summary is not on standard output"


def read_all(screen: int) -> str:
    """Everything that is written to a pseudo-terminal until its writers have gone."""
    shown = b""
    try:
        while chunk := os.read(screen, 4096):
            shown += chunk
    except OSError:  # Linux answers EIO, not an end of file, when the last writer has closed
        pass
    os.close(screen)
    return shown.decode()


def test_elsewhere_progress_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with stages() as progress:
        progress("calibrate", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_sizes_are_told_in_thousands_of_bytes() -> None:
    assert kilobytes(1_234_567) == "1,234.6 kB"
