"""Keys of Quark's that are honoured change the model that is written, each on a graph where it should."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.compat.quark.onnx import ModelQuantizer
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.keys import LIMITS
from support.quark_values import HONOURED
from support.tiny_models import tiny_model

# One of everything that a key has something to say about.
TEXT = """g (float[N, 4, 48, 32] x) => (
    float[N, 4, 48, 32] y, float[N, 512] z, float[N, 4, 1, 1] p, float[N, 4, 16, 16] f
) {
    c0 = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
    r0 = Relu (c0)
    c1 = Conv (r0, w1, b1)
    k1 = Clip (c1, low, six)
    c2 = Conv (k1, w1)
    l2 = LeakyRelu <alpha = 0.1> (c2)
    c3 = Conv (l2, w3)
    p3 = PRelu (c3, slope)
    c4 = Conv (p3, w3)
    g4 = Gelu (c4)
    i5 = InstanceNormalization (g4, gain, shift)
    r5 = Relu (i5)
    n6 = BatchNormalization (r5, gain, shift, mean, variance)
    s6 = Sigmoid (n6)
    h7 = HardSigmoid <alpha = 0.16666667> (n6)
    m7 = Mul (n6, h7)
    a7 = Add (m7, s6)
    k8 = Clip (a7, low, three)
    e8 = Exp (k8)
    m8 = Mul (e8, factor)
    c9 = Concat <axis = 1> (m8, r0)
    q9 = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c9)
    d9, f9 = Split <axis = 1> (q9, sizes)
    y = Add (d9, f9)
    j0 = Conv (f9, w5)
    j1 = BatchNormalization (j0, gain, shift, mean, variance)
    o0 = Conv <strides = [4, 4]> (j1, w1)
    p = GlobalAveragePool (f9)
    v1 = AveragePool <kernel_shape = [3, 3]> (o0)
    t1 = ReduceMean <keepdims = 1> (v1, plane)
    u1 = ReduceMean <keepdims = 1> (o0, one)
    f2 = Flatten (t1)
    u2 = ReduceMean <keepdims = 0> (u1, plane)
    v2 = Add (f2, u2)
    w2 = MatMul (v2, m0)
    f3 = Unsqueeze (w2, one)
    f4 = Transpose <perm = [0, 2, 1]> (f3)
    f5 = MatMul (f4, f3)
    f6 = ReduceMean <keepdims = 0> (f5, one)
    z = Gemm (f6, m1, b2)
    e0 = Conv <strides = [3, 2]> (x, w1)
    e1 = Sin (e0)
    e2 = Cos (e1)
    e3 = Transpose <perm = [0, 1, 3, 2]> (e2)
    e4 = MatMul (e2, e3)
    f = Sin (e4)
}"""


def numbers(*shape: int, size: float = 0.3, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, size, shape).astype(np.float32)


ARRAYS = {
    "w0": numbers(4, 4, 3, 3),
    "b0": numbers(4),
    "w1": numbers(4, 4, 1, 1),
    "b1": numbers(4),
    "w3": numbers(4, 4, 1, 1, size=1),
    "w5": numbers(4, 4, 1, 1, seed=9),
    "slope": np.full((4, 1, 1), 0.3, np.float32),
    "low": np.float32(0),
    "six": np.float32(6),
    "three": np.float32(3.3),
    "gain": np.linspace(0.5, 2, 4, dtype=np.float32),
    "shift": numbers(4),
    "mean": numbers(4),
    "variance": np.linspace(0.1, 3, 4, dtype=np.float32),
    "factor": np.float32([0.37]),
    "sizes": np.array([4, 4]),
    "one": np.array([1]),
    "plane": np.array([2, 3]),
    "m0": numbers(4, 8),
    "m1": np.random.default_rng(5).standard_t(3, (8, 512)).astype(np.float32),
    "b2": numbers(512),
}


def everything() -> onnx.ModelProto:
    return tiny_model(TEXT, ARRAYS, opset=20, ir_version=9)


# Values and neighbours that suit the graph, in place of those that suit a scheme.
SUITED = {
    "CLEScaleAppendBias": ("A8W8", True, {}),
    "CLEScaleUseThreshold": ("A8W8", False, {"CLEWeightThreshold": 2.0}),
    "CLETotalLayerDiffThreshold": ("A8W8", 0.5, {"CLESteps": -1}),
    "CLEWeightThreshold": ("A8W8", 2.0, {}),
    "ConvertOpsetVersion": ("A8W8", 21, {}),
    "ExtraOpTypesToQuantize": ("A8W8", ["Sin"], {}),
    "FastFinetune": ("XINT8", {"OptimAlgorithm": "descent"}, {}),
    "FixShapes": ("A8W8", "x:[1,4,48,32]", {}),
    "LWPMetric": ("A8W8", "mse", {"CalibrateMethod": "LayerWisePercentile"}),
    "NumQuantizedBins": ("A8W8", 64, {"CalibrateMethod": "Entropy"}),
    "PercentileCandidates": ("A8W8", [90.0], {"CalibrateMethod": "LayerWisePercentile"}),
    "Scenario": ("A8W8", "p3", {"CalibrateMethod": "Distribution"}),
    **{key: ("A8W8", ["relu_11"], {}) for key in ("InputNodes", "OutputNodes")},
    **{key: ("A8W8", ["conv_0"], {}) for key in ("NodesToExclude", "NodesToQuantize")},
    "NodesToExcludeOutputQuantization": ("A8W8", ["conv_40"], {}),
    "CalibDataSize": ("A8W8", 1, {}),
}


# Layers whose channels are far from equal, for keys of cross-layer equalization: some small, some with large biases.
UNEQUAL = """g (float[N, 4, 48, 32] x) => (float[N, 4, 48, 32] y) {
    c0 = Conv (x, w0, b0)
    r0 = Relu (c0)
    c1 = Conv <group = 4, pads = [1, 1, 1, 1]> (r0, w1)
    r1 = Relu (c1)
    y = Conv (r1, w2)
}"""

STEPS = np.float32(4.0) ** np.arange(-4, 0, dtype=np.float32)


def unequal() -> onnx.ModelProto:
    shapes = {"w0": (4, 4, 1, 1), "b0": (4,), "w1": (4, 1, 3, 3), "w2": (4, 4, 1, 1)}
    arrays = {name: numbers(*shape, size=1, seed=place) for place, (name, shape) in enumerate(shapes.items())}
    arrays["w0"] *= STEPS[:, None, None, None]
    arrays["w2"] *= STEPS[::-1][None, :, None, None]
    arrays["b0"] *= 9
    return tiny_model(UNEQUAL, arrays, opset=20, ir_version=9)


def half() -> onnx.ModelProto:
    text = "g (float16[N, 4, 48, 32] x) => (float16[N, 4, 48, 32] y) { c = Conv (x, w1) y = Relu (c) }"
    return tiny_model(text, {"w1": ARRAYS["w1"].astype(np.float16)}, opset=20, ir_version=9)


# Graphs for keys that say nothing about the one of everything.
GRAPHS = {"FastFinetune": unequal, "UseFP32Scale": half}


def written(preset, model=everything, **options) -> bytes:
    """What is computed: the graph and its operator sets, without the metadata."""
    config = get_default_config(preset)
    config.extra_options |= options
    dtype = np.float16 if model is half else np.float32
    feed = [{"x": each[None].astype(dtype)} for each in numbers(6, 4, 48, 32, size=1.5, seed=7)]
    proto = ModelQuantizer(Config(config)).quantize_model(model(), None, feed)
    del proto.metadata_props[:]
    return proto.SerializeToString()


# Limits of shifts, which need ranges far apart: tests/targets/test_switches.py turns each on and off.
OF_SHIFTS = {row.name for row in LIMITS if row.name.startswith("Adjust")}


@pytest.mark.parametrize("key", sorted(set(HONOURED) - OF_SHIFTS))
def test_a_value_that_is_honoured_changes_the_model(key):
    preset, value, beside = SUITED.get(key, HONOURED[key])
    # A tensor's precision is a list and a switch, neither of which may stand alone.
    without = {} if {key, *beside} & {"MixedPrecisionTensor"} else beside
    model = unequal if key.startswith("CLE") else GRAPHS.get(key, everything)
    assert (written(preset, model, **beside, **{key: value}) == written(preset, model, **without)) is False
