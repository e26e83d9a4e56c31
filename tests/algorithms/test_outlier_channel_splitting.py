"""Channels that samples have shown to stand out become several, and the float model computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.algorithms import smoothable_axes
from quarkfast.algorithms.outlier_channel_splitting import split_outlier_channels
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from quarkfast.transforms.infer_types import infer_types
from support.tiny_models import arrays_of, operators_of, run_as_written, tiny_model

WIDE = 96
# The first three channels reach 16, 8 and 4 times as far as the median; their parts are to reach twice as far.
SEEN = np.float32([16, 8, 4] + [1] * (WIDE - 3))
REPEATS = [0] * 7 + [1] * 3 + [2]

RESIDUAL = """g (float[N, 96] x) => (float[N, 96] y) {
    n = Relu (x)
    a = MatMul (n, v)
    b = Gemm <transB = 1> (n, w)
    s = Add (a, b)
    y = Add (s, n)
}"""
FORWARD = """g (float[N, 96] x) => (float[N, 96] y) {
    a = MatMul (x, v)
    h = Add (bias, a)
    f = Relu (h)
    y = MatMul (f, w)
}"""
GEMM = """g (float[N, 96] x) => (float[N, 96] y) {
    h = Gemm <transB = 1> (x, v, bias)
    f = Relu (h)
    y = Gemm <transB = 1> (f, w)
}"""
GELU = """g (float[N, 96] x) => (float[N, 96] y) {
    a = MatMul (x, v)
    h = Add (a, bias)
    r = Div (h, two)
    t = Erf (r)
    u = Add (t, one)
    p = Mul (h, u)
    f = Mul (p, half)
    y = MatMul (f, w)
}"""
NORMALIZED = """g (float[N, 96] x) => (float[N, 96] y) {
    n = LayerNormalization (x, gain, offset)
    y = MatMul (n, w)
}"""


def _model(text):
    """Returns a model whose weights are small integers: then all sums are exact, in any order."""
    rng = np.random.default_rng(5)
    arrays = {name: rng.integers(-3, 4, (WIDE, WIDE)).astype(np.float32) for name in "vw"}
    arrays |= {name: rng.integers(-3, 4, WIDE).astype(np.float32) for name in ("bias", "gain", "offset")}
    arrays |= {"one": np.float32(1), "two": np.float32(2), "half": np.float32(0.5)}
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text}, 17)


def _split(proto, tensor, seen=SEEN):
    model = prepare(load_model(proto), 11)
    split_outlier_channels(model, {tensor: seen})
    return model


def _run(data):
    return run_as_written(data, np.random.default_rng(6).integers(-8, 9, (32, WIDE)).astype(np.float32))


def _same_bits(proto, model):
    data = serialize(model)
    onnx.checker.check_model(onnx.ModelProto.FromString(data), full_check=True)
    np.testing.assert_array_equal(_run(data), _run(proto.SerializeToString()))


def test_channels_are_divided_and_repeated_for_products_and_not_for_a_residual_sum():
    proto = _model(RESIDUAL)
    model = _split(proto, "n")
    assert operators_of(model) == ["Relu", "Mul", "Gather", "Concat", "MatMul", "Gemm", "Add", "Add"]
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    assert 1 / after["n_factors"][:4] == pytest.approx([8, 4, 2, 1], abs=0)
    np.testing.assert_array_equal(after["n_Mul_output_channels"], REPEATS)
    np.testing.assert_array_equal(after["v"], np.concatenate([before["v"], before["v"][REPEATS]]))
    np.testing.assert_array_equal(after["w"], np.concatenate([before["w"], before["w"][:, REPEATS]], axis=1))
    assert model.graph[-1].inputs[1].name == "n"
    _same_bits(proto, model)


@pytest.mark.parametrize("text", [RESIDUAL, FORWARD, GEMM, GELU, NORMALIZED])
def test_types_and_shapes_stay_known(text):
    model = _split(_model(text), "f" if text in (FORWARD, GEMM, GELU) else "n")
    known = {value: (value.type, value.shape) for node in model.graph for value in node.outputs}
    assert all(shape is not None for _, shape in known.values())
    infer_types(model)
    assert known == {value: (value.type, value.shape) for value in known}


@pytest.mark.parametrize("text", [FORWARD, GEMM], ids=["MatMul", "Gemm"])
def test_behind_an_activation_the_product_in_front_makes_the_parts(text):
    proto = _model(text)
    model = _split(proto, "f")
    assert operators_of(model).count("Mul") == 1
    assert not {"Gather", "Concat"} & set(operators_of(model))
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    axis = 0 if text == GEMM else 1
    np.testing.assert_array_equal(after["v"], np.concatenate([before["v"], before["v"].take(REPEATS, axis)], axis))
    np.testing.assert_array_equal(after["bias"], np.concatenate([before["bias"], before["bias"][REPEATS]]))
    assert [list(node.outputs[0].shape)[-1] for node in model.graph][:-1] == [WIDE + 11] * (len(model.graph) - 1)
    _same_bits(proto, model)


def test_the_parts_go_through_an_activation_that_is_written_out():
    proto = _model(GELU)
    model = _split(proto, "f")
    assert operators_of(model) == ["MatMul", "Add", "Div", "Erf", "Add", "Mul", "Mul", "Mul", "MatMul"]
    got, expected = _run(serialize(model)), _run(proto.SerializeToString())
    # A product of n terms is off by at most n times half a last place of the sum of magnitudes, in either order.
    magnitudes = 3 * WIDE * (8 * 3 * WIDE + 3)
    assert np.abs(got - expected).max() <= 2 * (WIDE + 11) * 2**-24 * magnitudes


@pytest.mark.parametrize("read", ["h", "f", "a"])
def test_what_others_read_between_a_product_and_its_activation_is_not_repeated(read):
    proto = _model(FORWARD)
    proto.graph.output.append(onnx.helper.make_tensor_value_info(read, 1, ["N", WIDE]))
    model = _split(proto, "f")
    assert operators_of(model) == ["MatMul", "Add", "Relu", "Mul", "Gather", "Concat", "MatMul"]
    _same_bits(proto, model)


def test_a_weight_that_two_products_share_is_not_repeated_for_one():
    proto = _model(FORWARD.replace("h = Add (bias, a)", "c = MatMul (a, v) h = Add (bias, c)"))
    model = _split(proto, "f")
    assert "Gather" in operators_of(model)
    _same_bits(proto, model)


def test_a_layer_normalization_that_products_alone_read_is_divided_itself():
    proto = _model(NORMALIZED)
    model = _split(proto, "n")
    assert operators_of(model) == ["LayerNormalization", "Gather", "Concat", "MatMul"]
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    for name in ("gain", "offset"):
        np.testing.assert_array_equal(after[name][:4] * [8, 4, 2, 1], before[name][:4])


def test_a_channel_of_less_than_two_medians_and_its_rounding_stays_whole():
    """The factor is 2 from twice the median and half an octave on."""
    seen = np.ones(WIDE, np.float32)
    seen[0], seen[1] = 2.82, 2.83
    model = _split(_model(RESIDUAL), "n", seen)
    np.testing.assert_array_equal(1 / arrays_of(model)["n_factors"][:3], [1, 2, 1])


def test_no_more_than_an_eighth_of_the_channels_is_repeated():
    seen = np.ones(WIDE, np.float32)
    seen[:4] = [250, 40, 24, 12]
    proto = _model(RESIDUAL)
    model = _split(proto, "n", seen)
    repeats = arrays_of(model)["n_Mul_output_channels"]
    # 12 may be. With a bound of 2 * 2 ** 3.25 = 19.0 the first channel has 16 parts, 15 of them repeats, since 250 by
    # 19.0 is nearer to 16 than to 8 in octaves; with 22.6 it has 8, and the second has 2.
    assert repeats.tolist() == [0] * 7 + [1]
    assert repeats.size <= WIDE / 8
    _same_bits(proto, model)


@pytest.mark.parametrize("seen", [np.zeros(WIDE), np.ones(WIDE), SEEN * np.nan, SEEN * np.inf, np.ones(3)], ids=str)
def test_what_tells_nothing_apart_changes_nothing(seen):
    proto = _model(RESIDUAL)
    model = _split(proto, "n", seen.astype(np.float32))
    assert operators_of(model) == operators_of(load_model(proto))


def test_what_was_not_seen_stays_as_it_is():
    proto = _model(RESIDUAL)
    assert operators_of(_split(proto, "y")) == operators_of(load_model(proto))


def test_the_tensors_that_may_be_split_are_those_in_front_of_products_with_weights_of_their_own():
    model = prepare(load_model(_model(RESIDUAL)), 11)
    assert smoothable_axes(model) == {"n": -1}
    assert smoothable_axes(model, ["another"]) == {}
    shared = prepare(load_model(_model(RESIDUAL.replace("y = Add (s, n)", "y = MatMul (s, v)"))), 11)
    assert smoothable_axes(shared) == {}


def test_a_product_that_stays_float_reads_the_tensor_as_it_was():
    proto = _model(RESIDUAL)
    model = prepare(load_model(proto), 11)
    product = next(node.name for node in model.graph if node.op_type == "MatMul")
    split_outlier_channels(model, {"n": SEEN}, [product])
    assert [node.inputs[0].name for node in model.graph if node.op_type == "Gemm"] == ["n"]
    _same_bits(proto, model)
