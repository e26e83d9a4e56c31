"""A small model of which 8 bits with one scale carry a tensor in the middle badly, and samples for it."""

from __future__ import annotations

import numpy as np
import onnx

from support.tiny_models import tiny_model

# The sum in the middle is small and has channels that differ by a factor of 200, which 8 bits with one scale cannot
# carry; the layer behind it gives each the same weight.
TEXT = """g (float[N, 32] x) => (float[N, 24] y) {
    a = Gemm (x, w1, b1)
    s = Sigmoid (a)
    m = Mul (s, factors)
    t = Tanh (x)
    p = Gemm (t, w3, b3)
    q = Add (m, p)
    y = Gemm (q, w2, b2)
}"""


def model() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    factors = np.float32([1, 200, 1, 200])
    weights = {
        "w1": rng.normal(0, 0.3, (32, 4)),
        "b1": rng.normal(0, 0.3, 4),
        "factors": factors,
        "w3": rng.normal(0, 0.1, (32, 4)),
        "b3": np.zeros(4),
        "w2": rng.normal(0, 1, (4, 24)) / factors[:, None],
        "b2": rng.normal(0, 0.3, 24),
    }
    return tiny_model(TEXT, {name: np.asarray(value, np.float32) for name, value in weights.items()})


def samples(count: int = 32, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (count, 32)).astype(np.float32)
