"""What divides and is computed stays float with activations of 8 bits: means over masks, norms."""

from __future__ import annotations

import numpy as np

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

TOKENS, WIDTH = 32, 16

# A sentence encoder's mean over the tokens of a mask, which a layer reads.
POOLING = """g (float[N, 32, 16] x, float[N, 32, 1] mask) => (float[N, 16] y) {
    h = MatMul(x, w)
    kept = Mul(h, mask)
    sums = ReduceSum<keepdims = 0>(kept, axis)
    count = ReduceSum<keepdims = 0>(mask, axis)
    some = Clip(count, least)
    wide = Expand(some, shape)
    mean = Div(sums, wide)
    y = MatMul(mean, w)
}"""
CONSTANTS = {
    "w": (np.random.default_rng(4).standard_normal((WIDTH, WIDTH)) / 4).astype(np.float32),
    "axis": np.int64([1]), "least": np.float32(1e-9), "shape": np.int64([1, WIDTH]), "four": np.float32(4),
}  # fmt: skip


def _model(text):
    return tiny_model(text, {name: array for name, array in CONSTANTS.items() if name in text}, 17)


def _texts(rng, lengths):
    x = rng.standard_normal((len(lengths), TOKENS, WIDTH)).astype(np.float32)
    mask = np.arange(TOKENS) < np.array(lengths)[:, None]
    return {"x": x, "mask": mask.astype(np.float32)[..., None]}


def _left_float(text, preset, **options):
    plan = quarkfast.plan(_model(text), preset=preset, **options)
    return {node.rsplit("_", 1)[0] for node in plan.left_float}


def test_means_hold_for_texts_longer_than_those_that_calibrate(rng):
    """A count with a range that ends at 8 makes the mean over 32 tokens four times as large."""
    model, longer = _model(POOLING), _texts(rng, [TOKENS] * 16)
    result = quarkfast.quantize(model, preset="A8W8", calibration_data=_texts(rng, [4, 5, 6, 7, 8] * 4))
    expected, got = run_exact(model, longer)[0], run_exact(result.model_bytes, longer)[0]
    # Means over 4 tokens, which reach to about 4 / sqrt(4) deviations of a token, give steps of 2 / 127 of it; over 32
    # tokens a mean has 1 / sqrt(32) of it. That is 32 dB for the mean, as much for the result, and more for the tokens.
    assert np.square(got - expected).sum() < 0.01 * np.square(expected).sum()


def test_the_division_and_what_leads_to_its_divisor_are_float():
    assert _left_float(POOLING, "A8W8") == {"reducesum", "clip", "expand", "div"}


def test_sixteen_bits_carry_a_divisor():
    assert _left_float(POOLING, "A16W8") == {"reducesum"}


def test_what_is_asked_for_is_quantized():
    assert _left_float(POOLING, "A8W8", extra_op_types=["Div", "Clip", "Expand"]) == {"reducesum"}


def test_divisions_by_constants_are_quantized():
    text = """g (float[N, 16] x) => (float[N, 16] y) {
        h = MatMul(x, w)
        y = Div(h, four)
    }"""
    assert _left_float(text, "A8W8") == set()


def test_a_layer_and_what_others_read_keep_their_pairs():
    text = """g (float[N, 16] x) => (float[N, 16] y, float[N, 16] z) {
        h = MatMul(x, w)
        some = Clip(h, least)
        z = Neg(some)
        y = Div(four, some)
    }"""
    left = _left_float(text, "A8W8")
    assert "div" in left
    assert not left & {"matmul", "clip"}
