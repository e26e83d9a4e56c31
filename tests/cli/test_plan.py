"""The verb `plan`: the options of `quantize`, a table or JSON, nothing written."""

import json
import re
from collections import Counter
from pathlib import Path

import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config import OPTIONS, POLICY, thresholds
from quarkfast.demo.data import MODEL
from support.tiny_models import conv_relu_model

METADATA = [f"quarkfast.{name}" for name in ("scheme", "plan", "versions", "portable", "equalized", "preset", "notes")]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(conv_relu_model(), path)
    return path


def test_it_prints_a_table_and_writes_nothing(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "-p", "U8S8", "--exclude-op-types", "Add"]) == ExitCode.OK
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "activations 3 uint8 asymmetric" in lines
    assert "left float Add 'add_3': excluded" in lines
    assert list(model.parent.iterdir()) == [model]


def test_all_shows_each_tensor_and_step(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "-p", "U8S8", "--exclude-op-types", "Add", "--all"]) == ExitCode.OK
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "activation 'x': uint8 asymmetric" in lines
    assert "left float 'add_3': excluded" in lines
    assert any(line.startswith("recipe sort, ") for line in lines)


@pytest.mark.parametrize("preset", ["XINT8", "A8W8", "U8S8", "A16W8", "BF16", "BFP16"])
def test_plan_quantize_and_check_count_the_same(preset: str, tmp_path: Path) -> None:
    output = tmp_path / "quantized.onnx"
    summary = quarkfast.quantize(MODEL, output, preset, "random", samples=2).summary
    assert Counter(quarkfast.plan(MODEL, preset).quantized.values()) == summary.quantized
    assert quarkfast.check_model(output, summary.target).quantized == summary.quantized


def test_json_is_one_object_on_standard_output(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--per-channel", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == {"w1": "int8 for each index of axis 0", "w2": "int8 for each index of axis 0"}
    assert found["scheme"]["weight"]["granularity"] == "channel"


def test_the_policy_is_shown_with_the_thresholds_that_were_given(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["plan", str(model), "--policy-values", '{"bias_samples": 9}', "--policy"]
    assert main(given) == ExitCode.OK
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == {row.name for row in thresholds(POLICY)}
    assert "9 samples: that are read" in lines["bias_samples"]
    assert main([*given, "--json"]) == ExitCode.OK
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["bias_samples"] == {"name": "bias_samples", "value": 9, "unit": "samples", "purpose": "that are read"}


def test_every_option_of_the_configuration_is_an_option_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["plan", "--help-all"])
    text = capsys.readouterr().out
    for name in OPTIONS:
        assert re.search(rf"--{name.replace('_', '-')}\b", text), name
    assert "--calibration-data" not in text


def test_a_target_of_the_package_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "--target", "ort-cpu"]) == ExitCode.OK
    assert "placed for ort-cpu" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", str(model), "--target", "ort-gpu"]) == ExitCode.USAGE
    expected = r"quarkfast: error: --target: expected one of .*, got 'ort-gpu'; did you mean 'ort-cpu'\?\n"
    assert re.fullmatch(expected, capsys.readouterr().err)


def test_a_mistake_is_one_sentence(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(model), "-p", "A9"]) == ExitCode.USAGE
    assert re.fullmatch(r"quarkfast: error: --preset: expected one of .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000, "[" * 5000 + "]" * 5000, "9" * 5000, "{"], ids=len)
@pytest.mark.parametrize("option", ["--layers", "--tensors"])
def test_json_that_cannot_be_read_is_one_sentence(
    model: Path, capsys: pytest.CaptureFixture[str], option: str, text: str
) -> None:
    assert main(["plan", str(model), option, text]) == ExitCode.USAGE
    sentence = capsys.readouterr().err
    assert sentence.startswith(f"quarkfast: error: {option}: expected JSON, got ")
    assert sentence.count("\n") == 1


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 5000, "9" * 5000], ids=["lists", "objects", "digits"])
def test_a_configuration_that_cannot_be_read_is_one_sentence(
    model: Path, capsys: pytest.CaptureFixture[str], suffix: str, text: str
) -> None:
    config = model.with_suffix(suffix)
    config.write_text(text)
    assert main(["plan", str(model), "--config", str(config)]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "value", ["[" * 5000, "3", '[{"node": 1}]', '{"a": 1}', '[{"node": "a", "before": [], "after": 1}]']
)
def test_metadata_that_others_wrote_harm_no_verb(tmp_path: Path, model: Path, value: str) -> None:
    found = onnx.load(model)
    onnx.helper.set_model_props(found, dict.fromkeys(METADATA, value))
    onnx.save(found, tmp_path / "strange.onnx")
    for verb in (["inspect"], ["plan"], ["check", "--target", "ryzenai-a8w8"]):
        assert main([verb[0], str(tmp_path / "strange.onnx"), *verb[1:]]) in (ExitCode.OK, ExitCode.BROKEN_RULE)
    assert quarkfast.verify(tmp_path / "strange.onnx").reductions is None
