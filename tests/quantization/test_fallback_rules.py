from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

ATTENTION = """g (float[N, 8, 16] x, float[N, 1, 8] mask) => (float[N, 8, 16] y) {
    q = MatMul(x, wq)
    qb = Add(bias, q)
    k = MatMul(x, wk)
    kt = Transpose<perm = [0, 2, 1]>(k)
    scores = MatMul(qb, kt)
    scaled = Div(scores, four)
    masked = Add(scaled, mask)
    weights = Softmax<axis = -1>(masked)
    mixed = MatMul(weights, x)
    out = MatMul(mixed, wo)
    projected = Add(out, bias)
    sum = Add(x, projected)
    normal = LayerNormalization<axis = -1>(sum, gamma, beta)
    y = MatMul(normal, wo)
}"""


@pytest.fixture
def attention(rng):
    matrices = {name: (rng.standard_normal((16, 16)) / 4).astype(np.float32) for name in ("wq", "wk", "wo")}
    vectors = {"bias": rng.standard_normal(16).astype(np.float32), "gamma": np.ones(16, np.float32)}
    rest = {"beta": np.zeros(16, np.float32), "four": np.float32(4)}
    return tiny_model(ATTENTION, matrices | vectors | rest, opset=17)


@pytest.fixture
def feed(rng):
    x = rng.standard_normal((16, 8, 16)).astype(np.float32)
    mask = np.where(np.arange(8) < 6, 0, -10000).astype(np.float32) * np.ones((16, 1, 1), np.float32)
    return {"x": x, "mask": mask}


def _float_nodes(result):
    return {left.node: left.reason for left in result.summary.left_float}


@pytest.mark.parametrize(
    ("preset", "more"), [("A8W8", []), ("BFP16", []), ("MXINT8", ["Add", "Transpose"]), ("MX6", ["Add", "Transpose"])]
)
def test_eight_bits_and_blocks_leave_the_residual_stream_and_the_softmax_of_attention_float(
    attention, feed, preset, more
):
    """MX formats are for operands of products alone, so the sum with a bias and the transposition are float too."""
    result = quarkfast.quantize(attention, preset=preset, calibration_data=feed)
    types = [left.op_type for left in result.summary.left_float]
    assert sorted(types) == sorted(["Add", "Add", "Add", "Div", "LayerNormalization", "Softmax", *more])
    assert "MatMul" not in types


def test_sixteen_bits_quantize_them(attention, feed):
    assert _float_nodes(quarkfast.quantize(attention, preset="A16W8", calibration_data=feed)) == {}


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "BFP16", "MXINT8"])
def test_masked_scores_survive_eight_bits(attention, feed, preset):
    expected = run_exact(attention, feed)[0]
    got = run_exact(quarkfast.quantize(attention, preset=preset, calibration_data=feed).model_bytes, feed)[0]
    # Each of the six products adds about 1/127 of the range of its operands, 3 sigma of 16 terms; ten percent of
    # the output's deviation is twice what they come to. With the mask in the scale all weights would be equal.
    assert np.std(got - expected) < 0.1 * np.std(expected)


@pytest.mark.parametrize("tensor", ["weights", "masked"])
@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_a_softmax_stays_float_where_sixteen_bits_are_on_one_side_of_it(attention, feed, preset, tensor):
    options = {"calibration_data": feed, "tensors": {tensor: {"dtype": "int16"}}}
    result = quarkfast.quantize(attention, preset=preset, **options)
    assert "Softmax" in {left.op_type for left in result.summary.left_float}
    expected, got = run_exact(attention, feed)[0], run_exact(result.model_bytes, feed)[0]
    assert np.std(got - expected) < 0.1 * np.std(expected)  # as above


def test_no_pair_stands_between_a_matrix_product_and_its_bias(attention, feed):
    proto = quarkfast.quantize(attention, preset="A8W8", calibration_data=feed).proto
    producers = {name: node for node in proto.graph.node for name in node.output}
    sums = [node for node in proto.graph.node if node.op_type == "Add" and "bias" in node.input]
    assert len(sums) == 2
    assert all({producers[name].op_type for name in node.input if name != "bias"} == {"MatMul"} for node in sums)


def test_a_float_node_reads_what_a_float_node_computed_without_a_pair(rng):
    text = """g (float[N, 16] x) => (float[N, 16] y) {
        a = LayerNormalization<axis = -1>(x, gamma, beta)
        b = MatMul(a, w)
        c = Add(a, b)
        y = LayerNormalization<axis = -1>(c, gamma, beta)
    }"""
    arrays = {"w": np.eye(16, dtype=np.float32), "gamma": np.ones(16, np.float32), "beta": np.zeros(16, np.float32)}
    x = rng.standard_normal((4, 16)).astype(np.float32)
    proto = quarkfast.quantize(tiny_model(text, arrays, opset=17), preset="A8W8", calibration_data=x).proto
    readers = {node.op_type: list(node.input) for node in proto.graph.node if node.op_type in ("Add", "MatMul")}
    assert readers["Add"] == ["a", "b"]
    assert readers["MatMul"][0] == "a_DequantizeLinear_Output"


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_attention_that_is_spread_over_many_tokens_survives_eight_bits(preset, rng):
    """Of 2048 nearly equal weights none reaches 1 / 510, half a step of eight bits over [0, 1]: all would be zero."""
    text = """g (float[1, 2048, 16] x) => (float[1, 2048, 16] y) {
        q = MatMul(x, w)
        t = Transpose<perm = [0, 2, 1]>(x)
        s = MatMul(q, t)
        a = Softmax<axis = -1>(s)
        y = MatMul(a, v)
    }"""
    weight = (rng.standard_normal((16, 16)) / 32).astype(np.float32)
    proto = tiny_model(text, {"w": weight, "v": rng.random((2048, 16), np.float32)}, opset=17)
    feed = {"x": rng.standard_normal((1, 2048, 16)).astype(np.float32)}
    expected = run_exact(proto, feed)[0]
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed])
    got = run_exact(result.model_bytes, feed)[0]
    # v and y have steps of at most 1/64 of their largest value; scores of +-3 round to 1/20, and 2048 such errors
    # average out. A tenth is twice what that comes to; weights of zero give an error of 1.
    assert np.abs(got - expected).max() < 0.1 * np.abs(expected).mean()
