from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from quarkfast.algorithms.cross_layer_equalization import CrossLayerEqualizationSettings, equalize
from quarkfast.algorithms.scaled_pairs import shrunk_bias
from quarkfast.config import PRESETS
from quarkfast.config.options import scheme_from
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import samples, tiny_model

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
    return prepare(load_model(proto), 13, PRESETS["BFP16"])


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


@pytest.mark.parametrize(("preset", "largest"), [("BFP16", 4), ("MX6", 8)])
def test_no_channel_is_scaled_by_more_than_the_limit(preset, largest):
    schemes = PRESETS["FP16"], PRESETS[preset]
    before, after = (_weights(prepare(load_model(_chain()), 13, scheme))["w1"] for scheme in schemes)
    factors = np.abs(after).max(axis=(1, 2, 3)) / np.abs(before).max(axis=(1, 2, 3))
    assert factors.max() == largest
    assert factors.min() == 1 / largest


def test_exact_factors_leave_both_layers_the_same_reach():
    rng = np.random.default_rng(4)
    arrays = {"w1": rng.normal(size=(8, 6)), "b1": rng.normal(size=6), "w2": rng.normal(size=(4, 6))}
    proto = tiny_model(DENSE, {name: array.astype(np.float32) for name, array in arrays.items()})
    found = _weights(prepare(load_model(proto), 13, PRESETS["MX6"]))
    reach = [np.abs(found[name]).max(axis=0) for name in ("w1", "w2")]
    np.testing.assert_allclose(*reach, rtol=2**-22)  # two weights, rounded to float32 once each


def test_factors_are_exact_where_every_type_is_a_narrow_block():
    assert {name for name in PRESETS if scheme_from(name, {}).factors == "exact"} == {
        *("MX4", "MX6", "MXFP4E2M1", "MXFP6E2M3", "MXFP6E3M2", "MXFP8E4M3", "MXFP8E5M2")
    }
    assert all(scheme_from(name, {}).factors == "octaves" for name in ("BFP16", "MX9", "MXINT8"))
    assert scheme_from("MX6", {"tensors": {"r1": {"dtype": "int8"}}}).factors == "octaves"
    integers = ("A8W8", "A16W8", "U8S8", "XINT8", "DYNAMIC")  # of which one calibration serves all
    assert all(scheme_from(name, {}).factors == "useful_octaves" for name in integers)
    assert scheme_from("MX6", {"equalize": False}).factors is None


@pytest.mark.parametrize("octaves", [0, 0.5, 1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_pair_is_scaled_by_useful_octaves_where_that_lessens_the_error_of_its_weights(octaves, seed):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.normal(size=(2, 64, 64))
    w1 *= 2 ** (octaves * rng.normal(size=64))  # columns are channels
    proto = tiny_model(
        "g (float[N, 64] x) => (float[N, 64] y) { a = Gemm (x, w1) y = Gemm <transB = 1> (a, w2) }",
        {"w1": w1.astype(np.float32), "w2": w2.astype(np.float32)},
    )
    as_it_is, left, scaled = (
        _weights(prepare(load_model(proto), 13, each)) for each in (PRESETS["FP16"], PRESETS["A8W8"], PRESETS["MX6"])
    )
    by_octaves = 2.0 ** np.round(np.log2(scaled["w1"][0] / as_it_is["w1"][0]))
    factors = np.clip(by_octaves, 1 / 4, 4)
    changed = {"w1": as_it_is["w1"] * factors, "w2": as_it_is["w2"] / factors}
    gain = 10 * np.log10(_error(as_it_is) / _error(changed))
    assert np.array_equal(left["w1"], as_it_is["w1"]) == (gain < 1), gain


def _error(weights):
    """The energy of what rounding both layers to int8, one scale each, adds to their product."""
    rounded = {}
    for name, values in weights.items():
        step = np.abs(values).max() / 127
        rounded[name] = np.round(values.astype(np.float64) / step) * step
    exact = weights["w1"].astype(np.float64) @ weights["w2"].astype(np.float64).T
    return np.square(rounded["w1"] @ rounded["w2"].T - exact).sum()


def test_channels_that_are_zero_on_one_side_stay_as_they_are():
    w1 = np.zeros((8, 3, 3, 3), np.float32)
    found = _weights(_equalized(_chain(w1=w1)))
    assert (found["w1"] == 0).all()
    np.testing.assert_array_equal(found["b1"], onnx.numpy_helper.to_array(_chain().graph.initializer[1]))


def test_equalizing_twice_is_equalizing_once():
    model = _equalized(_chain())
    once = serialize(model)
    assert serialize(prepare(model, 13, PRESETS["MX6"])) == once


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
    arrays["w1"] *= 4.0 ** np.arange(-2, 2)[:, None, None, None]
    proto = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    assert not np.array_equal(_weights(_equalized(proto))["w1"], arrays["w1"].astype(np.float32))
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


def test_a_bias_of_zeros_that_layers_share_keeps_none_apart():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 8, 8, 8] y) {
        a = Conv (x, w1, zeros)
        r = Relu (a)
        y = Conv <group = 8> (r, w2, zeros)
    }"""
    rng = np.random.default_rng(3)
    arrays = {"w1": rng.normal(size=(8, 3, 1, 1)), "w2": rng.normal(size=(8, 1, 1, 1)), "zeros": np.zeros(8)}
    arrays["w1"] *= 4.0 ** np.arange(-4, 4)[:, None, None, None]
    proto = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    found = _equalized(proto)
    assert not np.array_equal(_weights(found)["w1"], arrays["w1"].astype(np.float32))
    np.testing.assert_array_equal(_run(serialize(found), samples()), _run(proto.SerializeToString(), samples()))


TRIPLE = """g (float[N, 3, 8, 8] x) => (float[N, 4, 1, 1] y) {
    a = Conv (x, w1, b1)
    r = Relu (a)
    q = Pad (r, pads)
    d = Conv <group = 8> (q, w2, b2)
    s = Relu (d)
    m = ReduceMean <axes = [2, 3]> (s)
    y = Conv (m, w3)
}"""


def _triple():
    rng = np.random.default_rng(6)
    shapes = {"w1": (8, 3, 1, 1), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (4, 8, 1, 1)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["w2"] *= np.float32(3.0) ** np.arange(-4, 4, dtype=np.float32)[:, None, None, None]
    arrays["b1"] *= np.float32(10)
    return tiny_model(TRIPLE, arrays | {"pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1])}), arrays


def _reach(weights):
    w1, w2 = (np.abs(weights[name].astype(np.float64)).max(axis=(1, 2, 3)) for name in ("w1", "w2"))
    return w1, w2, np.abs(weights["w3"].astype(np.float64)).max(axis=(0, 2, 3))


def _equalized_exactly(proto, **options):
    model = load_model(proto)
    assert equalize(model, CrossLayerEqualizationSettings("exact", largest_factor=1e6, **options))
    return model


def test_turns_that_go_on_bring_a_depthwise_triple_to_the_cube_root_of_its_product():
    proto, arrays = _triple()
    model = _equalized_exactly(proto, cle_steps=-1)
    expected = np.cbrt(np.prod(_reach(arrays), axis=0))
    for reach in _reach(_weights(model)):
        np.testing.assert_allclose(reach, expected, rtol=1e-5)  # turns end when a mean weight changes by 1.9e-7
    once = _reach(_weights(_equalized_exactly(proto)))
    assert max(np.abs(np.log(reach / expected)).max() for reach in once) > 0.1
    x = samples()
    # Weights are rounded to float32 in each of some 20 turns.
    np.testing.assert_allclose(_run(serialize(model), x), _run(proto.SerializeToString(), x), rtol=1e-4, atol=1e-4)


def test_two_steps_are_two_turns():
    proto, _ = _triple()
    once, twice = (_weights(_equalized_exactly(proto, cle_steps=steps)) for steps in (1, 2))
    again = _equalized_exactly(proto)
    del again.meta["quarkfast.equalized"]
    equalize(again, CrossLayerEqualizationSettings("exact", largest_factor=1e6))
    assert not np.array_equal(once["w2"], twice["w2"])
    assert all(np.array_equal(values, twice[name]) for name, values in _weights(again).items())


def test_channels_below_the_threshold_stay_as_they_are():
    proto, arrays = _triple()
    w1, w2, _ = _reach(arrays)
    small = w1 + w2 < 2
    assert 0 < small.sum() < 8
    found = _weights(_equalized_exactly(proto, cle_weight_threshold=2.0))["w1"]
    assert (found == arrays["w1"]).all(axis=(1, 2, 3)).tolist() == small.tolist()
    every = {"cle_weight_threshold": 2.0, "cle_scale_use_threshold": False}
    assert not (_weights(_equalized_exactly(proto, **every))["w1"] == arrays["w1"]).all(axis=(1, 2, 3)).any()


def test_a_bias_counts_where_that_is_asked_for():
    proto, arrays = _triple()
    found = _weights(_equalized_exactly(proto, cle_scale_append_bias=True))
    shrunk = np.abs(shrunk_bias(arrays["b1"].astype(np.float64), arrays["w1"].reshape(8, -1).astype(np.float64)))
    w1, w2, _ = _reach(arrays)
    factors = np.sqrt(w2 / np.maximum(w1, shrunk))
    np.testing.assert_allclose(found["b1"], arrays["b1"] * factors, rtol=2**-22)
    assert (shrunk > w1).any()


@pytest.mark.parametrize(
    ("bias", "weight", "divisor"),
    [(1, 1, 2), (1, 0.09, 2), (9, 0.5, 2), (9, 0.05, 20), (20, 1, 10), (11, 1, 5), (100, 1, 20)],
)
def test_a_bias_is_made_smaller_by_how_far_it_outweighs_weights(bias, weight, divisor):
    found = shrunk_bias(np.full(3, float(bias)), np.full((3, 2), float(weight)))
    np.testing.assert_allclose(found, bias / divisor)


OTHERS = {
    "a Clip": "q = Clip (r, low, high)",
    "padding by ones": "q = Pad (r, pads, one)",
    "padding of channels": "q = Pad (r, wide)",
    "a reflection": 'q = Pad <mode = "reflect"> (r, pads)',
    "a mean of channels": "q = ReduceMean <axes = [1]> (r)",
}


@pytest.mark.parametrize("between", OTHERS.values(), ids=OTHERS)
def test_what_no_factor_passes_through_keeps_layers_apart(between):
    rng = np.random.default_rng(7)
    inputs = {"padding of channels": 10, "a mean of channels": 1}.get(
        next(k for k, v in OTHERS.items() if v == between), 8
    )
    arrays = {"w1": rng.normal(size=(8, 3, 1, 1)), "w2": rng.normal(size=(4, inputs, 1, 1))}
    constants = {name: array.astype(np.float32) for name, array in arrays.items()}
    constants |= {"low": np.float32(0), "high": np.float32(6), "one": np.float32(1)}
    constants |= {"pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "wide": np.int64([0, 1, 0, 0, 0, 1, 0, 0])}
    text = f"a = Conv (x, w1) r = Relu (a) {between} y = Conv (q, w2)"
    proto = tiny_model(f"g (float[N, 3, 8, 8] x) => (float[N, 4, H, W] y) {{ {text} }}", constants)
    assert not equalize(load_model(proto), "exact")
