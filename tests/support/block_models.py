"""Models of one block each: attention with all that stands around it, and layers in the bodies of an If."""

from __future__ import annotations

import numpy as np
import onnx

from support.tiny_models import tiny_model

_ATTENTION = """g (float[N, 6, 32] x, int64[N, 6] mask) => (float[N, 6, 32] y) {
    m = Cast <to = 1> (mask)
    i = Sub (one, m)
    far = Mul (i, low)
    wide = Unsqueeze (far, one_axis)
    q = MatMul (x, wq)
    qb = Add (q, bq)
    k = MatMul (x, wk)
    kt = Transpose <perm = [0, 2, 1]> (k)
    v = MatMul (x, wv)
    s = MatMul (qb, kt)
    d = Div (s, root)
    a = Add (d, wide)
    p = Softmax (a)
    c = MatMul (p, v)
    o = MatMul (c, wo)
    r = Add (o, x)
    n = LayerNormalization (r, gain, offset)
    u = MatMul (n, wu)
    ub = Add (u, bu)
    e0 = Div (ub, sqrt2)
    e1 = Erf (e0)
    e2 = Add (e1, one)
    e3 = Mul (ub, e2)
    e4 = Mul (e3, half)
    w = MatMul (e4, wd)
    z = Add (w, n)
    y = LayerNormalization (z, gain, offset)
}"""

_BRANCHES = """g (float[N, 8] x, float[N, 1] level) => (float[N, 8] y) {
    h = MatMul (x, w0)
    most = ReduceMax <keepdims = 0> (level)
    flag = Greater (most, zero)
    b = If (flag) <
        then_branch = one () => (float[N, 8] t) { t0 = MatMul (h, w1) t = Relu (t0) },
        else_branch = other () => (float[N, 8] t) { t = MatMul (h, w2) }
    >
    y = MatMul (b, w3)
}"""


def attention_block() -> onnx.ModelProto:
    """Returns a transformer's block over [N, 6, 32] and an int64 mask, as PyTorch's exporter spells it."""
    rng = np.random.default_rng(21)
    shapes = {"wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "wo": (32, 32), "wu": (32, 64), "wd": (64, 32)}
    arrays = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays |= {"bq": rng.normal(0, 0.3, 32).astype(np.float32), "bu": rng.normal(0, 0.3, 64).astype(np.float32)}
    arrays |= {"gain": rng.normal(1, 0.2, 32).astype(np.float32), "offset": rng.normal(0, 0.2, 32).astype(np.float32)}
    numbers = {"one": 1.0, "half": 0.5, "low": -1e4, "root": np.sqrt(32), "sqrt2": np.sqrt(2)}
    arrays |= {name: np.float32(value) for name, value in numbers.items()}
    return tiny_model(_ATTENTION, arrays | {"one_axis": np.int64([1])})


def branches() -> onnx.ModelProto:
    """Returns products in front of, within and behind an If, over [N, 8]."""
    rng = np.random.default_rng(22)
    arrays = {f"w{index}": rng.normal(0, 0.4, (8, 8)).astype(np.float32) for index in range(4)}
    return tiny_model(_BRANCHES, arrays | {"zero": np.float32(0)})
