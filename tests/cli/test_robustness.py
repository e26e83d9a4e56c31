"""Broken models, data and destinations: one sentence, the right exit status, no file left, bounded memory."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from support.broken_models import BROKEN_MODELS, huge_constant, huge_input, unknown_input, unknown_output
from support.tiny_models import conv_relu_model, samples, tiny_model

_INFINITE_BIAS = np.float32([0, np.inf, 0])


def _write(path: Path, model: onnx.ModelProto | bytes) -> None:
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())


def _sentence(text: str) -> str:
    assert text.startswith("quarkfast: error: "), text
    assert text.count("\n") == 1, text
    return text.removeprefix("quarkfast: error: ").removesuffix("\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with data beside and outside the model, and samples."""
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "in.data").write_bytes(b"\0" * 64)
    (inside / "in.data").write_bytes(b"\0" * 64)
    (inside / "link.data").symlink_to(tmp_path / "in.data")
    np.savez(inside / "samples.npz", x=samples())
    return inside


def _files(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("preset", ["A8W8", "INT8_WO"])
@pytest.mark.parametrize(("make", "sentence"), BROKEN_MODELS)
def test_a_broken_model_is_one_sentence_and_leaves_nothing(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[], onnx.ModelProto | bytes],
    sentence: str,
    preset: str,
) -> None:
    _write(folder / "m.onnx", make())
    before = _files(folder)
    status = main(["quantize", str(folder / "m.onnx"), "-p", preset, "--calibration-data", str(folder / "samples.npz")])
    captured = capsys.readouterr()
    assert status == ExitCode.MODEL, captured
    assert re.fullmatch(sentence, _sentence(captured.err)), captured.err
    assert _files(folder) == before


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "BF16", "BFP16"])
def test_an_infinite_bias_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str], preset: str) -> None:
    _write(folder / "m.onnx", conv_relu_model(b1=_INFINITE_BIAS))
    before = _files(folder)
    arguments = ["-p", preset, "--calibration-data", str(folder / "samples.npz")]
    assert main(["quantize", str(folder / "m.onnx"), *arguments]) == ExitCode.MODEL
    expected = "tensor 'b1': expected finite weights, got infinity in 1 of 3 values"
    assert _sentence(capsys.readouterr().err) == expected
    assert _files(folder) == before


def test_what_packages_log_is_not_shown(folder: Path, run_module: Callable[..., Any]) -> None:
    for make in (unknown_input, unknown_output):
        _write(folder / "m.onnx", make())
        done = run_module("quantize", folder / "m.onnx", "-p", "BF16")
        assert done.returncode == ExitCode.MODEL
        assert _sentence(done.stderr)


@pytest.mark.parametrize("make", [huge_input, huge_constant], ids=["input", "constant"])
@pytest.mark.parametrize("verb", ["plan", "quantize"])
def test_absurd_declared_shapes_take_no_memory(folder: Path, make: Callable[[], onnx.ModelProto], verb: str) -> None:
    pytest.importorskip("resource", reason="this system limits no process's memory")
    _write(folder / "m.onnx", make())
    data = [] if verb == "plan" else ["--calibration-data", "random", "--samples", "2"]
    code = f"""
import resource, sys
sys.path[:] = {sys.path!r}
from quarkfast.cli import main
resource.setrlimit(resource.RLIMIT_AS, ({8 << 30}, {8 << 30}))
sys.exit(main({["quantize" if verb == "quantize" else "plan", str(folder / "m.onnx"), *data]!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode in (ExitCode.OK, ExitCode.MODEL, ExitCode.CALIBRATION, ExitCode.FAILURE), done
    if done.returncode:
        assert _sentence(done.stderr)
        assert not list(folder.glob("m_*"))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"x": np.empty((0, 3, 8, 8), np.float32)}, r".*"),
        ({"z": samples()}, r".*'z'.*"),
        ({}, r".*"),
        ({"x": samples().astype(np.float64)}, r".*float64.*"),
        ({"x": samples().astype(np.int32)}, r".*int32.*"),
        ({"x": samples()[:, :2]}, r".*"),
        ({"x": samples()[0]}, r".*"),
        ({"x": np.float32(1)}, r".*"),
    ],
    ids=["no rows", "name", "nothing", "double", "integers", "channels", "rank", "scalar"],
)
def test_wrong_data_is_one_sentence_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], data: dict[str, NDArray[Any]], sentence: str
) -> None:
    _write(folder / "m.onnx", conv_relu_model())
    np.savez(folder / "wrong.npz", **data)  # type: ignore[arg-type]
    before = _files(folder)
    status = main(["quantize", str(folder / "m.onnx"), "--calibration-data", str(folder / "wrong.npz")])
    assert status == ExitCode.CALIBRATION
    assert re.fullmatch(sentence, _sentence(capsys.readouterr().err))
    assert _files(folder) == before


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04garbage"], ids=["empty", "garbage", "half a zip"])
@pytest.mark.parametrize("name", ["wrong.npz", "wrong.npy"])
def test_files_that_are_no_data_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, name: str
) -> None:
    _write(folder / "m.onnx", conv_relu_model())
    (folder / name).write_bytes(content)
    assert main(["quantize", str(folder / "m.onnx"), "--calibration-data", str(folder / name)]) == ExitCode.CALIBRATION
    assert _sentence(capsys.readouterr().err)


_ZERO = np.zeros((3, 3, 1, 1), np.float32)
_DEAD = np.concatenate([np.ones((1, 3, 1, 1)), np.zeros((2, 3, 1, 1))]).astype(np.float32)


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "XINT8", "U8S8", "BF16", "MX9", "INT8_WO", "BF16_WO"])
@pytest.mark.parametrize("weight", [_ZERO, _DEAD], ids=["zero weights", "zero channels"])
@pytest.mark.parametrize("data", [0, 1], ids=["zero activations", "constant activations"])
def test_zeros_and_constants_are_quantized_to_finite_scales(
    folder: Path, preset: str, weight: NDArray[np.float32], data: int
) -> None:
    _write(folder / "m.onnx", conv_relu_model(w2=weight))
    np.savez(folder / "same.npz", x=np.full((4, 3, 8, 8), data, np.float32))
    arguments = ["--calibration-data", str(folder / "same.npz"), "-o", str(folder / "out.onnx")]
    if preset in ("A8W8", "A16W8", "U8S8"):
        arguments.append("--per-channel")
    assert main(["quantize", str(folder / "m.onnx"), "-p", preset, *arguments]) == ExitCode.OK
    for tensor in onnx.load(folder / "out.onnx").graph.initializer:
        if tensor.name.endswith("_scale"):
            scale = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            assert (np.isfinite(scale) & (scale > 0)).all(), tensor.name


def test_an_unsorted_graph_is_sorted(folder: Path) -> None:
    model = conv_relu_model()
    nodes = [*model.graph.node][::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for preset in ("A8W8", "INT8_WO"):
        _write(folder / "m.onnx", model)
        arguments = [
            "-p",
            preset,
            "--calibration-data",
            str(folder / "samples.npz"),
            "-o",
            str(folder / "o.onnx"),
            "-f",
        ]
        assert main(["quantize", str(folder / "m.onnx"), *arguments]) == ExitCode.OK
        onnx.checker.check_model(onnx.load(folder / "o.onnx"))


@pytest.mark.parametrize("preset", ["A8W8", "INT8_WO"])
@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("", r"--output: expected a file name, got the directory .*"),
        ("none/out.onnx", r"--output: expected an existing folder, got .*"),
        ("in.data/out.onnx", r"--output: expected an existing folder, got .*"),
        ("x" * 300 + ".onnx", r".*[Ff]ile name too long.*"),
    ],
    ids=["directory", "no folder", "a file as folder", "long name"],
)
def test_an_output_that_cannot_be_written_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, sentence: str, preset: str
) -> None:
    _write(folder / "m.onnx", conv_relu_model())
    before = _files(folder)
    arguments = ["-p", preset, "-o", str(folder / output), "--calibration-data", str(folder / "samples.npz")]
    assert main(["quantize", str(folder / "m.onnx"), *arguments]) == ExitCode.OUTPUT
    assert re.fullmatch(sentence, _sentence(capsys.readouterr().err))
    assert _files(folder) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("options", [[], ["--force"]], ids=["kept", "force"])
def test_a_pipe_or_device_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    _write(folder / "m.onnx", conv_relu_model())
    os.mkfifo(folder / "pipe")
    for preset in ("BF16", "BF16_WO"):
        assert main(["quantize", str(folder / "m.onnx"), "-p", preset, "-o", str(folder / "pipe"), *options]) == (
            ExitCode.OUTPUT
        )
        assert re.fullmatch(
            r"--output: expected a file name, got the device or pipe .*", _sentence(capsys.readouterr().err)
        )
        assert (folder / "pipe").is_fifo()


def test_data_of_a_model_that_is_copied_need_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(folder / "m.onnx", tiny_model("g (int64[N] x) => (int64[N] y) { y = Add (x, x) }"))
    arguments = ["--calibration-data", str(folder / "samples.npz"), "--verify", "--json"]
    assert main(["quantize", str(folder / "m.onnx"), *arguments]) == ExitCode.OK
    assert '"divergence": null' in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["quantize", "-p", "BF16"], ["calibrate", "--calibration-data", "random"], ["plan"]])
def test_the_working_directory_is_no_model(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    assert main([verb[0], ".", *verb[1:]]) == ExitCode.MODEL
    assert _sentence(capsys.readouterr().err) == ".: expected an ONNX file, got a directory"


def test_an_output_that_is_the_input_needs_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "m.onnx"
    _write(path, conv_relu_model())
    for preset in ("BF16", "BF16_WO"):
        before = _files(folder)
        assert main(["quantize", str(path), "-p", preset, "-o", str(path)]) == ExitCode.OUTPUT
        assert "--force replaces it" in _sentence(capsys.readouterr().err)
        assert _files(folder) == before
    assert main(["quantize", str(path), "-p", "BF16_WO", "-o", str(path), "--force"]) == ExitCode.OK
    onnx.checker.check_model(onnx.load(path))


@pytest.mark.parametrize("preset", ["A8W8", "BF16", "BFP16", "DYNAMIC", "INT8_WO", "MATMUL_NBITS"])
def test_a_model_with_external_data_is_replaced_where_it_lies(folder: Path, preset: str) -> None:
    """Systems differ in what they do to files that are open or mapped: Windows replaces none."""
    weights = np.random.default_rng(3).normal(0, 0.1, (2, 512, 512)).astype(np.float32)
    text = "g (float[N, 512] x) => (float[N, 512] y) { a = MatMul (x, v) b = Relu (a) y = MatMul (b, w) }"
    quantized = []
    for name in ("there.onnx", "elsewhere.onnx"):
        path = folder / name
        layers = tiny_model(text, {"v": weights[0], "w": weights[1]})
        onnx.save(layers, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
        output = path if name == "there.onnx" else folder / "out.onnx"
        arguments = ["quantize", str(path), "-p", preset, "-o", str(output), "--force", "--calibration-data", "random"]
        assert main([*arguments, "--samples", "4"]) == ExitCode.OK
        model = onnx.load(output)
        quantized.append([onnx.numpy_helper.to_array(each).tobytes() for each in model.graph.initializer])
    assert quantized[0] == quantized[1]
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".") or path.suffix == ".tmp"]
