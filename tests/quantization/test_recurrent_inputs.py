"""What is joined in front of a recurrent layer stays float with activations of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

STATE = 8
# A word segmenter: an embedding beside what convolutions make of it, shifted and turned for an LSTM.
TEXT = """g (float[N, 4, 9] x) => (float[9, 1, N, 8] y) {
    large = Conv (x, kernel)
    both = Concat <axis = 1> (x, large)
    shifted = Add (both, shift)
    turned = Transpose <perm = [2, 0, 1]> (shifted)
    size = Shape (turned)
    y = LSTM <hidden_size = 8> (turned, w, r)
}"""
PRODUCT = """g (float[9, N, 8] x) => (float[9, 1, N, 8] y) {
    p = MatMul (x, m)
    a = Add (p, bias)
    y = LSTM <hidden_size = 8> (a, w, r)
}"""
JOINED = {"concat", "add", "transpose"}


def _model(text=TEXT):
    rng = np.random.default_rng(4)
    small_beside_large = np.array([1.0] * 4 + [0.01] * 4)
    arrays = {
        "kernel": 100 * rng.standard_normal((4, 4, 1)),
        "wide": rng.standard_normal((8, 4, 1)),
        "shift": rng.standard_normal((8, 1)),
        "w": rng.standard_normal((1, 4 * STATE, 8)) * small_beside_large,
        "r": 0.1 * rng.standard_normal((1, 4 * STATE, STATE)),
        "m": rng.standard_normal((8, 8)),
        "bias": rng.standard_normal(8),
    }
    return tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items() if name in text})


def _left(text, preset="A8W8", **options):
    return {name.rsplit("_", 1)[0] for name in quarkfast.plan(_model(text), preset=preset, **options).left_float}


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_what_is_small_beside_convolutions_is_not_lost(rng, preset):
    """One scale for both leaves the embedding, a hundredth of what convolutions give, a code or two."""
    model, data = _model(), {"x": rng.standard_normal((32, 4, 9)).astype(np.float32)}
    result = quarkfast.quantize(model, preset=preset, calibration_data=data)
    expected, got = run_exact(model, data)[0], run_exact(result.model_bytes, data)[0]
    # The input, its product and its weight have scales of their own: numbers below 5 deviations in 127 codes each, so a
    # noise of (5 / 127)^2 / 12 beside a power of one. Gates hand on no more than they get, to steps that fade by half
    # each: twice that.
    most = 2 * 3 * (5 / 127) ** 2 / 12
    assert np.square(got - expected).sum() < most * np.square(expected).sum()


def test_the_concat_the_shift_and_the_move_are_float():
    assert _left(TEXT) == {*JOINED, "lstm"}
    assert _left(TEXT, "A16W8") == {"lstm"}


def test_the_user_may_want_them_quantized():
    assert _left(TEXT, extra_op_types=["Add", "Concat", "Transpose"]) == {"lstm"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (TEXT.replace("8] y) {", "8] y, float[N, 8, 9] both) {"), {"add", "transpose", "lstm"}),
        (TEXT.replace("size = Shape (turned)", "z = Relu (shifted)").replace("8] y) {", "8] y, float[N, 8, 9] z) {"),
         {"lstm"}),
        (TEXT.replace("both = Concat <axis = 1> (x, large)", "shifted = Conv (x, wide)").replace(
            "shifted = Add (both, shift)", ""), {"lstm"}),
        (PRODUCT, {"lstm"}),
    ],
    ids=["output", "another reader", "a move alone", "a bias"],
)  # fmt: skip
def test_what_else_is_in_front_is_quantized(text, left):
    assert _left(text) == left
