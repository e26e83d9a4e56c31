"""Channels that stand out are made smaller in front of products, and the float model computes the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms.channel_smoothing import smooth_channels
from quarkfast.config.options import scheme_from
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import arrays_of, operators_of, run_as_written, tiny_model

WIDE = 16
# The first channels reach 6, 2.25 and 1.5 times as far as the median.
GAIN = np.float32([6, 2.25, 1.5] + [1] * (WIDE - 3))
FACTORS = [8, 4, 2] + [1] * (WIDE - 3)  # 1.5 * log2 of that is 3.9 (8 is the limit), 1.8 and 0.9

PRE = """g (float[N, 16] x) => (float[N, 16] y) {
    n = LayerNormalization (x, gain, offset)
    a = MatMul (n, v)
    b = Gemm <transB = 1> (n, w)
    s = Add (a, b)
    y = Add (s, x)
}"""
POST = PRE.replace("Add (s, x)", "Add (s, n)")
WRITTEN = """g (float[N, 16] x) => (float[N, 16] y) {
    mean = ReduceMean <axes = [-1]> (x)
    d = Sub (x, mean)
    q = Mul (d, d)
    variance = ReduceMean <axes = [-1]> (q)
    raised = Add (variance, epsilon)
    root = Sqrt (raised)
    NORMALIZED
    m = Mul (gain, z)
    n = Add (m, offset)
    a = MatMul (n, v)
    b = Gemm <transB = 1> (n, w)
    s = Add (a, b)
    y = Add (s, x)
}"""
GELU = """g (float[N, 16] x) => (float[N, 16] y) {
    n = LayerNormalization (x, gain, offset)
    a = MatMul (n, v)
    h = Add (bias, a)
    ACTIVATION
    y = MatMul (f, w)
}"""
WRITTEN_GELU = "r = Div (h, two) e = Erf (r) e1 = Add (e, one) p = Mul (h, e1) f = Mul (p, half)"
TANH_GELU = """k = Mul (h, half) c = Pow (h, three) u = Add (h, c) t = Tanh (u) t1 = Add (one, t)
    f = Mul (k, t1)"""
SCALARS = {name: np.float32(value) for name, value in (("one", 1), ("two", 2), ("half", 0.5), ("three", 3))}


def _model(text, opset=17, **changed):
    rng = np.random.default_rng(5)
    arrays = {name: rng.standard_normal((WIDE, WIDE)).astype(np.float32) for name in "vw"}
    arrays |= {"gain": GAIN, "offset": np.zeros(WIDE, np.float32), "bias": np.zeros(WIDE, np.float32)}
    arrays |= SCALARS | {"epsilon": np.float32(1e-5)} | changed
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text}, opset)


def _smoothed(proto):
    model = prepare(load_model(proto), 11)
    smooth_channels(model)
    return model


def _run(data):
    return run_as_written(data, np.random.default_rng(6).standard_normal((32, WIDE)).astype(np.float32))


def _same_bits(proto, model):
    np.testing.assert_array_equal(_run(serialize(model)), _run(proto.SerializeToString()))


def test_a_normalization_that_only_products_read_is_divided_and_their_rows_multiplied():
    proto = _model(PRE, offset=np.linspace(-0.1, 0.1, WIDE, dtype=np.float32))
    model = _smoothed(proto)
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    factors = np.float32(FACTORS)
    assert operators_of(model) == ["LayerNormalization", "MatMul", "Gemm", "Add", "Add"]
    np.testing.assert_array_equal(after["gain"] * factors, before["gain"])
    np.testing.assert_array_equal(after["offset"] * factors, before["offset"])
    np.testing.assert_array_equal(after["v"], before["v"] * factors[:, None])
    np.testing.assert_array_equal(after["w"], before["w"] * factors)
    _same_bits(proto, model)


def test_a_residual_sum_reads_the_normalization_as_it_was():
    proto = _model(POST)
    model = _smoothed(proto)
    added, after = {node.op_type: node for node in model.graph}["Mul"], arrays_of(model)
    assert [name.name for name in added.inputs] == ["n", "n_factors"]
    np.testing.assert_array_equal(1 / after["n_factors"], FACTORS)
    readers = [node.op_type for node, _ in added.outputs[0].uses()]
    assert readers == ["MatMul", "Gemm"]
    assert model.graph[-1].inputs[1].name == "n"
    np.testing.assert_array_equal(after["gain"], GAIN)
    _same_bits(proto, model)


@pytest.mark.parametrize("normalized", ["z = Div (d, root)", "o = Reciprocal (root) z = Mul (d, o)"])
def test_a_normalization_that_is_written_out_is_one(normalized):
    proto = _model(WRITTEN.replace("NORMALIZED", normalized), opset=13)
    model = _smoothed(proto)
    np.testing.assert_array_equal(arrays_of(model)["gain"], GAIN / FACTORS)
    _same_bits(proto, model)


def test_a_normalization_that_is_an_output_stays_as_it_is():
    proto = _model(PRE)
    proto.graph.output.append(onnx.helper.make_tensor_value_info("n", 1, ["N", WIDE]))
    model = _smoothed(proto)
    assert operators_of(model).count("Mul") == 1
    assert [value.name for value in model.graph.outputs] == ["y", "n"]
    np.testing.assert_array_equal(arrays_of(model)["gain"], GAIN)
    _same_bits(proto, model)


def test_constants_that_two_normalizations_read_are_not_divided():
    text = PRE.replace("y = Add (s, x)", "y = LayerNormalization (s, gain, offset)")
    proto = _model(text)
    model = _smoothed(proto)
    assert operators_of(model).count("Mul") == 1
    _same_bits(proto, model)


@pytest.mark.parametrize("change", ["another product", "a sum", "the same product", "an output"])
def test_weights_that_others_read_leave_the_tensor_as_it_is(change):
    text = {
        "another product": PRE.replace("y = Add (s, x)", "c = MatMul (s, v) y = Add (c, x)"),
        "a sum": "g (float[16, 16] x) => (float[16, 16] y) { n = LayerNormalization (x, gain, offset) "
        "a = MatMul (n, v) y = Add (a, v) }",
        "the same product": PRE.replace("b = Gemm <transB = 1> (n, w)", "b = Gemm <transB = 1> (n, w, w)"),
        "an output": PRE,
    }[change]
    proto = _model(text)
    if change == "an output":
        proto.graph.output.append(onnx.helper.make_tensor_value_info("v", 1, [WIDE, WIDE]))
    model = _smoothed(proto)
    assert operators_of(model) == operators_of(load_model(proto))
    np.testing.assert_array_equal(arrays_of(model)["gain"], GAIN)


@pytest.mark.parametrize("gain", [np.zeros(WIDE), np.ones(WIDE), GAIN * np.inf, np.ones(1)], ids=str)
def test_gains_that_tell_nothing_apart_change_nothing(gain):
    proto = _model(PRE, gain=gain.astype(np.float32))
    model = _smoothed(proto)
    np.testing.assert_array_equal(arrays_of(model)["gain"], gain)
    np.testing.assert_array_equal(arrays_of(model)["v"], arrays_of(load_model(proto))["v"])


def test_a_gain_of_zero_has_the_factor_one():
    gain = GAIN.copy()
    gain[-1] = 0
    model = _smoothed(_model(PRE, gain=gain))
    np.testing.assert_array_equal(arrays_of(model)["gain"], gain / FACTORS)


@pytest.mark.parametrize("activation", ["f = Relu (h)", WRITTEN_GELU, TANH_GELU, "g = Sigmoid (h) f = Mul (h, g)"])
def test_channels_behind_an_activation_are_told_by_the_product_in_front_of_it(activation):
    v = np.eye(WIDE, dtype=np.float32)
    proto = _model(GELU.replace("ACTIVATION", activation), gain=np.ones(WIDE, np.float32), v=v * GAIN)
    model = _smoothed(proto)
    # An identity with columns of different gain: their reach is 3 + 3 times it.
    np.testing.assert_array_equal(1 / arrays_of(model)["f_factors"], FACTORS)
    assert model.graph[-1].inputs[0].producer().op_type == "Mul"
    _same_bits(proto, model)


@pytest.mark.parametrize("activation", ["f = Tanh (h)", "g = Sigmoid (h) f = Mul (x, g)", "f = Mul (h, h)"])
def test_what_is_no_activation_of_one_product_tells_nothing(activation):
    v = np.eye(WIDE, dtype=np.float32)
    proto = _model(GELU.replace("ACTIVATION", activation), gain=np.ones(WIDE, np.float32), v=v * GAIN)
    assert not any(name.endswith("_factors") for name in arrays_of(_smoothed(proto)))


def test_a_bias_raises_the_reach_of_its_channel_and_of_no_other():
    bias = np.zeros(WIDE, np.float32)
    bias[3] = 12  # the reach of the others is 6
    text = GELU.replace("ACTIVATION", "f = Relu (h)")
    proto = _model(text, gain=np.ones(WIDE, np.float32), v=np.eye(WIDE, dtype=np.float32), bias=bias)
    factors = 1 / arrays_of(_smoothed(proto))["f_factors"]
    assert factors.tolist() == [4 if channel == 3 else 1 for channel in range(WIDE)]  # 1.5 * log2(3) is 2.4


STREAM = """g (float[N, 16] x) => (float[N, 16] y) {
    n = LayerNormalization (x, gain, offset)
    a = MatMul (n, v)
    t = TERMS
    m = LayerNormalization (t, plain, offset)
    y = MatMul (m, w)
}"""


@pytest.mark.parametrize(
    ("terms", "factors"), [("Add (a, n)", FACTORS), ("Add (n, a)", FACTORS), ("Add (a, x)", [1] * WIDE)]
)
def test_what_stands_out_in_the_residual_stream_does_so_behind_the_next_normalization(terms, factors):
    proto = _model(STREAM.replace("TERMS", terms), plain=np.ones(WIDE, np.float32))
    model = _smoothed(proto)
    before, after = arrays_of(load_model(proto))["w"], arrays_of(model)["w"]
    np.testing.assert_array_equal(after, before * np.float32(factors)[:, None])
    _same_bits(proto, model)


def test_a_written_normalization_hands_on_what_stands_out_too():
    stream = "n0 = LayerNormalization (x, steep) k = MatMul (n0, u) t = Add (k, n0)"
    text = WRITTEN.replace("NORMALIZED", "z = Div (d, root)").replace("Sub (x, mean)", "Sub (t, mean)")
    text = text.replace("mean = ReduceMean <axes = [-1]> (x)", f"{stream} mean = ReduceMean <axes = [-1]> (t)")
    u = np.random.default_rng(9).standard_normal((WIDE, WIDE)).astype(np.float32)
    proto = _model(text, steep=GAIN, gain=np.ones(WIDE, np.float32), u=u)
    model = _smoothed(proto)
    np.testing.assert_array_equal(arrays_of(model)["gain"], np.float32(1) / FACTORS)
    _same_bits(proto, model)


def test_smoothing_twice_is_smoothing_once():
    model = _smoothed(_model(POST))
    once = serialize(model)
    smooth_channels(model)
    assert serialize(model) == once


def test_only_dynamic_quantization_with_a_scale_a_channel_smooths():
    assert scheme_from("DYNAMIC", {}).smoothed
    for preset, options in (("DYNAMIC", {"per_channel": False}), ("DYNAMIC", {"equalize": False}), ("A8W8", {})):
        assert not scheme_from(preset, options).smoothed


@pytest.mark.parametrize("text", [PRE, POST], ids=["pre", "post"])
def test_a_channel_that_stands_out_costs_the_others_less(text):
    gain = np.ones(WIDE, np.float32)
    gain[0] = 8
    weights = {name: np.random.default_rng(8).standard_normal((WIDE, WIDE)).astype(np.float32) for name in "vw"}
    weights["v"][0] /= 8
    weights["w"][:, 0] /= 8
    proto = _model(text, gain=gain, **weights)
    expected = _run(proto.SerializeToString())

    def error(**options):
        return np.square(_run(quarkfast.quantize(proto, preset="DYNAMIC", **options).model_bytes) - expected).sum()

    # An eighth of the range has an eighth of the step and a 64th of the error, and rows of weights are alike then, so
    # that none has more to lose than before: 0.95 beside 18.4.
    assert error() < error(equalize=False) / 4
