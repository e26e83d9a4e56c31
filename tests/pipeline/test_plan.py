"""What the plan says is what quantization does, and what the metadata of its result says."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.errors import ConfigError, ModelError
from support.tiny_models import conv_relu_model, samples, tiny_model


def _metadata(proto):
    return {entry.key: entry.value for entry in proto.metadata_props}


@pytest.mark.filterwarnings("ignore:quantize. the model has no weight")
@pytest.mark.parametrize("preset", PRESETS)
def test_the_plan_is_what_quantization_does(preset):
    found = quarkfast.plan(conv_relu_model(), preset)
    result = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples())
    assert Counter(found.quantized.values()) == result.summary.quantized
    assert found.left_float == {node.name: node.reason for node in result.summary.left_float}
    if result.summary.quantized:  # otherwise the result is a copy, which has nothing of ours
        assert json.loads(_metadata(result.proto)["quarkfast.plan"]) == found.choices()
    assert len(found.weights) == result.summary.weights
    assert len(found.activations) == result.summary.pairs
    assert json.loads(json.dumps(found.to_dict()))["scheme"]["name"] == preset


def test_the_plan_names_types_axes_and_shared_scales():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 4, 4] y) {
        c = Conv (x, w)
        y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
    }"""
    proto = tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32)})
    found = quarkfast.plan(proto, "U8S8", per_channel=True)
    assert found.activations == {"x": "uint8 asymmetric", "c": "uint8 asymmetric", "y": "as 'c'"}
    assert found.weights == {"w": "int8 for each index of axis 0"}
    assert str(found).splitlines()[1:4] == [
        "quantized: 1 Conv, 1 MaxPool",
        "activations: 2 uint8 asymmetric, 1 tensor with the scale of another",
        "weights: 1 int8 for each index of axis 0",
    ]
    assert quarkfast.plan(proto, "XINT8").weights == {"w": "int8 with powers of two as scales"}
    assert quarkfast.plan(proto, "MX9").weights == {"w": "mx9 in blocks along axis 1"}


def test_the_plan_names_fixed_ranges_groups_and_what_stays_float():
    text = """g (float[N, 32] x) => (float[N, 8] y) {
        m = MatMul (x, w)
        s = Softmax (m)
        y = Det (s)
    }"""
    proto = tiny_model(text, {"w": np.ones((32, 8), np.float32)})
    found = quarkfast.plan(proto, "A8W8")
    assert found.activations["s"] == "int8, range [0, 1]"
    assert found.left_float == {"det_2": "ryzenai-a8w8 has no rule for Det"}
    assert quarkfast.plan(proto, "INT4_WO", group_size=16).weights == {"w": "int4 in groups of 16 along axis 0"}


def test_a_plan_of_a_bias_names_its_scale():
    assert quarkfast.plan(conv_relu_model()).biases == {"b1": "int32, scale of 'x' times that of 'w1'"}


def test_the_metadata_tells_versions_and_what_calibration_saw():
    found = [
        _metadata(quarkfast.quantize(conv_relu_model(), calibration_data=data).proto)
        for data in (samples(), samples()[::-1], samples() * 2)
    ]
    assert json.loads(found[0]["quarkfast.versions"])["numpy"] == np.__version__
    hashes = [each["quarkfast.calibration_sha256"] for each in found]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]
    assert "quarkfast.calibration_sha256" not in _metadata(quarkfast.quantize(conv_relu_model(), preset="BF16").proto)


def test_a_mistake_is_an_error_as_in_quantize(tmp_path):
    with pytest.raises(ConfigError, match="preset: expected one of A8W8"):
        quarkfast.plan(conv_relu_model(), "A9")
    with pytest.raises(ModelError, match="expected an existing ONNX file, got no such file"):
        quarkfast.plan(tmp_path / "none.onnx")
