"""Channels that stand out are split in static presets too, where float nodes compute them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

WIDE = 96
OUTLIERS = [5, 40]

NORMALIZED = """g (float[N, 96] x) => (float[N, 96] y, float[N, 96] z) {
    n = LayerNormalization (x, gain, offset)
    y = MatMul (n, w)
    z = Relu (n)
}"""
HIDDEN = """g (float[N, 96] x) => (float[N, 96] y, float[N, 96] z) {
    n = LayerNormalization (x, gain, offset)
    p = MatMul (n, w)
    b = Add (p, bias)
    y = Relu (b)
    z = Relu (n)
}"""
RELU = """g (float[N, 96] x) => (float[N, 96] y) {
    a = MatMul (x, v)
    n = Relu (a)
    y = MatMul (n, w)
}"""


def model(text: str = NORMALIZED) -> onnx.ModelProto:
    """Two channels are 16 times as large as the others, and the weights that read them as much smaller."""
    rng = np.random.default_rng(5)
    reach = np.ones(WIDE, np.float32)
    reach[OUTLIERS] = 16
    w = rng.normal(0, 0.1, (WIDE, WIDE)).astype(np.float32) / np.sqrt(reach[:, None])
    v = rng.normal(0, 0.1, (WIDE, WIDE)).astype(np.float32) * reach
    offset, bias = rng.normal(0, 0.1, WIDE).astype(np.float32), np.zeros(WIDE, np.float32)
    arrays = {"gain": reach, "offset": offset, "bias": bias, "w": w, "v": v}
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text}, 17)


def samples(count: int = 32, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, WIDE)).astype(np.float32)


def quantized(preset: str = "U8S8", data=None, text: str = NORMALIZED, **options) -> quarkfast.QuantizedModel:
    data = samples() if data is None else data
    return quarkfast.quantize(model(text), preset=preset, calibration_data=data, **options)


def ratio(result: quarkfast.QuantizedModel) -> float:
    x = samples(64, 9)
    expected, _ = exact_session(model()).run(None, {"x": x})
    return sqnr(expected, exact_session(result.model_bytes).run(None, {"x": x})[0])


def is_split(result: quarkfast.QuantizedModel) -> bool:
    return any("outlier channel splitting: 1 of 1 tensors" in note for note in result.summary.notes)


@pytest.mark.parametrize("preset", ["U8S8", "A8W8", "XINT8"])
def test_outputs_gain(preset):
    split, whole = quantized(preset), quantized(preset, equalize=False)
    assert is_split(split)
    assert not is_split(whole)
    onnx.checker.check_model(split.proto, full_check=True)
    # 16 times the median becomes 1.5 to 2.1 times: three octaves, of which the two channels' own parts take some back.
    assert ratio(split) > ratio(whole) + 6


def test_what_is_added_is_computed_in_float_in_front_of_the_pair():
    split = quantized()
    makers = {name: node for node in split.proto.graph.node for name in node.output}
    product = next(node for node in split.proto.graph.node if node.op_type == "MatMul")
    pair = makers[makers[product.input[0]].input[0]]
    chain, value = [], pair.input[0]
    while value in makers:
        chain.append(makers[value].op_type)
        value = makers[value].input[0]
    assert (pair.op_type, chain) == ("QuantizeLinear", ["Concat", "Mul", "LayerNormalization"])
    reasons = {each.op_type: each.reason for each in split.summary.left_float}
    assert reasons["Mul"] == reasons["Concat"] == "it makes channels smaller that one scale cannot carry"


def test_what_a_quantized_node_computes_stays_whole():
    assert "outlier" not in str(quantized(text=RELU).summary.notes)


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("A16W8", {}),
        ("U8S8", {"equalize": False}),
        ("U8S8", {"tensors": {"n": {"dtype": "uint16"}}}),
        ("BF16", {}),
    ],
)
def test_tensors_that_need_it_not_stay_whole(preset, options):
    assert "outlier" not in str(quantized(preset, **options).summary.notes)


def test_only_real_samples_show_which_channels_stand_out():
    assert not is_split(quantized(data="random"))
    known = quarkfast.calibrate(model(), samples())
    assert not is_split(quarkfast.quantize(model(), preset="U8S8", calibration=known))


@pytest.mark.parametrize("batch", [1, 5, 32])
def test_samples_that_can_be_read_once_give_the_same_bytes(batch):
    once = ({"x": part} for part in np.split(samples(), 4))
    again = quantized(batch_size=batch)
    assert quantized(data=once, batch_size=batch).model_bytes == again.model_bytes
    assert "by 16 samples" in str(again.summary.notes)


def test_a_tensor_that_is_infinite_stays_whole():
    data = samples()
    data[3, 7] = np.inf
    assert not is_split(quantized(data=data))


def test_weights_in_another_form_keep_it():
    """A column of large weights, whose results Relu hides, leaves one scale too coarse for the others."""
    proto = model(HIDDEN)
    arrays = {each.name: onnx.numpy_helper.to_array(each).copy() for each in proto.graph.initializer}
    arrays["w"][:, 0] *= 1000
    arrays["bias"][0] = -1e6
    proto = tiny_model(HIDDEN, arrays, 17)
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=samples())
    assert is_split(result)
    scales = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    assert scales["w_scale"].shape == (WIDE,)
