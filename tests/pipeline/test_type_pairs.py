"""What onnxruntime's graph optimizations make of every pair of types: the same as its operators one by one.

Each pair is tried on one of two models, so that each type of activations and of weights is on both.
"""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.formats import activation_formats, find, weight_formats
from quarkfast.formats.scalar import SCALAR_FORMATS
from support.agreement import agrees, losses
from support.covering import in_pairs
from support.tiny_models import samples, tiny_model

RUNTIME = tuple(map(int, ort.runtime_version().split(".")[:2]))
# Types of blocks take no part in what integers and floats are optimized into: three stand for all.
BLOCKS = ("bfp16", "mx9", "mxint8")
ACTIVATIONS = [name for name in activation_formats() if name in SCALAR_FORMATS or name in BLOCKS]
WEIGHTS = [name for name in weight_formats() if name in SCALAR_FORMATS or name in BLOCKS]
SCALED_WEIGHTS = [name for name in WEIGHTS if find(name).needs_scale]
# Beside a scale for each channel: types of each of the operators that quantize, two of integers of 8 and 16 bits.
SOME = ("int8", "uint8", "int16", "uint16", "bfloat16", "float8_e4m3fn")
_RNG = np.random.default_rng(5)


def _normal(*shape, scale=0.3):
    return (_RNG.standard_normal(shape) * scale).astype(np.float32)


# Every layer with a weight, with a bias that its codes have no room for beside the products of narrow scales, without
# one, and in front of the activations that the optimizer moves into QuantizeLinear.
MODELS = {
    "convolutions": (
        """g (float[N, 4, 8, 8] x) => (float[N, 6, 20, 20] y) {
            a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
            r = Relu(a)
            b = Conv<pads = [1, 1, 1, 1]>(r, w2, b2)
            c = Clip(b, low, high)
            d = Conv(c, w3)
            e = ConvTranspose<strides = [2, 2]>(d, w4, b4)
            f = Relu(e)
            h = ConvTranspose(f, w5)
            i = LeakyRelu<alpha = 0.1>(h)
            y = ConvTranspose(i, w6, b6)
        }""",
        {
            "w1": _normal(8, 4, 3, 3), "b1": _normal(8, scale=12), "w2": _normal(8, 8, 3, 3, scale=0.03),
            "b2": _normal(8, scale=1), "low": np.float32(0), "high": np.float32(6), "w3": _normal(8, 8, 1, 1),
            "w4": _normal(8, 8, 2, 2), "b4": _normal(8, scale=9), "w5": _normal(8, 6, 3, 3), "w6": _normal(6, 6, 3, 3),
            "b6": _normal(6, scale=90),
        },
        (4, 8, 8),
    ),
    "products": (
        """g (float[N, 32] x) => (float[N, 4, 8] y) {
            a = Gemm(x, w1, b1)
            r = Relu(a)
            b = Gemm<transB = 1>(r, w2, b2)
            c = Clip(b, low, high)
            d = Gemm(c, w3)
            m = MatMul(d, w4)
            e = Add(m, b4)
            s = Reshape(e, shape)
            n = MatMul(s, w5)
            f = Add(b5, n)
            t = Tanh(f)
            y = MatMul(t, w6)
        }""",
        {
            "w1": _normal(32, 24), "b1": _normal(24, scale=9), "w2": _normal(16, 24, scale=0.03),
            "b2": _normal(16, scale=1), "low": np.float32(0), "high": np.float32(6), "w3": _normal(16, 16),
            "w4": _normal(16, 32, scale=0.1), "b4": _normal(32, scale=9), "shape": np.int64([0, 4, 8]),
            "w5": _normal(8, 16, scale=0.05), "b5": _normal(16, scale=1), "w6": _normal(16, 8),
        },
        (32,),
    ),
}  # fmt: skip


def _compare(name, activation, weight, **options):
    if RUNTIME < (1, 20) and {"int4", "uint4"} & {activation, weight}:
        pytest.skip(f"onnxruntime {ort.runtime_version()} has no tensors of 4 bits")
    text, arrays, shape = MODELS[name]
    model, feed = tiny_model(text, arrays), {"x": samples(8, shape)}
    options |= {"preset": "A8W8", "activation_type": activation, "weight_type": weight}
    result = quarkfast.quantize(model, calibration_data=feed, **options)
    if any("onnxruntime before 1.27 refuses" in note for note in result.summary.notes) and RUNTIME < (1, 27):
        result = quarkfast.quantize(model, calibration_data=feed, weight_symmetric=True, **options)
    found = losses(result, feed, ort.run(ort.inference_session(model.SerializeToString()), feed))
    return agrees(result, found), found


@pytest.mark.parametrize(("activation", "weight", "name"), in_pairs(ACTIVATIONS, WEIGHTS, list(MODELS)))
def test_a_default_session_computes_what_a_pair_of_types_means(name, activation, weight):
    agree, found = _compare(name, activation, weight)
    assert agree, found


@pytest.mark.parametrize(("activation", "weight", "name"), in_pairs(SOME, SCALED_WEIGHTS, list(MODELS)))
def test_a_default_session_computes_what_a_scale_for_each_channel_means(name, activation, weight):
    agree, found = _compare(name, activation, weight, per_channel=True)
    assert agree, found
