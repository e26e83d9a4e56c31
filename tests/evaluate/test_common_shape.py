"""Outputs whose shapes depend on what they hold."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.evaluate.common_shape import in_one_shape
from quarkfast.evaluate.pair_trial import PairTrial
from support.judged import judged

# What is positive, and of steps of 1 the same: 0.4 is zero in them.
FLOAT = """<ir_version: 10, opset_import: ["": 17]>
g (float[N] x) => (float[M] y) <float zero = {0.0}> {
    z = Neg (x)
    m = Greater (z, zero)
    y = Compress <axis = 0> (z, m)
}"""
ROUNDED = """<ir_version: 10, opset_import: ["": 17]>
g (float[N] x) => (float[M] y) <float zero = {0.0}, float one = {1.0}, int8 point = {0}> {
    z = Neg (x)
    c = QuantizeLinear (z, one, point)
    d = DequantizeLinear (c, one, point)
    m = Greater (d, zero)
    y = Compress <axis = 0> (d, m)
}"""
FEED = {"x": np.float32([-3.0, -2.0, -0.4])}


@pytest.mark.parametrize(
    ("one", "other", "shape"),
    [
        ((2, 3), (2, 5), (2, 5)),
        ((0, 4), (2, 4), (2, 4)),
        ((2, 3), (2, 3), None),
        ((2, 3), (6,), None),
        ((2, 3), (3, 2), None),
        ((100_000, 1), (1, 100_000), None),
        ((2, 3), (1, 5), None),
    ],
)
def test_both_have_the_larger_of_one_dimension(one, other, shape):
    first, second = in_one_shape(np.ones(one), np.ones(other))
    assert (first.shape, second.shape) == ((shape, shape) if shape else (one, other))
    assert (first.sum(), second.sum()) == (np.prod(one), np.prod(other))


def test_what_a_model_leaves_out_is_noise():
    wanted, found = (onnx.parser.parse_model(text).SerializeToString() for text in (FLOAT, ROUNDED))
    ratio = 0.4**2 / (9 + 4 + 0.4**2)
    assert judged(wanted, [FEED], found).outputs == pytest.approx(-10 * np.log10(ratio), abs=1e-4)
    trial = PairTrial(found, wanted, [FEED])
    assert trial.noise(["z"]) == pytest.approx(ratio, rel=1e-4)
    trial.close()
