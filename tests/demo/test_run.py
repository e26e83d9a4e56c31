"""The demo's figures: one row for every preset, each close to the float model, nothing left behind."""

import tempfile
from pathlib import Path

import pytest

from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.demo.data import MODEL, recorded_top1
from quarkfast.demo.run import DEMO_PRESETS, FLOAT, Row, run
from support.processors import saturates


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.preset: row for row in run()}


def test_there_is_a_row_for_the_float_model_and_one_for_every_preset(rows: dict[str, Row]) -> None:
    assert list(rows) == [FLOAT, *DEMO_PRESETS]


def test_the_float_row_is_the_stored_model(rows: dict[str, Row]) -> None:
    row = rows[FLOAT]
    assert row.size == MODEL.stat().st_size
    assert row.top1 == pytest.approx(recorded_top1(), abs=1e-9)
    assert (row.agreement, row.sqnr, row.seconds) == (100, float("inf"), None)
    assert not row.default_is_others


@pytest.mark.parametrize("preset", DEMO_PRESETS)
def test_a_quantized_model_is_smaller_and_decides_as_the_float_model_does(rows: dict[str, Row], preset: str) -> None:
    row = rows[preset]
    assert row.size < 0.6 * rows[FLOAT].size
    # A wrong scale or a misplaced pair costs tens of dB: the coarsest preset, XINT8, measured 25.6 dB.
    assert row.sqnr > 25
    assert row.agreement >= 99
    assert row.top1 >= 98
    assert row.seconds is not None
    assert row.seconds > 0


def test_a_default_session_comes_to_other_sums_where_these_saturate_and_nowhere_else(rows: dict[str, Row]) -> None:
    assert rows["A8W8"].default_is_others == saturates()
    for row in rows.values():
        assert saturates() or abs(row.default_top1 - row.top1) <= 0.2  # one image of 500


def test_it_reports_what_it_works_on() -> None:
    seen: list[str] = []
    for _ in run(seen.append):
        pass
    assert seen == [FLOAT, *DEMO_PRESETS]


def test_the_command_prints_the_table_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo"]) == ExitCode.OK
    captured = capsys.readouterr()
    for word in ("preset", "file size", "top-1", "same as float", "logits SQNR", "quantized in", FLOAT, *DEMO_PRESETS):
        assert word in captured.out
    assert "exact sums" in captured.out
    assert ("comes to other sums on this processor" in captured.out) == saturates()
    assert captured.err == ""
    assert list(tmp_path.iterdir()) == []
