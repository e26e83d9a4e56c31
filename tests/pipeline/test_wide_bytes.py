"""How much of a model has more than 8 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.pipeline.wide_bytes import stored_activations, wide_shares
from support.quality_models import model, samples
from support.tiny_models import tiny_model


def chain() -> onnx.ModelProto:
    rng = np.random.default_rng(2)
    weights = {"v": rng.normal(0, 0.2, (8, 24)).astype(np.float32), "w": np.eye(8, dtype=np.float32)}
    text = """g (float[N, 8] x) => (float[N, 24] y) {
        a = MatMul (x, w)  b = Relu (a)  c = Reshape (b, shape)  d = Exp (c)  y = MatMul (d, v)
    }"""
    return tiny_model(text, weights | {"shape": np.int64([-1, 8])})


def quantized(**options) -> quarkfast.QuantizedModel:
    given = {"x": np.random.default_rng(3).normal(size=(16, 8)).astype(np.float32)}
    return quarkfast.quantize(chain(), preset="A8W8", calibration_data=given, equalize=False, **options)


FEED = {"x": np.zeros((2, 8), np.float32)}


def test_views_and_what_is_computed_along_are_not_stored():
    result = quantized()
    # The product in front of Relu is computed along with it, Reshape moves nothing, Exp is float and has a pair.
    assert stored_activations(result.model_bytes, result.summary.records, FEED) == {"x": 16, "b": 16, "d": 16, "y": 48}


@pytest.mark.parametrize(
    ("options", "activations", "weights"),
    [
        ({}, 0.0, 0.0),
        ({"tensors": {"b": {"dtype": "int16"}, "v": {"dtype": "int16"}}}, 1 / 6, 0.75),
        ({"tensors": {"y": {"dtype": "int16"}}}, 0.5, 0.0),
    ],
)
def test_16_bits_are_counted_in_bytes(options, activations, weights):
    result = quantized(**options)
    shares = wide_shares(result.model_bytes, result.summary.records, FEED)
    assert shares == pytest.approx((activations, weights))


def test_what_stays_float_is_counted():
    (last,) = (node.name for node in chain().graph.node if node.output[0] == "y")
    result = quantized(exclude=[last])
    shares = wide_shares(result.model_bytes, result.summary.records, FEED)
    # Its input and its output of 16 and 48 elements, of 96, and the larger of the weights.
    assert shares == pytest.approx((64 / 96, 0.75))


def test_a_quality_target_says_how_much_it_took():
    result = quarkfast.quantize(model(), preset="A8W8", weight_type="int16", calibration_data=samples(), min_sqnr=35.0)
    shares = result.summary.above_8_bits
    assert 0 < shares.activations <= 0.25
    assert shares.weights == 1.0
    assert result.summary.to_dict()["above_8_bits"] == shares._asdict()
    assert ("above 8 bits", str(shares)) in result.summary.rows()
    plain = quarkfast.quantize(model(), preset="A8W8", calibration_data=samples())
    assert plain.summary.above_8_bits is None
    assert plain.summary.to_dict()["above_8_bits"] is None


def lstm() -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.normal(0, 0.3, (1, 16, 8)).astype(np.float32),
        "r": rng.normal(0, 0.3, (1, 16, 4)).astype(np.float32),
        "v": rng.normal(0, 0.3, (4, 8)).astype(np.float32),
    }
    text = """g (float[N, 8] x) => (float[1, N, 8] y) {
        a = Unsqueeze (x, zero)  all, h = LSTM <hidden_size = 4> (a, w, r)  y = MatMul (h, v)
    }"""
    return tiny_model(text, weights | {"zero": np.int64([0])})


def test_outputs_that_a_node_leaves_out_are_not_stored():
    data = {"x": np.random.default_rng(3).normal(size=(16, 8)).astype(np.float32)}
    result = quarkfast.quantize(lstm(), preset="A8W8", calibration_data=data)
    made, records = onnx.load_model_from_string(result.model_bytes), result.summary.records
    (node,) = (node for node in made.graph.node if node.op_type == "LSTM")
    node.output[0] = ""
    nodes = [each._replace(outputs=("", "h")) if each.op_type == "LSTM" else each for each in records.nodes]
    stored = stored_activations(made.SerializeToString(), records._replace(nodes=tuple(nodes)), FEED)
    assert "" not in stored
    assert stored["h"] == 8


def parts() -> onnx.ModelProto:
    weights = {"v": np.random.default_rng(7).normal(0, 0.3, (8, 8)).astype(np.float32)}
    text = """g (float[N, 8] x) => (float[N, 8] y) {
        a = MatMul (x, v)  s = SplitToSequence <axis = 0> (a)  b = ConcatFromSequence <axis = 0> (s)  y = MatMul (b, v)
    }"""
    return tiny_model(text, weights)


def test_sequences_are_not_counted():
    data = {"x": np.random.default_rng(3).normal(size=(16, 8)).astype(np.float32)}
    result = quarkfast.quantize(parts(), preset="A8W8", calibration_data=data)
    stored = stored_activations(result.model_bytes, result.summary.records, FEED)
    assert "s" not in stored
    assert stored["b"] == 16


def gelu() -> onnx.ModelProto:
    numbers = {"root": np.float32(1.414), "one": np.float32(1), "half": np.float32(0.5)}
    weights = {"v": np.random.default_rng(7).normal(0, 0.3, (8, 8)).astype(np.float32)}
    text = """g (float[N, 8] x) => (float[N, 8] y) {
        a = MatMul (x, v)  b = Div (a, root)  c = Erf (b)  d = Add (c, one)  e = Mul (a, d)  f = Mul (e, half)
        y = MatMul (f, v)
    }"""
    return tiny_model(text, weights | numbers)


def test_what_a_function_written_out_computes_on_its_way_is_not_stored():
    data = {"x": np.random.default_rng(3).normal(size=(16, 8)).astype(np.float32)}
    result = quarkfast.quantize(gelu(), preset="A8W8", calibration_data=data)
    stored = stored_activations(result.model_bytes, result.summary.records, FEED)
    # What the product computes in front of the function has no pair either.
    assert stored == dict.fromkeys(("x", "f", "y"), 16)
    assert wide_shares(result.model_bytes, result.summary.records, FEED).activations == 0
