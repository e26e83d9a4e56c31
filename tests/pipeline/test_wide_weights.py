"""Weights that 8 bits cannot carry have 16 where weights alone are stored and samples tell."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.quantization.weight_only import cast_values
from support.processors import run_exact
from support.tiny_models import tiny_model

# What the first layer reads has one channel of a thousandth, with weights a thousand times as large as the others: a
# scale for each row leaves these no code. The second layer has 32 times as many weights.
TEXT = """g (float[N, 8] x) => (float[N, 16] y) {
    first = Gemm (x, narrow, bias)
    positive = Relu (first)
    second = MatMul (positive, large)
    y = MatMul (second, small)
}"""
# The same in front of the gates of a recurrent layer, which has both of its weights stored.
RECURRENT = """g (float[5, N, 8] x) => (float[5, 1, N, 32] y) {
    y = LSTM <hidden_size = 32> (x, w, r)
}"""


def _model(text=TEXT, **changed):
    rng = np.random.default_rng(11)
    arrays = {
        "narrow": rng.standard_normal((8, 8)) * _loudness()[:, None],
        "bias": rng.standard_normal(8),
        "large": rng.standard_normal((8, 256)),
        "small": rng.standard_normal((256, 16)) / 16,
        "w": rng.standard_normal((1, 128, 8)) * _loudness(),
        "r": 0.1 * rng.standard_normal((1, 128, 32)),
    }
    floats = {name: np.asarray(array, np.float32) for name, array in (arrays | changed).items()}
    return tiny_model(text, {name: array for name, array in floats.items() if re.search(rf"\b{name}\b", text)})


def _loudness():
    return np.array([1000.0, *[1.0] * 7])


def _samples(rng, count=24, text=TEXT):
    rows = rng.standard_normal((count, 8)) / _loudness()
    if text is RECURRENT:
        rows = rng.standard_normal((5, count, 8)) / _loudness()
    return {"x": rows.astype(np.float32)}


def _ratio(model, made, rng, text=TEXT):
    data = _samples(rng, text=text)
    return sqnr(run_exact(model, data)[0], run_exact(made, data)[0])


def _types(made):
    proto = onnx.load_from_string(made.model_bytes)
    return {each.name: numpy_helper.to_array(each).dtype for each in proto.graph.initializer}


def _stored(rng, strict):
    made = quarkfast.quantize(_model(), preset="INT8_WO", calibration_data=_samples(rng), strict=strict)
    return onnx.load_from_string(made.model_bytes)


def _notes(made):
    return [note for note in made.summary.notes if note.startswith("weights:")]


def test_outputs_have_the_decibels_that_other_weights_leave(rng):
    model = _model()
    made = quarkfast.quantize(model, preset="INT8_WO", calibration_data=_samples(rng))
    strict = quarkfast.quantize(model, preset="INT8_WO", calibration_data=_samples(rng), strict=True)
    # Rows of numbers below 4 deviations in 127 codes each, in two layers behind the first.
    least = -10 * np.log10(2 * (4 / 127) ** 2 / 12)
    assert _ratio(model, strict.model_bytes, rng) < 15 < least <= _ratio(model, made.model_bytes, rng)


def test_the_weight_has_sixteen_bits_and_the_note_names_it(rng):
    made = quarkfast.quantize(_model(), preset="INT8_WO", calibration_data=_samples(rng))
    types = _types(made)
    assert types["narrow_float16"] == np.float16
    assert {types["large_quantized"], types["small_quantized"]} == {np.dtype(np.int8)}
    (note,) = _notes(made)
    assert "of 3, 1 ('narrow'; 1 % of their bytes) has 16 bits" in note
    assert "strict=True" in note
    assert made.summary.weights == 2  # that have codes


def test_its_bias_is_what_it_was(rng):
    """That of codes would be moved."""
    original, made, strict = (
        {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}["bias"]
        for model in (_model(), *(_stored(rng, strict) for strict in (False, True)))
    )
    np.testing.assert_array_equal(made, original)
    assert (strict != original).all()


def test_biases_that_stay_do_not_keep_it_from_that(rng):
    made = quarkfast.quantize(_model(), preset="INT8_WO", calibration_data=_samples(rng), bias_correction=False)
    assert _types(made)["narrow_float16"] == np.float16


def test_both_weights_of_a_recurrent_layer_are_looked_at_by_themselves(rng):
    model = _model(RECURRENT)
    made = quarkfast.quantize(model, preset="INT8_WO", calibration_data=_samples(rng, text=RECURRENT))
    types = _types(made)
    assert types["r_quantized"] == np.int8
    assert types["w_float16"] == np.float16


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"strict": True}, "the preset is kept as its name says"),
        ({"calibration_data": None}, "nothing tells"),
        ({"weight_type": "int4"}, "4 bits are asked for"),
    ],
)
def test_others_keep_what_was_asked_for(rng, options, why):
    given = {"calibration_data": _samples(rng), "per_channel": True} | options
    made = quarkfast.quantize(_model(), preset="INT8_WO", **given)
    assert np.float16 not in _types(made).values(), why
    assert not _notes(made)


def test_weights_that_8_bits_carry_keep_them(rng):
    model = _model(narrow=np.random.default_rng(3).standard_normal((8, 8)))
    made = quarkfast.quantize(model, preset="INT8_WO", calibration_data={"x": rng.standard_normal((24, 8), np.float32)})
    assert np.float16 not in _types(made).values()
    assert not _notes(made)


def test_codes_are_chosen_for_the_others(rng):
    made = quarkfast.quantize(_model(), preset="INT8_WO", calibration_data=_samples(rng), rounding="gptq")
    assert _types(made)["narrow_float16"] == np.float16
    assert _ratio(_model(), made.model_bytes, rng) > 25


def test_judged_as_they_are_stored():
    """Numbers beyond float16 become the largest one, as in the file."""
    values = np.float32([1e6, -1e6, 1 / 3, 65519.0, 1e-8])
    np.testing.assert_array_equal(
        cast_values(values, "float16"), np.float32([65504, -65504, np.float16(1 / 3), 65504, 0])
    )


def test_samples_that_do_not_run_leave_a_note(rng):
    """A model that ONNX Runtime does not take is stored all the same."""
    model = _model()
    model.graph.node.append(onnx.helper.make_node("Unknown", ["second"], ["z"], domain="some.domain", name="unknown"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    model.opset_import.append(onnx.helper.make_opsetid("some.domain", 1))
    made = quarkfast.quantize(model, preset="INT8_WO", calibration_data=_samples(rng))
    assert any(note.startswith("samples were not run to judge weights") for note in made.summary.notes)
    assert _types(made)["narrow_quantized"] == np.int8


def test_many_weights_are_not_read_to_be_tried(rng):
    """Two forms of them would be in memory, of a model that is larger than memory perhaps."""
    few = {"tried_bytes": 4 * 8 * 256}
    made = quarkfast.quantize(_model(), preset="INT8_WO", calibration_data=_samples(rng), policy=few)
    assert np.float16 not in _types(made).values()
