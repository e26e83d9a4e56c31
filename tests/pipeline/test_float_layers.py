"""Layers whose weights 8 bits cannot carry stay float where activations are quantized as they come."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import tiny_model

# Each row of the first weight has one number that is a thousand times as large as the others, for a channel of a
# thousandth: a scale for each row leaves the others no code. The other weights are 20 times as many.
TEXT = """g (float[N, 8] x) => (float[N, 16] y) {
    scaled = Mul (x, loudness)
    first = MatMul (scaled, narrow)
    second = MatMul (first, large)
    y = MatMul (second, small)
}"""
RECURRENT = """g (float[5, N, 8] x) => (float[N, 16] y) {
    scaled = Mul (x, loudness)
    all, state = LSTM <hidden_size = 8> (scaled, w, r)
    flat = Squeeze (state, axis)
    second = MatMul (flat, large)
    y = MatMul (second, small)
}"""

BIASED = """g (float[N, 8] x) => (float[N, 16] y) {
    first = Gemm (x, narrow, bias)
    second = MatMul (first, large)
    y = MatMul (second, small)
}"""


def _model(text=TEXT, **changed):
    rng = np.random.default_rng(11)
    arrays = {
        "loudness": 1 / _loudness(),
        "narrow": rng.standard_normal((8, 8)) * _loudness()[:, None],
        "large": rng.standard_normal((8, 256)),
        "small": rng.standard_normal((256, 16)) / 16,
        "w": rng.standard_normal((1, 32, 8)) * _loudness(),
        "r": 0.1 * rng.standard_normal((1, 32, 8)),
    }
    floats = {name: np.asarray(array, np.float32) for name, array in (arrays | changed).items()}
    constants = floats | {"axis": np.array([0])}
    read = {word.strip("(),") for word in text.split()}
    return tiny_model(text, {name: array for name, array in constants.items() if name in read})


def _loudness():
    return np.array([1000.0, *[1.0] * 7])


WIDER = np.random.default_rng(1).standard_normal((8, 16)) * _loudness()[:, None]


def _samples(rng, text=TEXT):
    shape = (5, 24, 8) if text is RECURRENT else (24, 8)
    return {"x": rng.standard_normal(shape).astype(np.float32)}


def _quantized(rng, model, text=TEXT, **options):
    given = {"calibration_data": _samples(rng, text), "equalize": False} | options
    return quarkfast.quantize(model, preset="DYNAMIC", **given)


def _layers(made):
    graph = onnx.load_from_string(made.model_bytes).graph
    return [node.op_type for node in graph.node if node.op_type in {"Gemm", "LSTM", "MatMul", "MatMulInteger"}]


def _notes(made):
    return [note for note in made.summary.notes if note.startswith("weights:")]


def test_the_first_layer_is_float_and_the_outputs_gain(rng):
    model, data = _model(), _samples(rng)
    made, strict = (_quantized(rng, model, strict=strict) for strict in (False, True))
    assert _layers(made) == ["MatMul", "MatMulInteger", "MatMulInteger"]
    assert _layers(strict) == ["MatMulInteger"] * 3
    expected = run_exact(model, data)[0]
    before, after = (sqnr(expected, run_exact(each.model_bytes, data)[0]) for each in (strict, made))
    # Rows and activations of two layers: numbers below 4 deviations in 127 codes each.
    assert before < 10 < -10 * np.log10(4 * (4 / 127) ** 2 / 12) <= after


def test_the_note_and_the_reason_say_so(rng):
    made = _quantized(rng, _model())
    (note,) = _notes(made)
    assert "of 3, 1 ('narrow'; 1 % of their bytes) has 32 bits" in note
    (left,) = (each for each in made.summary.left_float if each.op_type == "MatMul")
    assert left.reason == "8 bits of its weight take too much from the outputs"


def test_both_weights_of_an_lstm_are_float(rng):
    made = _quantized(rng, _model(RECURRENT), RECURRENT)
    assert _layers(made) == ["LSTM", "MatMulInteger", "MatMulInteger"]
    assert "of 4, 2 ('w', 'r'; 8 % of their bytes) have 32 bits" in _notes(made)[0]


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({}, {"calibration_data": None}),
        ({"narrow": WIDER, "large": np.ones((16, 8)), "small": np.ones((8, 16))}, {}),
        ({"narrow": WIDER[:, :8] / _loudness()[:, None], "loudness": np.ones(8)}, {}),
    ],
    ids=["nothing tells", "a third of the bytes", "8 bits carry them"],
)
def test_others_are_quantized(rng, changed, options):
    made = _quantized(rng, _model(**changed), **options)
    assert "MatMul" not in _layers(made)
    assert not _notes(made)


def test_what_bias_correction_makes_up_for_is_quantized(rng):
    """Of channels with a large mean the codes of weights take more than all else, and that is a mean."""
    centred = rng.standard_normal((8, 8))
    centred -= centred.mean(axis=0)
    model = _model(BIASED, narrow=centred, bias=np.zeros(8))
    data = {"x": (50 + rng.standard_normal((24, 8))).astype(np.float32)}
    made, uncorrected = (_quantized(rng, model, calibration_data=data, bias_correction=on) for on in (True, False))
    assert "Gemm" not in _layers(made)
    assert "Gemm" in _layers(uncorrected)
