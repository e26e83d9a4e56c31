from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.accuracy import Accuracy
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.verification import FloatLayer, verify
from support.processors import saturates
from support.tiny_models import conv_relu_model, samples, tiny_model


def test_integer_kernels_are_counted():
    result = quarkfast.quantize(conv_relu_model(), preset="U8S8", calibration_data=samples())
    found = verify(result.model_bytes)
    assert found.integer == {"QLinearConv": 2, "QLinearAdd": 1}
    assert found.float_layers == ()
    assert found.rows()[0][1].startswith("1 QLinearAdd, 2 QLinearConv (onnxruntime 1.")
    assert found.to_dict()["integer"] == found.integer


def test_a_path_is_taken_as_well(tmp_path):
    quarkfast.quantize(conv_relu_model(), tmp_path / "m.onnx", "U8S8", samples())
    assert verify(tmp_path / "m.onnx").integer == {"QLinearConv": 2, "QLinearAdd": 1}


def _reasons(model):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return [layer.reason for layer in verify(data).float_layers]


def test_a_float_model_has_no_integer_kernels():
    found = verify(conv_relu_model().SerializeToString())
    assert found.integer == {}
    assert [(layer.op_type, layer.reason) for layer in found.float_layers] == [
        ("Conv", "its first input 'x' is float"),
        ("Conv", "its first input 'r1' is float"),
    ]
    assert re.fullmatch(r"Conv '.*': its first input 'x' is float", found.rows()[1][1])


def test_codes_of_16_bits_are_the_reason():
    result = quarkfast.quantize(conv_relu_model(), preset="A16W8", calibration_data=samples())
    assert set(_reasons(result.model_bytes)) == {"onnxruntime has no kernel for codes of int16"}


def test_an_absorbed_activation_of_symmetric_codes_is_the_reason():
    result = quarkfast.quantize(conv_relu_model(), preset="A8W8", calibration_data=samples())
    assert _reasons(result.model_bytes) == [
        "Relu stands between it and QuantizeLinear, whose zero point does not replace it"
    ]


def test_a_reader_that_wants_floats_is_the_reason():
    text = "g (float[N, 8] x) => (float[N, 8] y) { a = MatMul (x, w) b = Cos (a) c = Add (a, b) y = Relu (c) }"
    proto = tiny_model(text, {"w": np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)})
    result = quarkfast.quantize(proto, preset="A8W8", op_types=["MatMul"], calibration_data="random")
    nodes = result.proto
    nodes.graph.output.append(onnx.helper.make_tensor_value_info("a", 1, ["N", 8]))
    assert _reasons(nodes)[0].startswith(("its output is read by ", "its second input"))


def test_a_weight_that_is_float_is_the_reason():
    result = quarkfast.quantize(conv_relu_model(), preset="INT8_WO")
    assert _reasons(result.model_bytes)[0] == "its first input 'x' is float"


def test_transposed_convolutions_have_no_integer_kernel():
    text = "g (float[N, 3, 8, 8] x) => (float[A, B, C, D] y) { y = ConvTranspose (x, w) }"
    proto = tiny_model(text, {"w": np.ones((3, 3, 2, 2), np.float32)})
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=samples())
    assert verify(result.model_bytes).float_layers == (
        FloatLayer("convtranspose_0", "ConvTranspose", "onnxruntime has no integer ConvTranspose"),
    )


def test_a_model_that_onnxruntime_refuses_is_one_sentence():
    with pytest.raises(ModelError, match="inference_session: model: onnxruntime rejects it"):
        verify(b"garbage")


def test_a_model_whose_data_lies_in_a_second_file_is_run_where_it_lies(tmp_path):
    result = quarkfast.quantize(conv_relu_model(), preset="U8S8", calibration_data=samples())
    onnx.save(result.proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = verify(tmp_path / "m.onnx", [{"x": samples()}])
    assert found.integer["QLinearConv"] == 2
    assert found == verify(result.model_bytes, [{"x": samples()}])
    assert found.divergence is not None


def test_sums_of_a_model_in_two_files_are_not_simulated(tmp_path):
    weight = np.full((2, 4), 100.0, np.float32)
    proto = tiny_model("g (float[N, 2] x) => (float[N, 4] y) { y = MatMul(x, w) }", {"w": weight})
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=samples(8, (2,)), portable=False)
    onnx.save(result.proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    feeds, reference = [{"x": samples(8, (2,))}], proto.SerializeToString()
    assert verify(result.model_bytes, feeds, reference).saturated_sums is not None
    found = verify(tmp_path / "m.onnx", feeds, reference)
    assert found.may_saturate
    assert found.divergence is not None
    assert found.saturated_sums is None
    assert "without VNNI; portable avoids it" in dict(found.rows())["may saturate"]


def _positive_products():
    """Sums of products of one sign: in 16 bits half of each pair is lost."""
    weight = np.random.default_rng(3).uniform(0.5, 1, (64, 8)).astype(np.float32)
    x = np.random.default_rng(4).uniform(0.5, 1, (32, 64)).astype(np.float32)
    return tiny_model("g (float[N, 64] x) => (float[N, 8] y) { y = MatMul(x, w) }", {"w": weight}), x


def test_accuracy_is_that_of_exact_sums_and_a_default_session_is_named_where_it_differs():
    proto, x = _positive_products()
    data = quarkfast.quantize(proto, preset="A8W8", calibration_data=x).model_bytes
    verified = verify(data, [{"x": x[:16]}, {"x": x[16:]}], proto.SerializeToString())
    found, row = verified.accuracy, dict(verified.rows())["accuracy"]
    reference = ort.inference_session(proto.SerializeToString()).run(None, {"x": x})[0]
    exact, default = (open_(data).run(None, {"x": x})[0] for open_ in (exact_session, ort.inference_session))
    assert found == Accuracy("y", sqnr(reference, exact), sqnr(reference, default))
    assert found.exact > 35
    assert found.default_is_others == saturates()
    assert row.startswith(f"{found.exact:.1f} dB with exact sums")
    assert row.endswith(f", {found.default:.1f} dB in a default session here") == saturates()
    assert verified.to_dict()["accuracy"] == {"output": "y", "exact": found.exact, "default": found.default}


def test_the_output_that_is_told_is_the_worst_and_holds_floats():
    text = """g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z, int64[N, 1] i) {
        y = Identity(x)
        z = MatMul(x, w)
        i = ArgMax<axis = 1>(x)
    }"""
    proto, x = tiny_model(text, {"w": np.eye(4, dtype=np.float32) + 0.3}), samples(8, (4,))
    result = quarkfast.quantize(proto, preset="INT8_WO")
    assert verify(result.model_bytes, [{"x": x}], proto.SerializeToString()).accuracy.output == "z"


def test_a_model_without_outputs_of_floats_has_no_accuracy():
    proto = tiny_model("g (float[N, 4] x) => (int64[N, 1] i) { i = ArgMax<axis = 1>(x) }")
    data = proto.SerializeToString()
    found = verify(data, [{"x": samples(8, (4,))}], data)
    assert found.accuracy is None
    assert found.to_dict()["accuracy"] is None


def test_equal_outputs_have_an_accuracy_without_a_number_in_json():
    assert Accuracy("y", float("inf"), float("inf")).to_dict() == {"output": "y", "exact": None, "default": None}
    assert str(Accuracy("y", float("inf"), float("inf"))) == "inf dB with exact sums"
