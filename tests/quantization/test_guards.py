"""Rows that an attention mask hides as a whole give what they give in the float model, guarded or not."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

RNG = np.random.default_rng(11)
CONSTANTS = {f"w{name}": (RNG.standard_normal((16, 16)) / 4).astype(np.float32) for name in "qkv"} | {
    "zero": np.float32(0),
    "none": np.float32(-np.inf),
    "lowest": np.float32(np.finfo(np.float32).min),
    "far": np.float32(-1e9),
    "half": np.float32(0.5),
}
SCORES = """g (float[N, 6, 16] x, float[N, 6, 6] kept) => (float[N, 6, 16] y) {
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, t)
    seen = Greater(kept, half)
"""
ADDED = "mask = Where(seen, zero, none) m = Add(s, mask) "
PUT_IN = "m = Where(seen, s, none) "
HIDDEN_AS = {
    "IsNaN of the weights": ADDED + "p0 = Softmax(m) n = IsNaN(p0) p = Where(n, zero, p0) y = MatMul(p, v) }",
    "IsNaN of weights put in": PUT_IN + "p0 = Softmax(m) n = IsNaN(p0) p = Where(n, zero, p0) y = MatMul(p, v) }",
    "IsNaN of moved weights": (
        ADDED + "p1 = Softmax(m) p0 = Identity(p1) n = IsNaN(p0) p = Where(n, zero, p0) y = MatMul(p, v) }"
    ),
    "IsNaN of the product": ADDED + "p = Softmax(m) y0 = MatMul(p, v) n = IsNaN(y0) y = Where(n, zero, y0) }",
    "IsInf of the scores": (
        PUT_IN + "i = IsInf<detect_positive = 0>(m) f = Cast<to = 1>(i) a = ReduceMin<axes = [-1]>(f) "
        "all = Greater(a, half) p0 = Softmax(m) p = Where(all, zero, p0) y = MatMul(p, v) }"
    ),
    "Equal to -inf": (
        ADDED + "i = Equal(m, none) f = Cast<to = 1>(i) a = ReduceMin<axes = [-1]>(f) all = Greater(a, half) "
        "p0 = Softmax(m) p = Where(all, zero, p0) y = MatMul(p, v) }"
    ),
    "the lowest number put in": "m = Where(seen, s, lowest) p = Softmax(m) y = MatMul(p, v) }",
    "the lowest number added": "mask = Where(seen, zero, lowest) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }",
    "-1e9 added": "mask = Where(seen, zero, far) m = Add(s, mask) p = Softmax(m) y = MatMul(p, v) }",
    "products with what is kept": "e = Exp(s) h = Mul(e, kept) y = MatMul(h, v) }",
}  # fmt: skip


def _feed(rows=32):
    rng = np.random.default_rng(5)
    kept = np.ones((rows, 6, 6), np.float32)
    kept[:, :, 4:] = 0
    kept[rows // 2 :, 2] = 0  # a hidden row, which calibration has not seen
    return {"x": rng.standard_normal((rows, 6, 16)).astype(np.float32), "kept": kept}


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "U8S8", "BF16", "FP16", "A16W8", "BFP16", "MXINT8"])
@pytest.mark.parametrize("end", HIDDEN_AS.values(), ids=HIDDEN_AS)
def test_a_hidden_row_gives_what_it_gives_in_the_float_model(end, preset):
    text = SCORES + end
    proto = tiny_model(text, {name: value for name, value in CONSTANTS.items() if name in text})
    feed = _feed()
    seen = {name: array[:16] for name, array in feed.items()}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=seen)
    expected, got = (run_exact(model, feed)[0] for model in (proto.SerializeToString(), result.model_bytes))
    hidden = expected[16:, 2], got[16:, 2]
    # 1 / n of all values, which a row is where no guard finds it, is 0.4 of the largest output.
    assert np.abs(hidden[0] - hidden[1]).max() <= 0.1 * np.abs(expected).max()
