from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from quarkfast.config import PRESETS
from quarkfast.config.options import resolve
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.prepare import prepare
from tiny_models import samples, tiny_model

CHAIN = """g (float[N, 3, 8, 8] x) => (float[N, 4, 4, 4] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (a)
    d = Conv <group = 8, pads = [1, 1, 1, 1]> (r, w2)
    l = LeakyRelu (d)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (l)
    y = Conv <group = 2> (p, w3)
}"""
DENSE = """g (float[N, 8] x) => (float[N, 4] y) {
    a = Gemm (x, w1, b1)
    r = Relu (a)
    y = Gemm <transB = 1> (r, w2)
}"""


def _chain(**changed):
    rng = np.random.default_rng(1)
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "w3": (4, 4, 1, 1)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["w1"] *= np.float32(4.0) ** np.arange(-4, 4, dtype=np.float32)[:, None, None, None]
    return tiny_model(CHAIN, arrays | changed)


def _equalized(proto):
    return prepare(load_model(proto), 13, factors="octaves")


def _weights(model):
    return {name: value.const_value.numpy() for name, value in model.graph.initializers.items()}


def _run(data, x):
    return onnxruntime.InferenceSession(data).run(None, {"x": x})[0]


def test_an_equalized_model_computes_what_it_did():
    x = samples()
    expected = _run(_chain().SerializeToString(), x)
    np.testing.assert_array_equal(_run(serialize(_equalized(_chain())), x), expected)


def test_dense_layers_are_equalized_whatever_the_order_of_their_axes():
    rng = np.random.default_rng(2)
    arrays = {"w1": rng.normal(size=(8, 6)), "b1": rng.normal(size=6), "w2": rng.normal(size=(4, 6))}
    arrays["w1"] *= 2.0 ** np.arange(-3, 3)
    proto = tiny_model(DENSE, {name: array.astype(np.float32) for name, array in arrays.items()})
    x = rng.normal(size=(5, 8)).astype(np.float32)
    model = _equalized(proto)
    found = _weights(model)
    ratio = np.abs(found["w1"]).max(axis=0) / np.abs(found["w2"]).max(axis=0)
    assert (np.abs(np.log2(ratio)) <= 1).all()  # the factor is off by half an octave at most, on either side
    np.testing.assert_array_equal(_run(serialize(model), x), _run(proto.SerializeToString(), x))


@pytest.mark.parametrize(("choice", "largest"), [("octaves", 4), ("exact", 8)])
def test_no_channel_is_scaled_by_more_than_the_limit(choice, largest):
    before, after = (_weights(prepare(load_model(_chain()), 13, factors=choice))["w1"] for choice in (None, choice))
    factors = np.abs(after).max(axis=(1, 2, 3)) / np.abs(before).max(axis=(1, 2, 3))
    assert factors.max() == largest
    assert factors.min() == 1 / largest


def test_exact_factors_leave_both_layers_the_same_reach():
    rng = np.random.default_rng(4)
    arrays = {"w1": rng.normal(size=(8, 6)), "b1": rng.normal(size=6), "w2": rng.normal(size=(4, 6))}
    proto = tiny_model(DENSE, {name: array.astype(np.float32) for name, array in arrays.items()})
    found = _weights(prepare(load_model(proto), 13, factors="exact"))
    reach = [np.abs(found[name]).max(axis=0) for name in ("w1", "w2")]
    np.testing.assert_allclose(*reach, rtol=2**-22)  # two weights, rounded to float32 once each


def test_factors_are_exact_where_every_type_is_a_narrow_block():
    assert {name for name in PRESETS if resolve(name, {}).factors == "exact"} == {
        *("MX4", "MX6", "MXFP4E2M1", "MXFP6E2M3", "MXFP6E3M2", "MXFP8E4M3", "MXFP8E5M2")
    }
    assert all(resolve(name, {}).factors == "octaves" for name in ("BFP16", "MX9", "MXINT8"))
    assert resolve("MX6", {"tensors": {"r1": {"dtype": "int8"}}}).factors == "octaves"
    assert resolve("A8W8", {}).factors == "octaves"
    assert resolve("MX6", {"equalize": False}).factors is None


def test_channels_that_are_zero_on_one_side_stay_as_they_are():
    w1 = np.zeros((8, 3, 3, 3), np.float32)
    found = _weights(_equalized(_chain(w1=w1)))
    assert (found["w1"] == 0).all()
    np.testing.assert_array_equal(found["b1"], onnx.numpy_helper.to_array(_chain().graph.initializer[1]))


def test_equalizing_twice_is_equalizing_once():
    model = _equalized(_chain())
    once = serialize(model)
    assert serialize(prepare(model, 13, factors="exact")) == once


@pytest.mark.parametrize("change", ["output", "reader", "shared", "bias"])
def test_what_others_read_is_not_scaled(change):
    rng = np.random.default_rng(3)
    text = """g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {
        a = Conv (x, w1, b1)
        r = Relu (a)
        c = Conv (r, w2)
        y = Add (c, x)
    }"""
    arrays = {"w1": rng.normal(size=(4, 4, 1, 1)), "b1": rng.normal(size=4), "w2": rng.normal(size=(4, 4, 1, 1))}
    proto = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    if change == "output":
        proto.graph.output.append(onnx.helper.make_tensor_value_info("r", 1, ["N", 4, 8, 8]))
    elif change == "reader":
        proto.graph.node[3].input[1] = "a"
    elif change == "shared":
        proto.graph.node[2].input[1] = "w1"
    else:
        proto.graph.node[2].input.append("b1")
    found = _weights(_equalized(proto))
    for name in {"w1", "b1"} & set(found):
        np.testing.assert_array_equal(found[name], arrays[name].astype(np.float32))
