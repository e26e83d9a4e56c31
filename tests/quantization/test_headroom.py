"""Activations of 16 bits have a bit to spare, which ranges use for what samples do not show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

TEXT = """g (float[N, 1, 4, 4] x) => (float[N, 2, 4, 4] y) {
    a = Conv(x, w)
    s = Sigmoid(a)
    y = Conv(s, v)
}"""
CONSTANTS = {
    "w": np.float32([1.0, -0.5]).reshape(2, 1, 1, 1),
    "v": np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1),
}
RNG = np.random.default_rng(7)
SAMPLES = RNG.laplace(0, 1, (8, 1, 4, 4)).astype(np.float32)
OTHERS = RNG.laplace(0, 1, (512, 1, 4, 4)).astype(np.float32)
NOTE = "activations of 16 bits have ranges twice as wide as what samples showed"


def _quantize(preset="A16W8", **options):
    options = {"calibration_data": {"x": SAMPLES}, **options}
    return quarkfast.quantize(tiny_model(TEXT, CONSTANTS), preset=preset, **options)


def _scales(result):
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    return {
        node.input[0].removesuffix("_QuantizeLinear_Input"): float(constants[node.input[1]])
        for node in result.proto.graph.node
        if node.op_type == "QuantizeLinear" and constants[node.input[1]].ndim == 0
    }


def _told(result):
    return [note for note in result.summary.notes if NOTE in note]


def test_steps_are_twice_as_large():
    wide, kept = _quantize(), _quantize(strict=True)
    ratios = {name: scale / _scales(kept)[name] for name, scale in _scales(wide).items()}
    assert _scales(wide)["s"] == pytest.approx(1 / 32767)  # a Sigmoid's result has the whole range
    assert {name: ratios[name] for name in "xay"} == pytest.approx({"x": 2, "a": 2, "y": 2}, rel=1e-6)
    assert len(_told(wide)) == 1
    assert not _told(kept)


def test_others_that_exceed_the_samples_do_not_saturate():
    model = tiny_model(TEXT.replace("Sigmoid", "Relu"), CONSTANTS)
    ratios = []
    for strict in (False, True):
        result = quarkfast.quantize(model, preset="A16W8", calibration_data={"x": SAMPLES}, strict=strict)
        sessions = exact_session(model.SerializeToString()), exact_session(result.model_bytes)
        ratios.append(sqnr(*(session.run(None, {"x": OTHERS})[0] for session in sessions)))
    assert ratios[0] > ratios[1] + 6


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_eight_bits_keep_the_range(preset):
    assert not _told(_quantize(preset))


def test_powers_of_two_keep_the_range():
    scheme = quarkfast.PRESETS["A16W8"]
    powers = replace(scheme, activation=replace(scheme.activation, scale="power_of_two"))
    assert not _told(_quantize(powers))


def test_one_tensor_of_16_bits_is_named_as_one():
    result = _quantize("A8W8", tensors={"a": {"dtype": "int16"}})
    (note,) = (each for each in result.summary.notes if "of 16 bits" in each)
    assert note.startswith("1 activation of 16 bits has a range twice as wide as what samples showed")


def test_ranges_of_the_user_stay():
    given = _quantize(tensors={"a": {"range": [-3.0, 3.0]}})
    assert _scales(given)["a"] == pytest.approx(3 / 32767, rel=1e-4)
