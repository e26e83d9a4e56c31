"""The verbs `calibrate` and `merge-calibration`."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.demo.data import INPUT_NAME, MODEL, load_images


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(MODEL, tmp_path / "digits.onnx"))


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, **{INPUT_NAME: load_images().calibration[:64]})
    return path


def run(*arguments: object) -> int:
    return main(list(map(str, arguments)))


def test_it_writes_what_quantize_takes(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", model, "--calibration-data", samples) == ExitCode.OK
    captured = capsys.readouterr()
    for fact in ("digits_calibration.json", "64 samples in 2 runs", "tensors", "samples/s"):
        assert fact in captured.out
    assert captured.err == "", "expected silence where standard error is not a terminal"
    calibration = model.with_name("digits_calibration.json")
    for source, output in (("--calibration", "a.onnx"), ("--calibration-data", "b.onnx")):
        given = calibration if source == "--calibration" else samples
        options = ("--no-bias-correction", "--no-search-ranges")  # which read samples again
        assert run("quantize", model, source, given, *options, "-o", tmp_path / output) == ExitCode.OK
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_target_chooses_the_tensors(model: Path, samples: Path, tmp_path: Path) -> None:
    found = []
    for options in (("-p", "U8S8"), ("-p", "U8S8", "--target", "ryzenai-transformer")):
        output = tmp_path / f"{len(found)}.json"
        assert run("calibrate", model, "--calibration-data", samples, "-o", output, *options) == ExitCode.OK
        found.append(set(quarkfast.Calibration.load(output).tensors))
    assert found[1] < found[0]


def test_processes_and_threads_change_nothing(model: Path, samples: Path, tmp_path: Path) -> None:
    for name, options in (("one", ()), ("two", ("--processes", 2, "--threads", 1, "--moments"))):
        output = tmp_path / f"{name}.json"
        assert run("calibrate", model, "--calibration-data", samples, "-o", output, *options) == ExitCode.OK
    one, two = (quarkfast.Calibration.load(tmp_path / f"{name}.json") for name in ("one", "two"))
    assert one.ranges == two.ranges
    assert two.tensors[INPUT_NAME].moments is not None


def test_json_is_one_object_on_standard_output(model: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("calibrate", model, "--calibration-data", samples, "--json") == ExitCode.OK
    facts = json.loads(capsys.readouterr().out)
    assert (facts["samples"], facts["runs"], facts["random"], facts["not_finite"]) == (64, 2, False, 0)


def test_an_existing_output_is_replaced_only_by_force(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "c.json"
    output.write_bytes(b"precious")
    assert run("calibrate", model, "--calibration-data", samples, "-o", output) == ExitCode.OUTPUT
    assert re.search(
        r"expected a new file, got '.*c\.json', which exists; --force replaces it, --resume goes on", _err(capsys)
    )
    assert output.read_bytes() == b"precious"
    assert run("calibrate", model, "--calibration-data", samples, "-o", output, "--force") == ExitCode.OK


def test_what_was_cut_short_is_kept_and_resumed(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = tmp_path / "samples", tmp_path / "c.json"
    folder.mkdir()
    for index in range(4):
        np.save(folder / f"{index}.npy", load_images().calibration[32 * index : 32 * index + 32])
    (folder / "2.npy").replace(folder / "2.away")
    (folder / "2.npy").write_bytes(b"")
    command = ("calibrate", model, "--calibration-data", folder, "-o", output)
    assert run(*command) == ExitCode.CALIBRATION
    text = _err(capsys)
    assert re.search(r"^quarkfast: 64 samples are kept in .*c\.json; --resume goes on from there$", text, re.MULTILINE)
    assert "got another kind at" in text
    (folder / "2.away").replace(folder / "2.npy")
    assert run(*command, "--resume") == ExitCode.OK
    assert quarkfast.Calibration.load(output).samples == 128


def test_nothing_is_said_to_be_kept_where_nothing_was(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", model, "--calibration-data", tmp_path / "none.npy") == ExitCode.CALIBRATION
    assert "kept" not in _err(capsys)


def test_too_little_memory_is_one_sentence(model: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("calibrate", model, "--calibration-data", samples, "--max-memory", "1MB")
    assert run(*command) == ExitCode.CALIBRATION
    assert "--max-memory: expected at least" in _err(capsys)


def test_merging_adds_samples_up(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(2):
        np.save(tmp_path / f"{index}.npy", load_images().calibration[32 * index : 32 * index + 32])
        run("calibrate", model, "--calibration-data", tmp_path / f"{index}.npy", "-o", tmp_path / f"{index}.json")
    capsys.readouterr()
    parts = (tmp_path / "0.json", tmp_path / "1.json")
    assert run("merge-calibration", *parts, "-o", tmp_path / "all.json") == ExitCode.OK
    assert "64 samples in 2 runs" in capsys.readouterr().out
    assert run("merge-calibration", *parts, "-o", tmp_path / "all.json") == ExitCode.OUTPUT
    assert "which exists; --force replaces it" in _err(capsys)
    assert run("merge-calibration", *parts, "-o", tmp_path / "all.json", "--force", "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["samples"] == 64


def test_merging_what_is_no_calibration_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert run("merge-calibration", tmp_path / "a.json", "-o", tmp_path / "b.json") == ExitCode.CALIBRATION
    assert "expected a calibration of quarkfast" in _err(capsys)


def _err(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
