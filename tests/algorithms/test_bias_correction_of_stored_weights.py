"""Biases make up for what stored weights add to the mean of a layer's output, where samples are given."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import CalibrationError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

TEXT = """g (float[N, 4, 6, 6] x) => (float[N, 8] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (c)
    p = GlobalAveragePool (r)
    f = Flatten (p)
    m = MatMul (f, w2)
    a = Add (m, b2)
    s = Relu (a)
    y = Gemm (s, w3, b3)
}"""
SHAPES = {"w1": (16, 4, 3, 3), "b1": (16,), "w2": (16, 32), "b2": (32,), "w3": (32, 8), "b3": (8,)}

STORED = [
    ("INT8_WO", {"weight_type": "int4"}, ["b1", "b2", "b3"]),
    ("INT8_WO", {"per_channel": False}, ["b1", "b2", "b3"]),
    ("INT4_WO", {"group_size": 16}, ["b2", "b3"]),
    ("MATMUL_NBITS", {"group_size": 16, "weight_symmetric": False}, ["b2", "b3"]),
]


def _model() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    return tiny_model(TEXT, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _samples(count: int = 24, seed: int = 2) -> np.ndarray:
    """Inputs far from zero, as behind a Relu: errors of weights add up to a mean."""
    return np.random.default_rng(seed).normal(3.0, 1.0, (count, 4, 6, 6)).astype(np.float32)


def _constants(result: quarkfast.QuantizedModel) -> dict[str, bytes]:
    return _arrays(result.proto)


def _arrays(model: onnx.ModelProto) -> dict[str, bytes]:
    return {each.name: onnx.numpy_helper.to_array(each).tobytes() for each in model.graph.initializer}


def _quantized(preset: str, data: object = None, **options: object) -> quarkfast.QuantizedModel:
    return quarkfast.quantize(_model(), preset=preset, calibration_data=data, **options)


@pytest.mark.parametrize(("preset", "options", "moved"), STORED, ids=lambda each: str(each))
def test_outputs_on_other_samples_gain(preset, options, moved):
    feed = {"x": _samples(32, 5)}
    (expected,) = exact_session(_model()).run(None, feed)
    plain, corrected = (_quantized(preset, _samples(), bias_correction=on, **options) for on in (False, True))
    ratios = [sqnr(expected, exact_session(each.model_bytes).run(None, feed)[0]) for each in (plain, corrected)]
    assert ratios[1] > ratios[0]
    before, after = _constants(plain), _constants(corrected)
    assert sorted(name for name in before if before[name] != after[name]) == moved
    assert any(f"bias correction of {len(moved)} layers" in note for note in corrected.summary.notes)


@pytest.mark.parametrize("data", [None, "random"])
def test_without_real_samples_biases_stay(data):
    found = _constants(_quantized("INT8_WO", data))
    assert found == _constants(_quantized("INT8_WO", bias_correction=False))


def test_stored_floats_leave_biases_alone():
    assert _constants(_quantized("BF16_WO", _samples())) == _constants(_quantized("BF16_WO"))


def test_correction_that_brings_outputs_no_closer_is_left_out():
    data = _samples()
    data[[2, *range(9, 16)]] -= 6.0  # those that judge lie on the other side of zero
    assert _constants(_quantized("INT8_WO", data)) == _constants(_quantized("INT8_WO"))


@pytest.mark.parametrize("rounding", ["descent", "gptq"])
def test_weight_rounding_takes_the_biases_of_the_float_model(rounding):
    data = _samples(64)
    found = [
        _quantized("INT8_WO", data, weight_type="int4", rounding=rounding, bias_correction=on) for on in (False, True)
    ]
    assert all(any("chosen by their output" in note for note in each.summary.notes) for each in found)
    assert _constants(found[0]) == _constants(found[1])


def test_rounding_that_is_undone_leaves_corrected_biases(monkeypatch):
    monkeypatch.setattr("quarkfast.evaluate.noise.Gains.are_losses", lambda gains, policy: True)
    data = _samples(64)
    undone = _quantized("INT8_WO", data, weight_type="int4", rounding="descent")
    assert any("weight rounding was undone" in note for note in undone.summary.notes)
    assert _constants(undone) == _constants(_quantized("INT8_WO", data, weight_type="int4"))


def test_samples_of_another_shape_are_an_error():
    with pytest.raises(CalibrationError, match="x"):
        _quantized("INT8_WO", np.zeros((8, 3, 6, 6), np.float32))


@pytest.mark.parametrize("preset", ["INT8_WO", "DYNAMIC"])
def test_a_model_that_cannot_run_keeps_its_biases(preset):
    model = _model()
    model.graph.node[1].domain, model.graph.node[1].op_type = "of.others", "Rectifier"
    model.opset_import.append(onnx.helper.make_opsetid("of.others", 1))
    result = quarkfast.quantize(model, preset=preset, calibration_data=_samples())
    assert any(note.startswith("bias correction was left out: ") for note in result.summary.notes)
    assert all(_constants(result)[name] == _arrays(model)[name] for name in ("b1", "b3"))


@pytest.mark.parametrize("preset", ["INT8_WO", "DYNAMIC"])
def test_a_model_that_is_large_is_not_run(preset):
    result = quarkfast.quantize(_model(), preset=preset, calibration_data=_samples(), policy={"run_bytes": 1000})
    assert not any("bias correction" in note for note in result.summary.notes)
    assert all(_constants(result)[name] == _arrays(_model())[name] for name in ("b1", "b3"))


def test_the_model_that_was_given_stays():
    model = _model()
    before = model.SerializeToString()
    quarkfast.quantize(model, preset="INT8_WO", weight_type="int4", calibration_data=_samples())
    assert model.SerializeToString() == before
