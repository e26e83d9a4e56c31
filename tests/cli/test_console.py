"""Progress, as a person at a terminal sees it; a pseudo-terminal stands in for the terminal."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quarkfast.cli import console
from quarkfast.cli.column_widths import column_widths
from quarkfast.cli.console import kilobytes, show_facts, show_table, stages
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


def test_elsewhere_a_line_tells_progress_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_BETWEEN_LINES", 0.01)
    shown = ""
    with stages() as progress:
        progress("calibrate", 1, 4)
        while "left" not in shown:
            shown += capsys.readouterr().err
    assert re.search(r"^quarkfast: calibrate: 1/4 samples in \d+ s, about \d+ s left$", shown, re.MULTILINE)


def test_a_search_tells_what_it_may_take_before_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with stages() as progress:
        progress("search", 1, 10)
    shown = capsys.readouterr().err
    assert re.fullmatch(r"quarkfast: search: 1/10 levers in \d+ s, about \d+ s left at most\n", shown)


def test_elsewhere_a_short_run_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with stages() as progress:
        progress("calibrate", 1, 2)
    assert capsys.readouterr() == ("", "")


COLUMNS = ("tensor", "own rounding", "all errors", "worst channels")
ROWS = [("/layer2/layer2.8/bn2/BatchNormalization_output_0", "22.9 dB", "-16.8 dB", "2: 0.0 dB, 25: -11.5 dB")]


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table("a title", COLUMNS, ROWS, lists=(3,))
    return re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_figures_are_whole_on_every_terminal(monkeypatch, capsys, width):
    lines = shown_on_a_terminal(monkeypatch, capsys, width).splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert all(figure in text for figure in ("22.9 dB", "-16.8 dB", "2: 0.0 dB", "25: -11.5 dB"))
    assert "…" not in text
    one_line = [line for line in lines if "22.9 dB" in line and "-16.8 dB" in line]
    assert bool(one_line) == (width > 40), "figures of a row stand in one line where there is room for them"


def test_columns_that_do_not_fit_are_said_to():
    assert column_widths(COLUMNS, ROWS, (3,), 20) is None
    assert column_widths(COLUMNS, ROWS, (3,), 45) == [17, 8, 8, 12]
    assert column_widths(COLUMNS, ROWS, (3,), 200) == [48, 12, 10, 23]


def test_lines_of_a_file_end_where_their_text_ends(capsys: pytest.CaptureFixture[str]) -> None:
    show_facts([("model", "a"), ("output", "long")])
    assert capsys.readouterr().out == "model   a\noutput  long\n"


def test_sizes_are_told_in_thousands_of_bytes() -> None:
    assert kilobytes(1_234_567) == "1,234.6 kB"
