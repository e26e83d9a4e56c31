"""The verb `plan`: the options of `quantize`, a table or JSON, nothing written."""

import json
import re
from pathlib import Path

import onnx
import pytest

from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config import OPTIONS
from support.tiny_models import conv_relu_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(conv_relu_model(), path)
    return path


def test_it_prints_a_table_and_writes_nothing(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "-p", "U8S8", "--exclude-op-types", "Add"]) == ExitCode.OK
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "activation 'x': uint8 asymmetric" in lines
    assert "left float 'add_3': excluded" in lines
    assert list(model.parent.iterdir()) == [model]


def test_json_is_one_object_on_standard_output(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--per-channel", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == {"w1": "int8 for each index of axis 0", "w2": "int8 for each index of axis 0"}
    assert found["scheme"]["weight"]["granularity"] == "channel"


def test_every_option_of_the_configuration_is_an_option_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["plan", "--help"])
    text = capsys.readouterr().out
    for name in OPTIONS:
        assert re.search(rf"--{name.replace('_', '-')}\b", text), name
    assert "--calibration-data" not in text


def test_a_target_of_the_package_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--target", "ort-cpu"]) == ExitCode.OK
    assert "placed for ort-cpu" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", str(model), "--target", "ort-gpu"]) == ExitCode.USAGE
    expected = r"quarkfast: error: target: expected one of .*, got 'ort-gpu'; did you mean 'ort-cpu'\?\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


def test_a_mistake_is_one_sentence(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "-p", "A9"]) == ExitCode.USAGE
    assert re.fullmatch(r"quarkfast: error: preset: expected one of .*\n", capsys.readouterr().err)
