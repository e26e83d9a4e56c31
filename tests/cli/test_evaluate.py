"""The verb `evaluate`: tables, JSON and exit statuses; and Quark's tool of that name."""

import json

import numpy as np
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.compat.quark.onnx.tools import evaluate as quark_tool
from quarkfast.demo.data import MODEL, load_images


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = load_images()
    quarkfast.quantize(MODEL, "digits.onnx", "A8W8", {"image": images.calibration})
    np.savez("test.npz", image=images.test[:100])
    return tmp_path


@pytest.fixture
def folders(tmp_path):
    for name, value in (("float", 1.0), ("int8", 1.1)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.array([value, 2.0, 2.0]))
    return str(tmp_path / "float"), str(tmp_path / "int8")


def test_two_models_get_a_table(files, capsys):
    assert main(["evaluate", str(MODEL), "digits.onnx", "--data", "test.npz"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "100 samples" in out
    assert "logits" in out
    assert "SSIM" not in out


def test_json_is_one_object(files, capsys):
    assert main(["evaluate", str(MODEL), "digits.onnx", "--data", "test.npz", "--sums", "exact", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"][0]["samples"] == 100
    assert found["exact"][0]["sqnr"] > 20
    assert found["scores"] == []


@pytest.mark.parametrize(("limit", "status"), [("sqnr=10", ExitCode.OK), ("sqnr=90", ExitCode.BELOW)])
def test_the_exit_status_tells_what_is_below_its_limit(files, capsys, limit, status):
    arguments = ["evaluate", str(MODEL), "digits.onnx", "--data", "test.npz", "--fail-below", limit]
    assert main([*arguments, "--fail-below", "top1=50"]) == status
    assert ("less than 90" in capsys.readouterr().err) == (status == ExitCode.BELOW)


@pytest.mark.parametrize(
    ("more", "status", "sentence"),
    [
        (["--fail-below", "sqnr"], ExitCode.USAGE, "--fail-below: expected NAME=VALUE such as sqnr=20, got 'sqnr'"),
        (["--fail-below", "sqnt=1"], ExitCode.USAGE, "limit: expected one of sqnr,"),
        (["--fail-below", "ssim_min=1"], ExitCode.USAGE, "got 'ssim_min', which none of them has"),
        (["--sums", "none"], ExitCode.USAGE, "--sums: expected one of auto, runtime, exact, both"),
        (["--metric", "none:top1"], ExitCode.USAGE, "--metric: expected the function 'none:top1'"),
        (["--samples", "0"], ExitCode.USAGE, "invalid value for '--samples'"),
    ],
)
def test_bad_options_get_a_sentence(files, capsys, more, status, sentence):
    assert main(["evaluate", str(MODEL), "digits.onnx", "--data", "test.npz", *more]) == status
    assert sentence in capsys.readouterr().err


def test_models_want_data_and_folders_none(files, folders, capsys):
    assert main(["evaluate", str(MODEL), "digits.onnx"]) == ExitCode.USAGE
    assert main(["evaluate", *folders, "--data", "test.npz"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "--data: expected samples for two models, got none" in error
    assert "--data: expected two models to run on it, got folders" in error


def test_two_folders_get_a_table(folders, capsys):
    assert main(["evaluate", *folders]) == ExitCode.OK
    assert "arrays" in capsys.readouterr().out


def test_a_folder_beside_a_model_is_a_sentence(folders, capsys):
    assert main(["evaluate", folders[0], str(MODEL)]) == ExitCode.CALIBRATION
    assert "expected a folder of results" in capsys.readouterr().err


def test_equal_results_are_called_so(folders, capsys):
    assert main(["evaluate", folders[0], folders[0], "--fail-below", "sqnr=200"]) == ExitCode.OK
    assert "equal" in capsys.readouterr().out


def test_quarks_tool_takes_quarks_arguments(folders, capsys):
    first, second = folders
    assert quark_tool.main(["--baseline_results_folder", first, "--quantized_results_folder", second]) == 0
    # By hand: the difference is 0.1, the peak 2, three values.
    psnr = 10 * np.log10(4 / (0.01 / 3))
    cosine = (1.1 + 8) / 3 / np.sqrt(1.1**2 + 8)
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    for name, value in {"Mean cos similarity": cosine, "Max l2 distance": 0.1, "Min psnr": psnr}.items():
        assert float(lines[name]) == pytest.approx(value, rel=1e-6)
    assert quark_tool.main(["--baseline_results_folder", first, "--quantized_results_folder", "none"]) == 1
    assert "evaluate: error: expected a folder of results" in capsys.readouterr().err
