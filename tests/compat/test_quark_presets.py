"""Every preset name of Quark's on a model with everything: the result loads, and keeps the rules of its target."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.legacy import LEGACY_NAMES
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

TEXT = """g (float[N, 4, 12, 12] x) => (float[N, 5] z, float[N, 8, 12, 12] y) {
    c0 = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
    r0 = Relu (c0)
    c1 = Conv <group = 4, pads = [1, 1, 1, 1]> (r0, w1, b1)
    k1 = Clip (c1, low, six)
    n1 = BatchNormalization (k1, gain, b1, gain, gain)
    h1 = HardSigmoid <alpha = 0.16666667> (n1)
    m1 = Mul (n1, h1)
    a1 = Add (m1, r0)
    y = Concat <axis = 1> (a1, r0)
    s0, s1 = Split <axis = 1> (y, sizes)
    p = GlobalAveragePool (s0)
    f = Flatten (p)
    d = MatMul (f, v0)
    z = Gemm (d, v1, b2)
}"""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).normal(0, 0.3, shape).astype(np.float32)


ARRAYS = {
    "w0": numbers(4, 4, 3, 3),
    "b0": numbers(4),
    "w1": numbers(4, 1, 3, 3),
    "b1": numbers(4),
    "low": np.float32(0),
    "six": np.float32(6),
    "gain": np.linspace(0.5, 2, 4, dtype=np.float32),
    "sizes": np.array([4, 4]),
    "v0": numbers(4, 16),
    "v1": numbers(16, 5),
    "b2": numbers(5),
}


def written(name: str) -> tuple[onnx.ModelProto, str]:
    quantizer = quarkfast.ModelQuantizer(Config(get_default_config(name)))
    samples = [{"x": each[None]} for each in numbers(4, 4, 12, 12)]
    proto = quantizer.quantize_model(tiny_model(TEXT, ARRAYS, opset=17), None, samples)
    assert proto is not None
    return proto, quantizer.scheme.target


@pytest.mark.parametrize("name", LEGACY_NAMES)
def test_a_preset_keeps_the_rules_of_its_target(name):
    proto, target = written(name)
    assert quarkfast.check_model(proto, target).errors == ()
    x = numbers(2, 4, 12, 12)
    found = exact_session(proto.SerializeToString()).run(None, {"x": x})
    assert all(np.isfinite(each).all() for each in found)
