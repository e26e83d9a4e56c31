from __future__ import annotations

import onnx_ir as ir
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from quarkfast.graph.opset import choose_ir_version, convert_opset, opset_version
from tiny_models import conv_relu_model, tiny_model


def test_a_model_that_has_the_opset_is_not_converted():
    model = load_model(conv_relu_model())
    assert convert_opset(model, 13) is model


def test_an_older_model_is_converted():
    model = load_model(tiny_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=7, ir_version=3))
    assert opset_version(convert_opset(model, 10)) == 10


@pytest.mark.parametrize("version", [0, 1000])
def test_an_opset_that_onnx_does_not_know_is_one_sentence(version):
    model = load_model(conv_relu_model())
    model.opset_imports[""] = version
    with pytest.raises(ModelError, match=f"expected an operator set version from 1 to .*, got {version}"):
        opset_version(model)


@pytest.mark.parametrize(("opset", "expected"), [(7, 4), (10, 5), (13, 7), (17, 8), (21, 10)])
def test_the_ir_version_is_the_lowest_that_goes_with_the_opset(opset, expected):
    model = load_model(conv_relu_model())
    model.opset_imports[""], model.ir_version = opset, 14
    choose_ir_version(model)
    assert model.ir_version == expected


def test_converting_keeps_weights_that_lie_on_disk(tmp_path):
    path = tmp_path / "model.onnx"
    ir.save(ir.serde.deserialize_model(conv_relu_model()), path, external_data="model.data", size_threshold_bytes=0)
    converted = convert_opset(load_model(path), 21)
    assert converted.graph.initializers["w1"].const_value.numpy().shape == (3, 3, 3, 3)
