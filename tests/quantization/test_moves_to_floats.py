"""What moves numbers from float nodes, or inputs of the model, on to float nodes alone stays float, forced or not."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

STATE = 8
# A speaker encoder: two recurrent layers on a spectrogram, the first of which begins at a state that is expanded.
TEXT = """g (float[N, 9, 8] x) => (float[N, 8] y) {
    turned = Transpose <perm = [1, 0, 2]> (x)
    count = Shape <start = 0, end = 1> (x)
    size = Concat <axis = 0> (one, count, one)
    state = Expand (zero, size)
    all = LSTM <hidden_size = 8> (turned, w, r, , , state)
    squeezed = Squeeze (all, second)
    every, last = LSTM <hidden_size = 8> (squeezed, v, r)
    flat = Squeeze (last, first)
    y = MatMul (flat, m)
}"""
FORCED = ["A8W8", "A16W8", "XINT8", "BF16", "FP16"]
MOVED = {"x", "turned", "all", "squeezed"}
ROUNDED = {"state", "last", "flat", "y"}  # codes of a constant take fewer bytes


def _model(text=TEXT):
    rng = np.random.default_rng(4)
    arrays = {
        "w": rng.standard_normal((1, 4 * STATE, 8)) / _bands(),
        "v": rng.standard_normal((1, 4 * STATE, 8)),
        "r": 0.1 * rng.standard_normal((1, 4 * STATE, STATE)),
        "m": rng.standard_normal((8, 8)),
        "zero": np.zeros((1, 1, 8)),
    }
    axes = {"one": np.array([1]), "first": np.array([0]), "second": np.array([1])}
    constants = {name: array.astype(np.float32) for name, array in arrays.items()} | axes
    return tiny_model(text, {name: array for name, array in constants.items() if name in text})


def _bands():
    """Returns what bands of a spectrum have: each a third of the one below it."""
    return 3.0 ** -np.arange(8)


def _rounded(text=TEXT, preset="A8W8", **options):
    return set(quarkfast.plan(_model(text), preset=preset, **options).activations)


@pytest.mark.parametrize("preset", FORCED)
def test_moves_from_an_input_and_between_recurrent_layers_are_float(preset):
    assert _rounded(preset=preset) == ROUNDED


def test_quiet_bands_are_not_lost(rng):
    """One scale for all bands leaves the quietest, a two thousandth of the loudest, no code at all."""
    model, data = _model(), {"x": (rng.standard_normal((64, 9, 8)) * _bands()).astype(np.float32)}
    result = quarkfast.quantize(model, preset="A8W8", calibration_data=data)
    expected, got = run_exact(model, data)[0], run_exact(result.model_bytes, data)[0]
    # The last state, the weight and the output have scales: numbers below 5 deviations in 127 codes each.
    most = 3 * (5 / 127) ** 2 / 12
    assert np.square(got - expected).sum() < most * np.square(expected).sum()


@pytest.mark.parametrize(
    ("line", "output", "rounded"),
    [
        ("", "float[9, N, 8] squeezed", {"all", "squeezed"}),
        ("more = MatMul (squeezed, m)", "float[9, N, 8] more", {"all", "squeezed", "more"}),
        ("more = MatMul (x, m)", "float[N, 9, 8] more", {"x", "more"}),
    ],
    ids=["an output", "a product behind", "a product beside"],
)
def test_what_codes_are_computed_from_is_quantized(line, output, rounded):
    text = TEXT.replace("flat = ", f"{line} flat = ").replace(" y) {", f" y, {output}) {{")
    assert _rounded(text) == rounded | ROUNDED


def test_arithmetic_in_front_is_quantized():
    relu = TEXT.replace("Transpose <perm = [1, 0, 2]> (x)", "Relu (x)")
    assert _rounded(relu) == {"x", "turned"} | ROUNDED


def test_the_user_may_want_them_quantized():
    wanted = {"x", "turned"} | ROUNDED
    assert _rounded(extra_op_types=["Transpose"]) == wanted
    assert _rounded(tensors={"turned": {"dtype": "int16"}}) == wanted
    assert _rounded(strict=True) == MOVED | wanted
