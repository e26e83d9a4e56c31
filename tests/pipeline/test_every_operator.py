"""Every operator that a placement table has a rule for, by itself, in every kind of preset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from processors import run_exact
from quarkfast.qdq import TARGETS
from tiny_models import samples, tiny_model

PRESETS = ("A8W8", "U8S8", "XINT8", "A16W8", "DYNAMIC", "BF16", "BFP16", "MX9", "MXINT8")
_RNG = np.random.default_rng(9)


def _normal(*shape):
    return _RNG.normal(0, 0.5, shape).astype(np.float32)


# Operator -> expression of x [N, 4, 8, 8] and, where it says so, z [N, 32] or i (int64 [N, 3]); constants by name.
OPERATORS = {
    "Add": ("Add(x, c)", {"c": _normal(1, 4, 1, 1)}),
    "AveragePool": ("AveragePool<kernel_shape = [2, 2]>(x)", {}),
    "Clip": ("Clip(x, low, high)", {"low": np.float32(-1), "high": np.float32(1)}),
    "Concat": ("Concat<axis = 1>(x, x)", {}),
    "Conv": ("Conv(x, w, b)", {"w": _normal(6, 4, 3, 3), "b": _normal(6)}),
    "ConvTranspose": ("ConvTranspose<group = 2>(x, w, b)", {"w": _normal(4, 3, 2, 2), "b": _normal(6)}),
    "DepthToSpace": ("DepthToSpace<blocksize = 2>(x)", {}),
    "Div": ("Div(x, c)", {"c": np.abs(_normal(1, 4, 1, 1)) + 0.5}),
    "Erf": ("Erf(x)", {}),
    "Expand": ("Expand(x, shape)", {"shape": np.int64([1, 4, 8, 8])}),
    "Flatten": ("Flatten(x)", {}),
    "Gather": ("Gather<axis = 1>(x, at)", {"at": np.int64([2, 0])}),
    "Gelu": ("Gelu(x)", {}),
    "Gemm": ("Gemm(z, w, b)", {"w": _normal(32, 5), "b": _normal(5)}),
    "GlobalAveragePool": ("GlobalAveragePool(x)", {}),
    "HardSigmoid": ("HardSigmoid(x)", {}),
    "HardSwish": ("HardSwish(x)", {}),
    "InstanceNormalization": ("InstanceNormalization(x, s, b)", {"s": _normal(4) + 1, "b": _normal(4)}),
    "LayerNormalization": ("LayerNormalization(x, s, b)", {"s": _normal(8) + 1, "b": _normal(8)}),
    "LeakyRelu": ("LeakyRelu(x)", {}),
    "LpNormalization": ("LpNormalization<axis = 1>(x)", {}),
    "MatMul": ("MatMul(x, w)", {"w": _normal(8, 6)}),
    "Max": ("Max(x, c)", {"c": _normal(1, 4, 1, 1)}),
    "MaxPool": ("MaxPool<kernel_shape = [2, 2]>(x)", {}),
    "Min": ("Min(x, c)", {"c": _normal(1, 4, 1, 1)}),
    "Mul": ("Mul(x, c)", {"c": _normal(1, 4, 1, 1)}),
    "PRelu": ("PRelu(x, c)", {"c": _normal(4, 1, 1)}),
    "Pad": ("Pad(x, pads)", {"pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1])}),
    "ReduceMean": ("ReduceMean<keepdims = 1>(x, axes)", {"axes": np.int64([2, 3])}),
    "Relu": ("Relu(x)", {}),
    "Reshape": ("Reshape(x, shape)", {"shape": np.int64([0, 4, 64])}),
    "Resize": ('Resize<mode = "linear">(x, , scales)', {"scales": np.float32([1, 1, 2, 2])}),
    "Sigmoid": ("Sigmoid(x)", {}),
    "Slice": ("Slice(x, from, to)", {"from": np.int64([0, 1]), "to": np.int64([9, 3])}),
    "Softmax": ("Softmax(x)", {}),
    "SpaceToDepth": ("SpaceToDepth<blocksize = 2>(x)", {}),
    "Split": ("Split<axis = 1>(x, parts)", {"parts": np.int64([2, 2])}),
    "Squeeze": ("Squeeze(one, axes)", {"axes": np.int64([2])}),
    "Sub": ("Sub(x, c)", {"c": _normal(1, 4, 1, 1)}),
    "Tanh": ("Tanh(x)", {}),
    "Tile": ("Tile(x, times)", {"times": np.int64([1, 1, 2, 1])}),
    "Transpose": ("Transpose<perm = [0, 2, 3, 1]>(x)", {}),
    "Unsqueeze": ("Unsqueeze(x, axes)", {"axes": np.int64([1])}),
    "Where": ("Where(condition, x, c)", {"condition": np.array([True, False] * 4), "c": np.float32(0.5)}),
}


def _model(op_type):
    expression, arrays = OPERATORS[op_type]
    outputs = "y, rest" if op_type == "Split" else "y"
    inputs = "float[N, 4, 8, 8] x"
    if "z" in expression.split("(")[1].split(","):
        inputs = "float[N, 32] z"
    if "one" in expression:
        inputs = "float[N, 4, 1, 8, 8] one"
    proto = tiny_model(f"g ({inputs}) => (float[N] y) {{ {outputs} = {expression} }}", arrays, opset=20)
    proto.ir_version = 9
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def test_every_operator_of_the_standard_with_a_rule_is_here():
    standard = {name for target in TARGETS.values() for name in target.rules if "::" not in name}
    assert standard == set(OPERATORS)


# Left float on purpose: with 8 bits and in blocks a normalization, and by dynamic quantization a Gather of no constant.
FLOAT = {(preset, "LayerNormalization") for preset in ("A8W8", "XINT8", "BFP16")} | {
    (preset, "Gather") for preset in ("DYNAMIC", "MX9", "MXINT8")
}
CASES = [
    (op_type, preset)
    for op_type in OPERATORS
    for preset in PRESETS
    if op_type in TARGETS[quarkfast.PRESETS[preset].target].rules and (preset, op_type) not in FLOAT
]


@pytest.mark.parametrize(("op_type", "preset"), CASES, ids=lambda each: each)
def test_an_operator_by_itself_is_quantized_and_stays_close(op_type, preset):
    proto = _model(op_type)
    (wanted,) = proto.graph.input
    shape = tuple(size.dim_value for size in wanted.type.tensor_type.shape.dim[1:])
    feed = {wanted.name: samples(16, shape)}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed], force_pass_through=True)
    onnx.checker.check_model(result.proto)
    expected, got = (run_exact(m, feed, ["y"])[0] for m in (proto, result.model_bytes))
    assert result.summary.quantized == {op_type: 1}
    noise = np.square(expected.astype(np.float64) - got).sum()
    sqnr = 10 * np.log10(np.square(expected, dtype=np.float64).sum() / noise) if noise else np.inf
    # 8 bits give 48 dB for a full-scale uniform signal; normal values use a third of the range (-10 dB), powers of two
    # up to half of that (-6 dB), both ends are rounded (-3 dB), a mean of 64 values is small beside them (-6 dB).
    assert sqnr > 22
