"""Weights that leave sums in 16 bits: which layers, how far activations reach, and what becomes of codes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate.saturation import excess, rows_of_weight
from quarkfast.qparams import overflowing_pairs
from support.tiny_models import samples, tiny_model

CONV = "g (float[N, 4, 6, 6] x) => (float[N, A, B, C] y) { [layer] c = Conv(x, w) y = Relu(c) }"
GROUPS = CONV.replace("Conv(", "Conv<group = 2>(")
DEPTHWISE = CONV.replace("Conv(", "Conv<group = 4>(")
MATMUL = "g (float[N, 8] x) => (float[N, 4] y) { [layer] m = MatMul(x, w) y = Relu(m) }"
GEMM = "g (float[N, 8] x) => (float[N, 4] y) { [layer] m = Gemm<transB = 1>(x, w) y = Relu(m) }"
LAYERS = {
    "conv": (CONV, (8, 4, 3, 3), (4, 6, 6)),
    "groups": (GROUPS, (8, 2, 3, 3), (4, 6, 6)),
    "matmul": (MATMUL, (8, 4), (8,)),
    "gemm": (GEMM, (4, 8), (8,)),
}


def _model(name):
    """A layer most of whose weights are large and above zero, and samples above zero."""
    text, weight, shape = LAYERS[name]
    values = np.random.default_rng(5).uniform(0.3, 1, weight).astype(np.float32)
    return tiny_model(text, {"w": values}), {"x": np.abs(samples(16, shape))}


def _layer(model):
    """Returns the layer, its codes and its scale."""
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (node,) = (each for each in model.graph.node if each.name == "layer")
    (decoder,) = (each for each in model.graph.node if each.output[0] == node.input[1])
    return node, constants[decoder.input[0]], constants[decoder.input[1]]


def _codes_of_activations(model, node, feed):
    """Returns the codes that the layer multiplies."""
    (decoder,) = (each for each in model.graph.node if each.output[0] == node.input[0])
    more = onnx.ModelProto.FromString(model.SerializeToString())
    del more.graph.output[:]
    more.graph.output.append(onnx.ValueInfoProto(name=decoder.input[0]))
    session = quarkfast.ort.inference_session(more.SerializeToString(), quarkfast.ort.session_options(optimize=False))
    return quarkfast.ort.run(session, feed)[0]


@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "per channel"])
@pytest.mark.parametrize("rounding", ["nearest", "descent"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_pair_of_products_leaves_16_bits_on_the_samples(name, per_channel, rounding):
    proto, feed = _model(name)
    lost = {}
    for portable in (False, True):
        options = {"per_channel": per_channel, "portable": portable, "rounding": rounding}
        model = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, **options).proto
        node, codes, _ = _layer(model)
        lost[portable] = excess(node, codes, _codes_of_activations(model, node, feed), 0)
    assert lost[False].any()
    assert not lost[True].any()


@pytest.mark.parametrize("name", LAYERS)
def test_without_statistics_of_channels_any_activation_fits(name):
    proto, feed = _model(name)
    calibration = quarkfast.calibrate(proto, feed, preset="A8W8")
    table = quarkfast.Calibration(calibration.tensors, None, 16, 1)
    node, codes, _ = _layer(quarkfast.quantize(proto, preset="U8S8", calibration=table).proto)
    assert not overflowing_pairs(rows_of_weight(node, codes)).any()


def test_channels_that_do_not_reach_far_let_weights_be():
    proto, feed = _model("conv")
    small = {"x": feed["x"] * np.float32([1, 0.002, 1, 0.002])[:, None, None]}  # of each pair of channels one
    both = [quarkfast.quantize(proto, preset="U8S8", calibration_data=data) for data in (feed, small)]
    for result, expected in zip(both, (1, 0), strict=True):
        assert len(result.summary.reductions) == expected
    # 0.002 and a tenth are the code 1 of 255: 255 * 127 + 127 is below 32767. The weights alone do not tell.
    node, codes, _ = _layer(both[1].proto)
    assert overflowing_pairs(rows_of_weight(node, codes)).any()


def test_only_the_channel_that_overflows_gets_a_larger_scale():
    weights = np.random.default_rng(5).normal(0, 0.1, (8, 4, 3, 3)).astype(np.float32)
    weights[3] = np.abs(weights[3]) + 0.5
    weights[:, :2, 0, 0] = 0.6, -0.1  # so that each channel uses its codes
    proto, feed = tiny_model(CONV, {"w": weights}), {"x": np.abs(samples(16, (4, 6, 6)))}
    options = {"preset": "U8S8", "calibration_data": feed, "per_channel": True}
    scales = [_layer(quarkfast.quantize(proto, portable=flag, **options).proto)[2] for flag in (False, True)]
    assert np.flatnonzero(scales[0] != scales[1]).tolist() == [3]
    assert scales[0][3] < scales[1][3] <= 2 * scales[0][3]


def test_portable_false_gives_the_nearest_codes():
    proto, feed = _model("conv")
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, portable=False)
    _, codes, scale = _layer(result.proto)
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    np.testing.assert_array_equal(codes, np.clip(np.rint(weight / scale), -127, 127))
    assert result.summary.reductions == ()
    assert any("portable=True avoids it" in note for note in result.summary.notes)


@pytest.mark.parametrize("option", [{"weight_type": "uint8"}, {"reduce_range": True}], ids=str)
def test_weights_that_cannot_overflow_stay_as_they_are(option):
    proto, feed = _model("conv")
    both = [
        _layer(quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, portable=flag, **option).proto)
        for flag in (False, True)
    ]
    np.testing.assert_array_equal(both[0][1], both[1][1])


def test_depthwise_convolutions_stay_as_they_are():
    proto = tiny_model(DEPTHWISE, {"w": np.ones((4, 1, 3, 3), np.float32)})
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data={"x": np.abs(samples(16, (4, 6, 6)))})
    assert result.summary.reductions == ()


@pytest.mark.parametrize("keep", [False, True], ids=["codes", "floats"])
def test_weights_kept_in_float_give_the_same_sums(keep):
    proto, feed = _model("conv")
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, keep_float_weights=keep)
    outputs = quarkfast.ort.run(quarkfast.ort.inference_session(result.model_bytes), feed)[0]
    plain = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed)
    expected = quarkfast.ort.run(quarkfast.ort.inference_session(plain.model_bytes), feed)[0]
    np.testing.assert_array_equal(outputs, expected)


@pytest.mark.parametrize("name", ["matmul", "gemm"])
def test_products_of_the_dynamic_encoding_fit_any_activation(name):
    proto, feed = _model(name)
    for data in (None, feed):
        model = quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=data).proto
        constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
        codes = constants["w_quantized"].T if name == "matmul" else constants["w_quantized"]
        assert not overflowing_pairs(np.ascontiguousarray(codes)).any()


def test_convolutions_of_the_dynamic_encoding_are_of_uint8_and_stay():
    proto, feed = _model("conv")
    both = [quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=feed, portable=flag) for flag in (False, True)]
    assert both[0].proto.graph == both[1].proto.graph


def test_a_weight_that_layers_read_in_two_orders_fits_both():
    text = """g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) {
        [first] a = MatMul(x, w) y = Relu(a)
        [second] b = Gemm<transB = 1>(x, w) z = Relu(b)
    }"""
    weights = np.random.default_rng(5).uniform(0.3, 1, (8, 8)).astype(np.float32)
    model = quarkfast.quantize(tiny_model(text, {"w": weights}), preset="DYNAMIC", per_channel=False).proto
    found = [onnx.numpy_helper.to_array(each) for each in model.graph.initializer if each.name.startswith("w_quant")]
    assert len(found) == 1
    for codes in found:
        assert not overflowing_pairs(codes).any()
        assert not overflowing_pairs(np.ascontiguousarray(codes.T)).any()


@pytest.mark.parametrize("name", ["conv", "matmul"])
def test_the_same_bytes_whatever_the_batch_and_the_order(name):
    proto, feed = _model(name)
    found = {
        quarkfast.quantize(
            proto, preset="U8S8", calibration_data={"x": rows}, batch_size=size
        ).proto.graph.SerializeToString(deterministic=True)
        for rows, size in itertools.product((feed["x"], feed["x"][::-1].copy()), (1, 5, 16))
    }
    assert len(found) == 1


@pytest.mark.parametrize("preset", [None, "U8S8"])
def test_a_calibration_gives_the_same_bytes_as_samples(preset, tmp_path):
    proto, feed = _model("conv")
    direct = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed)
    halves = [quarkfast.calibrate(proto, {"x": rows}, preset=preset) for rows in (feed["x"][:5], feed["x"][5:])]
    quarkfast.merge_calibrations(halves, tmp_path / "calibration.json")
    result = quarkfast.quantize(proto, preset="U8S8", calibration=tmp_path / "calibration.json")
    assert direct.summary.reductions
    assert result.proto.graph == direct.proto.graph


def test_the_summary_and_the_file_tell_what_gave_way():
    proto, feed = _model("conv")
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed)
    (reduction,) = result.summary.reductions
    assert reduction.node == "layer"
    assert reduction.after < reduction.before
    told = dict(result.summary.rows())["portable"]
    assert told == f"weights of 1 layer keep sums in 16 bits, expected SQNR {reduction}"
    found = quarkfast.verify(result.model_bytes)
    assert found.reductions == (reduction,)
    assert dict(found.rows())["keeps sums in 16 bits"] == str(reduction)


@pytest.mark.parametrize(("preset", "told"), [("A8W8", True), ("XINT8", True), ("A16W8", False), ("BF16", False)])
def test_models_for_npus_tell_what_a_processor_makes_of_them(preset, told):
    weights = np.random.default_rng(5).uniform(0.3, 1, (8, 4, 3, 3)).astype(np.float32)
    proto = tiny_model("g (float[N, 4, 6, 6] x) => (float[N, A, B, C] y) { [layer] y = Conv(x, w) }", {"w": weights})
    notes = quarkfast.quantize(proto, preset=preset, calibration_data=samples(16, (4, 6, 6))).summary.notes
    found = [note for note in notes if "processors without VNNI" in note]
    assert len(found) == told
    assert all("1 layer ('layer')" in note and "without graph optimizations it adds exactly" in note for note in found)


def test_models_for_npus_whose_sums_fit_tell_nothing():
    weights = np.random.default_rng(5).uniform(-1, 1, (8, 4, 3, 3)).astype(np.float32)
    weights[..., ::2, :] = 0
    weights[:, 1::2] = 0
    proto = tiny_model("g (float[N, 4, 6, 6] x) => (float[N, A, B, C] y) { [layer] y = Conv(x, w) }", {"w": weights})
    notes = quarkfast.quantize(proto, preset="A8W8", calibration_data=samples(16, (4, 6, 6))).summary.notes
    assert not any("VNNI" in note for note in notes)
