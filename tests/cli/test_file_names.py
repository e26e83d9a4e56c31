"""File names that are legal and rare: bytes that are no UTF-8, 255 bytes, symbolic links; with data beside, too."""

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.errors import OutputError
from quarkfast.graph.external import data_file
from support.tiny_models import conv_relu_model, samples, tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other file systems take no such names")

BAD = os.fsdecode(b"b\xff")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "samples.npz", x=samples())
    return tmp_path


@pytest.fixture
def two_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every model take two files, as those above 2 GiB do."""
    monkeypatch.setattr("quarkfast.graph.external.PROTOBUF_LIMIT", 64)


def wide_model() -> onnx.ModelProto:
    """A product with weights that go into a data file."""
    weights = {"w": np.ones((8, 64), np.float32)}
    return tiny_model("g (float[N, 8] x) => (float[N, 64] y) { y = MatMul (x, w) }", weights)


ROW = np.linspace(0, 1, 8, dtype=np.float32)[None]


def run_all(model: Path, data: Path, capfd: pytest.CaptureFixture[str]) -> list[tuple[int, str]]:
    """Runs every verb on a model, and returns statuses and what is on standard error."""
    result, other = (model.with_name(f"{first}{model.name[1:]}") for first in "qr")
    verbs = [
        ["quantize", model, "-o", result, "--calibration-data", data, "--verify"],
        ["quantize", model, "-o", result, "-p", "BF16", "--force", "--report", result.with_suffix(".html")],
        ["quantize", model, "-o", result, "-p", "INT8_WO", "--force"],
        ["inspect", result],
        ["plan", model],
        ["check", result, "--target", "ryzenai-a8w8"],
        ["calibrate", model, "--calibration-data", data, "-o", result.with_suffix(".json")],
        ["quantize", model, "-o", result, "--force", "--calibration", result.with_suffix(".json")],
        ["compare", model, result, "--data", data],
        ["evaluate", model, result, "--data", data],
        ["convert", "bfloat16", result, other],
    ]
    found = []
    for verb in verbs:
        capfd.readouterr()
        status = main([str(word) for word in verb])
        found.append((status, capfd.readouterr().err))
    return found


def test_a_name_that_is_no_utf_8_is_taken_by_every_verb(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, data = folder / f"{BAD}.onnx", folder / f"{BAD}.npz"
    model.write_bytes(conv_relu_model().SerializeToString())
    data.write_bytes((folder / "samples.npz").read_bytes())
    assert {status for status, _ in run_all(model, data, capfd)} <= {ExitCode.OK, ExitCode.BROKEN_RULE}


def test_a_folder_that_is_no_utf_8_is_taken_or_one_sentence(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = folder / BAD / "m.onnx"
    model.parent.mkdir()
    model.write_bytes(conv_relu_model().SerializeToString())
    for status, sentence in run_all(model, folder / "samples.npz", capfd):
        assert status in (ExitCode.OK, ExitCode.BROKEN_RULE) or (
            sentence.startswith("quarkfast: error: ") and sentence.count("\n") == 1 and r"b\udcff" in sentence
        )


@pytest.mark.parametrize("name", ["x" * 238 + ".onnx", "x" * 250 + ".onnx", "\u03a9" * 125 + ".onnx"], ids=len)
def test_a_name_of_255_bytes_is_taken_by_every_verb(folder: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    model = folder / name
    model.write_bytes(conv_relu_model().SerializeToString())
    found = run_all(model, folder / "samples.npz", capfd)
    assert {status for status, _ in found} <= {ExitCode.OK, ExitCode.BROKEN_RULE}, found


@pytest.mark.parametrize(
    "name", [f"{BAD}.onnx", "x" * 246 + ".onnx", "x" * 250 + ".onnx", "y" * 255, "\u03a9" * 125 + ".onnx"], ids=len
)
def test_data_beside_a_rare_name_is_found_again(folder: Path, two_files: None, name: str) -> None:
    output = folder / name
    quarkfast.quantize(wide_model(), output, "BF16")
    assert data_file(output).is_file()
    assert len(list(folder.iterdir())) == 3
    assert ort.run(ort.inference_session(output), {"x": ROW})[0].shape == (1, 64)
    assert quarkfast.inspect_model(output).external == (data_file(output).name,)
    onnx.load(output)


def test_data_files_of_long_names_that_begin_alike_differ() -> None:
    names = ["x" * 249 + last for last in ("1.onnx", "2.onnx")]
    assert len({data_file(Path(name)) for name in names}) == 2
    assert all(len(data_file(Path(name)).name) <= 255 for name in names)


@pytest.mark.parametrize("preset", ["BF16", "INT8_WO", "A8W8"])
def test_an_output_that_is_a_link_stays_one(folder: Path, capfd: pytest.CaptureFixture[str], preset: str) -> None:
    (folder / "m.onnx").write_bytes(conv_relu_model().SerializeToString())
    (folder / "in").mkdir()
    link, target = folder / "link.onnx", folder / "in" / "real.onnx"
    target.write_bytes(b"old")
    link.symlink_to(target)
    words = ["quantize", folder / "m.onnx", "-o", link, "-p", preset, "--calibration-data", folder / "samples.npz"]
    assert main(list(map(str, words))) == ExitCode.OUTPUT
    assert target.read_bytes() == b"old"
    assert main(list(map(str, [*words, "--force", "--verify"]))) == ExitCode.OK
    assert link.is_symlink()
    onnx.checker.check_model(onnx.load(target))
    assert sorted(path.name for path in folder.iterdir()) == ["in", "link.onnx", "m.onnx", "samples.npz"]
    assert [path.name for path in target.parent.iterdir()] == ["real.onnx"]


def test_data_of_a_link_lies_beside_what_it_leads_to_and_is_found_from_both(folder: Path, two_files: None) -> None:
    for name in ("in", "out"):
        (folder / name).mkdir()
    link, target = folder / "out" / "link.onnx", folder / "in" / "real.onnx"
    link.symlink_to("../in/real.onnx")
    for _ in range(2):
        quarkfast.quantize(wide_model(), link, "BF16")
        assert link.is_symlink()
        assert sorted(path.name for path in target.parent.iterdir()) == ["real.onnx", "real.onnx.data"]
        assert link.with_name("real.onnx.data").samefile(data_file(target))
        for path in (link, target):
            assert ort.run(ort.inference_session(path), {"x": ROW})[0].shape == (1, 64)
            assert quarkfast.inspect_model(path).external == ("real.onnx.data",)


def test_another_file_where_a_link_to_the_data_belongs_stays(folder: Path, two_files: None) -> None:
    for name in ("in", "out"):
        (folder / name).mkdir()
    link, other = folder / "out" / "link.onnx", folder / "out" / "real.onnx.data"
    link.symlink_to("../in/real.onnx")
    other.write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"output: expected to write '.*real\.onnx\.data', got File exists"):
        quarkfast.quantize(wide_model(), link, "BF16")
    assert other.read_bytes() == b"precious"
    assert not any((folder / "in").iterdir())


def test_a_calibration_behind_a_link_is_found_from_both(folder: Path) -> None:
    (folder / "in").mkdir()
    link, target = folder / "link.json", folder / "in" / "real.json"
    link.symlink_to(target)
    found = quarkfast.calibrate(conv_relu_model(), samples(), link)
    assert link.is_symlink()
    assert quarkfast.Calibration.load(link) == quarkfast.Calibration.load(target) == found
