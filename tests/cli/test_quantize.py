"""The verb `quantize`: what it writes, prints and refuses."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config import OPTIONS
from quarkfast.demo.data import INPUT_NAME, MODEL, load_images
from quarkfast.errors import ModelError, OutputError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(MODEL, tmp_path / "digits.onnx"))


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, **{INPUT_NAME: load_images().calibration[:64]})
    return path


def quantize(*arguments: object) -> int:
    return main(["quantize", *map(str, arguments)])


def test_it_writes_a_valid_model_and_a_summary(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.onnx"
    assert quantize(model, "-o", output, "-p", "A8W8", "--calibration-data", samples) == ExitCode.OK
    onnx.checker.check_model(onnx.load(output), full_check=True)
    captured = capsys.readouterr()
    for fact in (model.name, output.name, "A8W8", "Conv", "64 samples"):
        assert fact in captured.out
    assert captured.err == "", "expected silence where standard error is not a terminal"


def test_the_default_output_lies_beside_the_model_and_names_the_preset(model: Path, samples: Path) -> None:
    assert quantize(model, "-p", "U8S8", "--calibration-data", samples) == ExitCode.OK
    assert model.with_name("digits_u8s8.onnx").is_file()


def test_json_is_one_object_on_standard_output(model: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quantize(model, "--calibration-data", samples, "--json") == ExitCode.OK
    report = json.loads(capsys.readouterr().out)
    assert report["output"] == str(model.with_name("digits_a8w8.onnx"))
    assert report["preset"] == "A8W8"
    assert report["quantized"]["Conv"] == 7
    assert report["bytes_after"] < report["bytes_before"] == model.stat().st_size


def test_an_existing_output_is_replaced_only_by_force(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.onnx"
    output.write_bytes(b"precious")
    assert quantize(model, "-o", output, "--calibration-data", samples) == ExitCode.OUTPUT
    assert re.search(
        r"--output: expected a new file, got '.*out\.onnx', which exists; --force", capsys.readouterr().err
    )
    assert output.read_bytes() == b"precious"
    assert quantize(model, "-o", output, "--calibration-data", samples, "--force") == ExitCode.OK
    assert output.read_bytes() != b"precious"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["{m}", "-p", "A8W9"], ExitCode.USAGE, r"--preset: expected one of .*, got 'A8W9'; did you mean 'A8W8'\?"),
        (["{t}/none.onnx", "-p", "BF16"], ExitCode.MODEL, r".*none\.onnx: expected an existing ONNX file.*"),
        (["{s}", "-p", "BF16"], ExitCode.MODEL, r".*samples\.npz: expected an ONNX model, got .*"),
        (
            ["{m}"],
            ExitCode.CALIBRATION,
            r"--calibration-data: expected samples, which the preset needs to find ranges, got none",
        ),
        (["{m}", "--calibration-data", "{t}/none.npz"], ExitCode.CALIBRATION, r"--calibration-data: .*none\.npz.*"),
        (["{m}", "-p", "BF16", "-o", "{t}/no/out.onnx"], ExitCode.OUTPUT, r"--output: expected an existing folder.*"),
        (["{m}", "-p", "BF16", "-o", "{t}"], ExitCode.OUTPUT, r"--output: expected a file name, got the directory.*"),
        (["{m}", "--bf16-qdq-to-cast"], ExitCode.USAGE, r"--bf16-qdq-to-cast: expected activations of 8- or.*"),
        (["{m}", "--samples", "0"], ExitCode.USAGE, r"--samples: expected an integer greater than 0, got 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_work_is_one_sentence_and_leaves_nothing_behind(
    arguments: list[str],
    code: ExitCode,
    sentence: str,
    model: Path,
    samples: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(tmp_path.iterdir())
    assert quantize(*(word.format(m=model, s=samples, t=tmp_path) for word in arguments)) == code
    assert re.fullmatch(f"quarkfast: error: {sentence}\n", capsys.readouterr().err)
    assert sorted(tmp_path.iterdir()) == before


def test_a_warning_of_the_pipeline_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = onnx.parser.parse_graph("g (float[2, 2] x) => (float y) { y = Det(x) }")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    assert quantize(tmp_path / "m.onnx", "-p", "BF16") == ExitCode.OK
    assert capsys.readouterr().err.startswith("quarkfast: warning: quantize: nothing in the model can be quantized")


def test_every_option_of_the_configuration_is_an_option_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["quantize", "--help-all"])
    text = capsys.readouterr().out
    for name in OPTIONS:
        assert re.search(rf"--{name.replace('_', '-')}\b", text), name


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        (["--per-channel"], "per_channel", True),
        (["--per-tensor"], "per_channel", False),
        (["--group-size", "32"], "group_size", 32),
        (["--no-activation-symmetric"], "activation_symmetric", False),
        (["--weight-symmetric"], "weight_symmetric", True),
        (["--bf16-qdq-to-cast"], "bf16_qdq_to_cast", True),
        (["--keep-float-weights"], "keep_float_weights", True),
        (["--no-force-pass-through"], "force_pass_through", False),
        (["--op-types", "Conv", "--op-types", "Gemm"], "op_types", ["Conv", "Gemm"]),
        (["--exclude", "conv1"], "exclude", ["conv1"]),
        (["--samples", "16"], "samples", 16),
        (["--batch-size", "8"], "batch_size", 8),
        (["--preprocess", "yolo"], "preprocess", "yolo"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0][0] == "-" else "",
)
def test_an_option_reaches_the_pipeline_and_what_is_not_given_does_not(
    arguments: list[str], option: str, value: object, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}

    def record(*_: object, progress: object, **options: object) -> None:
        seen.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(quarkfast, "quantize", record)
    quantize(model, *arguments)
    assert seen == {option: value}


def test_verify_and_report_tell_the_kernels(model: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, report = ["--calibration-data", str(samples), "-p", "U8S8", "--verify"], model.with_name("r.json")
    assert quantize(model, *arguments, "--report", str(report), "--json") == ExitCode.OK
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(report.read_text(encoding="utf-8"))
    assert printed["verification"]["integer"]["QLinearConv"] > 0
    assert printed["verification"]["divergence"]["largest"] >= 0
    assert printed["verification"]["saturated_sums"]["layers"] == len(printed["verification"]["may_saturate"]) > 0
    assert quantize(model, *arguments, "--force") == ExitCode.OK
    shown = capsys.readouterr().out
    assert all(row in shown for row in ("integer kernels", "accuracy", "default or exact sums", "may saturate"))


def test_verify_without_samples_or_the_float_model_tells_the_kernels_alone(
    model: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = model.with_name("c.json")
    quarkfast.calibrate(model, str(samples)).save(stored)
    assert quantize(model, "--calibration", stored, "-p", "U8S8", "--verify", "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["verification"]["divergence"] is None
    arguments = ["--calibration-data", samples, "-p", "U8S8", "-o", model, "--force", "--verify", "--json"]
    assert quantize(model, *arguments) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["verification"]["divergence"] is None


def test_a_report_that_cannot_be_written_stops_before_any_work(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    arguments = ["--calibration-data", str(samples), "--report", str(tmp_path / "no" / "r.json")]
    assert quantize(model, *arguments) == ExitCode.OUTPUT
    assert re.fullmatch(r"quarkfast: error: --output: expected an existing folder.*\n", capsys.readouterr().err)
    assert sorted(tmp_path.iterdir()) == before


def test_a_report_is_a_page_or_plain_data_by_its_ending(
    model: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = model.with_name("r.HTML")
    assert quantize(model, "--calibration-data", samples, "--verify", "--report", page) == ExitCode.OK
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert all(
        word in text
        for word in ("digits.onnx in A8W8", "QLinearConv", "default session", "Layers and tensors", "kB \u2192 ")
    )
    assert "costs most, measured" in text
    assert "tensors that were measured" in text
    assert "on 8 samples, with exact sums" in text
    assert "Median time of a run on the first sample" in text
    assert re.search(r"ms \u2192 [\d.,]+\xa0ms", text)
    assert '"k":"activation"' in text
    assert all('"h":' in each for each in re.findall(r'{[^{}]*"k":"activation"[^{}]*"v":[^{}]*}', text))
    capsys.readouterr()
    before = sorted(model.parent.iterdir())
    assert quantize(model, "--calibration-data", samples, "--report", "r.txt", "--force") == ExitCode.OUTPUT
    said = capsys.readouterr().err
    assert said == "quarkfast: error: --report: expected a file name that ends in .html or .json, got 'r.txt'\n"
    assert sorted(model.parent.iterdir()) == before


def test_a_page_says_why_nothing_could_be_compared(model: Path, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ModelError("compare: expected models of as many inputs, got 1 and 2")

    monkeypatch.setattr(quarkfast, "compare_models", refuse)
    page = model.with_name("r.html")
    assert quantize(model, "--calibration-data", samples, "--report", page) == ExitCode.OK
    text = page.read_text(encoding="utf-8")
    assert "compare: expected models of as many inputs, got 1 and 2" in text
    assert "costs most, as expected from calibration" in text


def test_a_report_that_fails_late_loses_neither_model_nor_the_report_before(
    model: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = model.with_name("r.html")
    report.write_text("the one before", encoding="utf-8")

    def fail(data: bytes, output: Path) -> None:
        raise OutputError(f"output: expected to write {str(output)!r}, got No space left on device")

    monkeypatch.setattr("quarkfast.search.quantize.save_bytes", fail)
    assert quantize(model, "--calibration-data", samples, "--report", report) == ExitCode.OUTPUT
    onnx.checker.check_model(onnx.load(model.with_name("digits_a8w8.onnx")), full_check=True)
    assert report.read_text(encoding="utf-8") == "the one before"


def _refuse(*_: object) -> None:
    raise ModelError("verify: the runtime refuses it")


@pytest.mark.parametrize("old", [None, b"old"], ids=["new", "replaced"])
def test_a_result_that_does_not_verify_leaves_the_output_as_it_was(
    model: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes | None
) -> None:
    monkeypatch.setattr(quarkfast, "verify", _refuse)
    output = tmp_path / "out.onnx"
    if old is not None:
        output.write_bytes(old)
    before = sorted(tmp_path.iterdir())
    assert quantize(model, "-o", output, "--calibration-data", samples, "--verify", "--force") == ExitCode.MODEL
    assert sorted(tmp_path.iterdir()) == before
    assert old is None or output.read_bytes() == old


def test_a_model_that_is_quantized_in_its_place_is_there_again_where_it_does_not_verify(
    model: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarkfast, "verify", _refuse)
    before = model.read_bytes()
    assert quantize(model, "-o", model, "--calibration-data", samples, "--verify", "--force") == ExitCode.MODEL
    assert model.read_bytes() == before
