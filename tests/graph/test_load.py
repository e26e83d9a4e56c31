from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import external_bytes, load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import conv_relu_model, tiny_model


def _save_external(folder, location="model.data"):
    model = conv_relu_model()
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ModelError, match=r"none\.onnx: expected an existing ONNX file, got no such file"):
        load_model(tmp_path / "none.onnx")


def test_a_directory_is_one_sentence(tmp_path):
    with pytest.raises(ModelError, match="expected an ONNX file, got a directory"):
        load_model(tmp_path)


def test_an_empty_file_is_one_sentence(tmp_path):
    path = tmp_path / "empty.onnx"
    path.touch()
    with pytest.raises(ModelError, match="expected an ONNX file, got an empty file"):
        load_model(path)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_one_sentence(tmp_path, keep):
    data = conv_relu_model().SerializeToString()
    path = tmp_path / "half.onnx"
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(ModelError, match="expected an ONNX model, got a file that is truncated or not ONNX"):
        load_model(path)


@pytest.mark.parametrize("content", [b"not a model", b"\x00" * 64, b"PK\x03\x04 a zip", b"\n\x01a"], ids=repr)
def test_another_kind_of_file_is_one_sentence(tmp_path, content):
    path = tmp_path / "garbage.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="expected an ONNX model, got a file that is truncated or not ONNX"):
        load_model(path)


def test_another_type_is_a_type_error():
    with pytest.raises(TypeError, match=r"model: expected a path, an onnx\.ModelProto or an onnx_ir\.Model, got int"):
        load_model(3)  # type: ignore[arg-type]


def test_external_data_is_read_from_the_models_folder(tmp_path, monkeypatch):
    path = _save_external(tmp_path)
    monkeypatch.chdir("/")
    model = load_model(path)
    assert external_bytes(model) > 300
    expected = onnx.numpy_helper.to_array(conv_relu_model().graph.initializer[0])
    np.testing.assert_array_equal(model.graph.initializers["w1"].const_value.numpy(), expected)


def test_missing_external_data_names_the_tensor(tmp_path):
    path = _save_external(tmp_path)
    (tmp_path / "model.data").unlink()
    with pytest.raises(
        ModelError, match=r"tensor 'w1': expected 324 bytes of external data in 'model\.data', got no such file"
    ):
        load_model(path)


def test_short_external_data_names_the_tensor(tmp_path):
    path = _save_external(tmp_path)
    (tmp_path / "model.data").write_bytes(b"1234")
    with pytest.raises(ModelError, match=r"tensor 'w1': expected 324 bytes of external data in .*, got 4 bytes"):
        load_model(path)


def test_external_data_outside_the_folder_is_refused(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = _save_external(folder)
    (folder / "model.data").rename(tmp_path / "model.data")
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        tensor.external_data[0].value = "../model.data"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"expected external data inside the model's folder, got '\.\./model\.data'"):
        load_model(path)


def test_the_callers_model_is_not_changed():
    model = ir.serde.deserialize_model(conv_relu_model())
    loaded = load_model(model)
    loaded.graph.remove(loaded.graph[3], safe=False)
    assert len(model.graph) == 4


def test_a_model_of_the_caller_keeps_the_names_of_its_constants():
    """onnx-ir writes the name of a value into its tensor, which is the caller's."""
    text = """g (float[4] x, bool b) => (float[4] y) {
        two = Constant <value = float {2.0}> ()
        a = Mul (x, two)
        y = If (b) <
            then_branch = yes () => (float[4] p) <float[4] c = {1, 2, 3, 4}> { p = Add (a, c) },
            else_branch = no () => (float[4] q) <float[4] c = {4, 3, 2, 1}> { q = Add (a, c) }
        >
    }"""
    proto = tiny_model(text)
    held = ir.serde.deserialize_model(onnx.ModelProto.FromString(proto.SerializeToString()))

    def contents():
        return [each.SerializeToString(deterministic=True) for each in (proto, ir.serde.serialize_model(held))]

    before = contents()
    for model in (proto, held):
        assert "two" in prepare(load_model(model), 13).graph.initializers
    assert contents() == before
