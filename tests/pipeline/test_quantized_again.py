"""A model that is quantized already is told so in one line, and comes back as it was."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime.quantization as ort_tool
import pytest

import quarkfast
from support.tiny_models import conv_relu_model, samples, tiny_model

FIRST = ("A8W8", "XINT8", "U8S8", "BF16", "BFP16", "DYNAMIC")
THEN = ("A8W8", "XINT8", "U8S8", "A16W8", "BF16", "FP16", "BFP16", "MX6", "DYNAMIC")


def _quantize(model, preset):
    return quarkfast.quantize(model, preset=preset, calibration_data=samples())


def _again(proto, preset):
    with pytest.warns(UserWarning, match="expected a float model, got one with") as told:
        result = _quantize(proto, preset)
    assert result.model_bytes == proto.SerializeToString()
    assert (dict(result.summary.quantized), result.summary.weights, result.summary.outputs) == ({}, 0, ())
    assert not result.summary.preflight  # what is there was not placed for this target
    return str(told[0].message)


@pytest.mark.parametrize("first", FIRST)
def test_a_result_given_again_stays_as_it_is(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        proto = _quantize(conv_relu_model(), first).proto
    for preset in THEN:
        assert "by quarkfast" in _again(proto, preset)


def test_a_result_of_onnxruntimes_tool_stays_as_it_is(tmp_path):
    path, out = tmp_path / "float.onnx", tmp_path / "out.onnx"
    path.write_bytes(conv_relu_model().SerializeToString())

    class Reader(ort_tool.CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"x": samples()}])

        def get_next(self):
            return next(self.left, None)

    for form in (ort_tool.QuantFormat.QOperator, ort_tool.QuantFormat.QDQ):
        ort_tool.quantize_static(path, out, Reader(), quant_format=form)
        assert "by onnxruntime.quantization" in _again(onnx.load(out), "A8W8")


TWO = "g (float[N, 8] x) => (float[N, 8] y) { a = MatMul(x, w1) r = Relu(a) y = MatMul(r, w2) }"


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "U8S8", "BF16"])
def test_layers_that_are_float_are_quantized_and_the_others_named(preset):
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((8, 8)).astype(np.float32) for name in ("w1", "w2")}
    x = rng.standard_normal((16, 8)).astype(np.float32)
    proto = tiny_model(TWO, weights)
    name = proto.graph.node[2].name or "MatMul_2"
    half = quarkfast.quantize(proto, preset="A8W8", calibration_data=x, exclude=[name]).proto
    result = quarkfast.quantize(half, preset=preset, calibration_data=x)
    assert result.summary.quantized["MatMul"] == 1
    assert [note for note in result.summary.notes if "1 layer (" in note and "quantized before" in note]


def test_weights_in_codes_alone_leave_activations_to_quantize():
    proto = quarkfast.quantize(conv_relu_model(), preset="INT8_WO").proto
    result = _quantize(proto, "A8W8")
    assert result.summary.pairs
