"""Arithmetic among constants is folded at any size, where results are no larger than what they are computed from."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.graph.access import array_of
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.processors import run_exact
from support.tiny_models import operators_of, tiny_model

CHANNELS, TAPS = 512, 600
PHASES, LENGTH = 256, 288
# A resampler writes out a windowed sinc: sin(t) / t, where t is not zero, times the square of a cosine.
SINC = """g (float[N, 1, 512] x) => (float[N, 256, M] y) {
    t = Mul (times, pi)
    narrow = Clip (t, least, most)
    angle = Div (narrow, width)
    curve = Cos (angle)
    window = Pow (curve, two)
    wave = Sin (narrow)
    ratio = Div (wave, narrow)
    middle = Equal (narrow, zero)
    sinc = Where (middle, one, ratio)
    kernel = Mul (sinc, window)
    y = Conv <strides = [16]> (x, kernel)
}"""
# Weight normalization.
NORMALIZED = """g (float[N, 600] x) => (float[N, 512] y) {
    weight = Mul (direction, length)
    y = MatMul (x, weight)
}"""
# An embedding that is scaled for the layer behind it.
TIED = """g (float[N, 512] x, int64[N] words) => (float[N, 600] y, float[N, 512] z) {
    z = Gather (direction, words)
    weight = Mul (direction, length)
    turned = Transpose <perm = [1, 0]> (weight)
    y = MatMul (x, turned)
}"""


def _constants(rng):
    times = (np.arange(LENGTH) - LENGTH // 2)[None, None] / 24 + (np.arange(PHASES) / PHASES)[:, None, None]
    numbers = {"pi": np.pi, "least": -18.0, "most": 18.0, "width": 12.0, "two": 2.0, "zero": 0.0, "one": 1.0}
    return {
        "times": times.astype(np.float32),
        "direction": rng.standard_normal((TAPS, CHANNELS)).astype(np.float32),
        "column": rng.standard_normal((TAPS, 1)).astype(np.float32),
        "length": np.exp(rng.standard_normal(CHANNELS)).astype(np.float32),
        **{name: np.float32(number) for name, number in numbers.items()},
    }


def _model(rng, text):
    words = {word.strip("(),") for word in text.split()}
    arrays = {name: array for name, array in _constants(rng).items() if name in words}
    assert min(PHASES * LENGTH, CHANNELS * TAPS) > 8192  # numbers that the optimizer computes with by itself
    assert CHANNELS * TAPS > 512 * 512  # and that it computes
    return tiny_model(text, arrays)


@pytest.mark.parametrize(("text", "layer"), [(SINC, "Conv"), (NORMALIZED, "MatMul")], ids=["sinc", "normalized"])
def test_a_weight_that_is_computed_is_a_constant(rng, text, layer):
    model = _model(rng, text)
    prepared = prepare(load_model(model), 17)
    assert operators_of(prepared) == [layer]
    assert np.isfinite(array_of(prepared.graph[0].inputs[1])).all()


def test_it_has_the_decibels_of_its_values(rng):
    model, x = _model(rng, SINC), {"x": rng.standard_normal((16, 1, 512)).astype(np.float32)}
    made = quarkfast.quantize(model, preset="A8W8", calibration_data=x)
    # The input, the weight and the output: numbers below 5 deviations in 127 codes each, and the weight's peak is below
    # ten times its deviation.
    least = -10 * np.log10((2 * 5**2 + 10**2) / 127**2 / 12)
    assert sqnr(run_exact(model, x)[0], run_exact(made.model_bytes, x)[0]) > least


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (TIED, ["Gather", "MatMul", "Mul", "Transpose"]),
        (NORMALIZED.replace("direction, length", "column, length"), ["MatMul", "Mul"]),
        (NORMALIZED.replace("length)", "scale)").replace("] x)", "] x, float[512] scale)"), ["MatMul", "Mul"]),
    ],
    ids=["read by a lookup", "larger", "no constant"],
)
def test_what_would_be_stored_twice_or_larger_is_not_folded(rng, text, left):
    assert sorted(operators_of(prepare(load_model(_model(rng, text)), 17))) == left


def test_a_norm_is_computed_too():
    text = NORMALIZED.replace(
        "weight = ", "norm = ReduceL2 <axes = [0]> (direction)  unit = Div (direction, norm)  weight = "
    )
    text = text.replace("Mul (direction", "Mul (unit")
    prepared = prepare(load_model(_model(np.random.default_rng(0), text)), 17)
    assert operators_of(prepared) == ["MatMul"]
    lengths = np.linalg.norm(array_of(prepared.graph[0].inputs[1]).astype(np.float64), axis=0)
    # A sum of squares in float32, and four roundings.
    np.testing.assert_allclose(lengths, _constants(np.random.default_rng(0))["length"], rtol=(TAPS + 4) * 2.0**-24)
