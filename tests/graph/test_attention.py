"""Attention whose mask is computed in every way that exporters write it: it costs no accuracy, whatever the type."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate import sqnr
from support.tiny_models import tiny_model

INPUTS = "float[N, 2, 6, 8] q, float[N, 2, 8, 6] k, float[N, 2, 6, 8] v"
LOWEST = np.finfo(np.float32).min

# The second product's weights reach 1 and not 1/6, so that its codes are coarser; the values that weights average are
# fewer, so that their errors cancel less: 2 of 6 instead of 6, 10 log10(6 / 2) = 4.8 dB.
COST = 6.0

# How exporters write it: from `s`, the scores, and `m`, which is true where a position counts, to `t`.
MASKS = {
    "where zero or -inf": "b = Where(m, zero, inf) t = Add(s, b)",
    "where put in": "t = Where(m, s, inf)",
    "lowest put in": "t = Where(m, s, lowest)",
    "times the lowest": "f = Cast<to = 1>(m) i = Sub(one, f) b = Mul(i, lowest) t = Add(s, b)",
    "times -10000": "f = Cast<to = 1>(m) i = Sub(one, f) b = Mul(i, far) t = Add(s, b)",
    "from the other side": "f = Cast<to = 1>(m) i = Sub(f, one) b = Mul(i, large) t = Add(s, b)",
    "taken": "f = Cast<to = 1>(m) i = Sub(one, f) b = Mul(i, large) t = Sub(s, b)",
    "causal constant": "t = Add(s, causal)",
    "causal computed": "a = ConstantOfShape<value = float[1]{-inf}>(shape) b = Trilu<upper = 1>(a, up) t = Add(s, b)",
    "added to a causal one": "b = Where(m, zero, inf) c = Add(b, causal) t = Add(s, c)",
    "beside a causal one": "b = Where(m, zero, far) r = Add(s, b) t = Add(r, causal)",
    "behind casts": "b = Where(m, zero, inf) d = Cast<to = 1>(b) e = Cast<to = 1>(s) r = Add(e, d) t = Cast<to = 1>(r)",
    "expanded": "b = Where(m, zero, inf) d = Expand(b, full) t = Add(s, d)",
    "reshaped": "b = Where(m, zero, inf) r = Add(s, b) t = Reshape(r, full)",
    "limited": "b = Where(m, zero, lowest) r = Add(s, b) t = Max(r, lowest)",
    "capped scores": "d = Div(s, four) h = Tanh(d) c = Mul(h, four) b = Where(m, zero, inf) t = Add(c, b)",
    "with a bias": "b = Where(m, zero, inf) c = Add(b, slopes) t = Add(s, c)",
}
# What remains of a way without its mask, where that is more than the scores themselves.
UNMASKED = {
    "capped scores": "d = Div(s, four) h = Tanh(d) t = Mul(h, four)",
    "with a bias": "t = Add(s, slopes)",
}
CONSTANTS = {
    "zero": np.float32(0),
    "one": np.float32(1),
    "four": np.float32(4),
    "far": np.float32(-1e4),
    "large": np.float32(1e4),
    "inf": np.float32(-np.inf),
    "lowest": LOWEST,
    "causal": np.triu(np.full((6, 6), -np.inf, np.float32), 1),
    "shape": np.array([6, 6], np.int64),
    "up": np.int64(1),
    "full": np.array([4, 2, 6, 6], np.int64),
    "slopes": np.linspace(-2, 2, 6, dtype=np.float32),
}


def _model(mask):
    text = f"""g ({INPUTS}, bool[N, 1, 1, 6] m) => (float[N, 2, 6, 8] y) {{
        s = MatMul(q, k) {mask} p = Softmax<axis = -1>(t) y = MatMul(p, v)
    }}"""
    return tiny_model(text, {name: array for name, array in CONSTANTS.items() if name in text}, opset=17)


@pytest.fixture
def feed(rng):
    shapes = {"q": (4, 2, 6, 8), "k": (4, 2, 8, 6), "v": (4, 2, 6, 8)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return arrays | {"m": (np.arange(6) < np.array([[6], [4], [3], [2]]))[:, None, None, :]}


def _run(data, feed):
    return ort.run(ort.inference_session(data, ort.session_options(optimize=False)), feed)


def _quality(proto, feed, preset):
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed])
    expected, got = _run(proto.SerializeToString(), feed)[0], _run(result.model_bytes, feed)[0]
    return sqnr(expected, got)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "FP16", "BF16", "BFP16", "MX6"])
def test_a_mask_costs_no_accuracy(mask, preset, feed):
    without = _quality(_model(UNMASKED.get(mask, "t = Identity(s)")), feed, preset)
    assert _quality(_model(MASKS[mask]), feed, preset) > without - COST


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8", "FP16"])
def test_a_mask_that_is_an_input_may_be_infinite(preset, feed):
    text = f"""g ({INPUTS}, float[N, 1, 1, 6] m) => (float[N, 2, 6, 8] y) {{
        s = MatMul(q, k) t = Add(s, m) p = Softmax<axis = -1>(t) y = MatMul(p, v)
    }}"""
    known = feed | {"m": np.where(feed["m"], 0, -np.inf).astype(np.float32)}
    without = _quality(_model("t = Identity(s)"), feed, preset)
    assert _quality(tiny_model(text), known, preset) > without - COST


GUARDED = f"""g ({INPUTS}, bool[N, 1, 6, 6] m) => (float[N, 2, 6, 8] y, float[N, 2, 6, 6] t) {{
    s = MatMul(q, k)
    b = Where(m, zero, inf)
    t = Add(s, b)
    p = Softmax<axis = -1>(t)
    l = ReduceMax<axes = [-1]>(b)
    e = Equal(l, inf)
    w = Where(e, zero, p)
    y = MatMul(w, v)
}}"""


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "FP16", "BF16", "BFP16"])
def test_rows_that_are_masked_as_a_whole_are_found_as_in_the_float_model(preset, feed):
    rows = np.ones((4, 1, 6, 6), bool)
    rows[1, :, 2] = rows[3, :, :4] = False
    rows[:, :, :, 5] = False
    proto, known = tiny_model(GUARDED, {name: CONSTANTS[name] for name in ("zero", "inf")}), feed | {"m": rows}
    expected, scores = _run(proto.SerializeToString(), known)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[known])
    got, found = _run(result.model_bytes, known)
    empty = ~rows.any(axis=-1)[:, 0]
    assert not expected.swapaxes(1, 2)[empty].any()
    assert not got.swapaxes(1, 2)[empty].any()
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(scores))
    assert sqnr(expected, got) > _quality(_model("t = Identity(s)"), feed, preset) - COST


def test_what_computes_a_mask_stays_float_and_says_why(feed):
    proto = _model(MASKS["added to a causal one"])
    result = quarkfast.quantize(proto, preset="A16W8", calibration_data=[feed])
    assert {(left.op_type, left.reason) for left in result.summary.left_float} == {
        ("Where", "it computes a mask for a Softmax"),
        ("Add", "it computes a mask for a Softmax"),
    }
    assert any(note.startswith("tensor 'c': values down to -inf mask a Softmax") for note in result.summary.notes)


def test_scores_that_nothing_masks_are_quantized_with_sixteen_bits(feed):
    text = f"""g ({INPUTS}) => (float[N, 2, 6, 8] y) {{
        s = MatMul(q, k) t = Add(s, slopes) p = Softmax(t) y = MatMul(p, v)
    }}"""
    proto = tiny_model(text, {"slopes": CONSTANTS["slopes"]})
    known = {name: feed[name] for name in ("q", "k", "v")}
    assert quarkfast.quantize(proto, preset="A16W8", calibration_data=[known]).summary.left_float == ()
