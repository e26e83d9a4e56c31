"""Weights alone: what is written to the disk, beside what, and what a failure leaves behind."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.errors import ModelError, OutputError, UnsupportedError
from support.weight_models import changed_weights, weight_layers

_PRESETS = [name for name, scheme in PRESETS.items() if scheme.weights_only]


@pytest.mark.parametrize("preset", _PRESETS)
def test_an_output_beside_external_data_has_external_data_and_the_same_tensors(rng, tmp_path, preset):
    proto = weight_layers(rng)
    (tmp_path / "in").mkdir()
    source, copy = tmp_path / "in" / "m.onnx", changed_weights(proto, lambda _, w: w)
    onnx.save(copy, source, save_as_external_data=True, location="w", size_threshold=0)
    result = quarkfast.quantize(source, tmp_path / "out.onnx", preset)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.onnx", "out.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "out.onnx"))
    expected, written = quarkfast.quantize(proto, preset=preset).proto, onnx.load(tmp_path / "out.onnx")
    assert {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in written.graph.initializer} == {
        t.name: onnx.numpy_helper.to_array(t).tobytes() for t in expected.graph.initializer
    }
    assert list(written.graph.node) == list(expected.graph.node)
    assert result.summary.bytes_after == sum((tmp_path / name).stat().st_size for name in ("out.onnx", "out.onnx.data"))
    assert result.model_bytes == (tmp_path / "out.onnx").read_bytes()
    x = rng.integers(0, 50, 9)
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    assert np.isfinite(session.run(None, {"x": x})[0]).all()


def test_the_output_may_be_the_input_with_its_data(rng, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(weight_layers(rng), path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    expected = quarkfast.quantize(path, tmp_path / "other.onnx", "INT8_WO")
    result = quarkfast.quantize(path, path, "INT8_WO")
    assert (tmp_path / "m.onnx.data").read_bytes() == (tmp_path / "other.onnx.data").read_bytes()
    assert result.summary.weights == expected.summary.weights


def test_the_data_of_the_input_is_not_written_over(rng, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(weight_layers(rng), path, save_as_external_data=True, location="n.onnx.data", size_threshold=0)
    before = (tmp_path / "n.onnx.data").read_bytes()
    message = r"output: expected a name whose data file is not in use, got '.*n\.onnx'; the model's own data lies in"
    with pytest.raises(OutputError, match=message):
        quarkfast.quantize(path, tmp_path / "n.onnx", "INT8_WO")
    assert (tmp_path / "n.onnx.data").read_bytes() == before
    assert not (tmp_path / "n.onnx").exists()


@pytest.mark.parametrize("preset", _PRESETS)
def test_a_failure_leaves_neither_file(rng, tmp_path, preset):
    proto = weight_layers(rng)
    proto = changed_weights(proto, lambda name, w: np.where(np.arange(w.size).reshape(w.shape) == 7, np.nan, w))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    with pytest.raises(ModelError, match=r"expected (finite weights|numbers), got"):
        quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "out.onnx", preset)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "w"]


def test_a_disk_that_is_full_leaves_neither_file(rng, tmp_path, monkeypatch):
    onnx.save(weight_layers(rng), tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quarkfast.graph.external._FLUSHED", 1)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        OutputError, match=r"output: expected to write '.*out\.onnx\.data', got No space left on device"
    ):
        quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "out.onnx", "INT8_WO")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "w"]


def test_a_data_file_that_cannot_be_written_keeps_the_old_model(rng, tmp_path):
    onnx.save(weight_layers(rng), tmp_path / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    (tmp_path / "out.onnx.data").mkdir()
    (tmp_path / "out.onnx").write_bytes(b"old")
    with pytest.raises(OutputError, match="output: expected a file name, got the directory"):
        quarkfast.quantize(tmp_path / "m.onnx", tmp_path / "out.onnx", "INT8_WO")
    assert (tmp_path / "out.onnx").read_bytes() == b"old"


def test_a_large_result_without_an_output_is_refused(rng, monkeypatch):
    monkeypatch.setattr("quarkfast.graph.external.PROTOBUF_LIMIT", 4000)
    with pytest.raises(UnsupportedError, match="quantize: expected an output for a model of more than 2 GiB, got none"):
        quarkfast.quantize(weight_layers(rng), preset="INT8_WO")


def test_a_large_result_takes_two_files(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("quarkfast.graph.external.PROTOBUF_LIMIT", 4000)
    quarkfast.quantize(weight_layers(rng), tmp_path / "m.onnx", "INT8_WO")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
