"""A model for each operator that a placement table has a rule for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from support.tiny_models import tiny_model

_RNG = np.random.default_rng(9)


def _normal(*shape: int) -> NDArray[np.float32]:
    return _RNG.normal(0, 0.5, shape).astype(np.float32)


# Operator -> expression of x [N, 4, 8, 8] or, where it says so, z [N, 32], one [N, 4, 1, 8, 8] or line [T, 3, 8];
# constants by name. New rows come last, since all draw from one generator.
OPERATORS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
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
    "LSTM": (
        "LSTM<hidden_size = 5>(line, w, r, b)",
        {"w": _normal(1, 20, 8), "r": _normal(1, 20, 5), "b": _normal(1, 40)},
    ),
}


def operator_model(op_type: str) -> onnx.ModelProto:
    """Returns a model of one operator over ``x``, ``z``, ``one`` or ``line``, named ``y``."""
    expression, arrays = OPERATORS[op_type]
    outputs = "y, rest" if op_type == "Split" else "y"
    inputs = "float[N, 4, 8, 8] x"
    if "z" in expression.split("(")[1].split(","):
        inputs = "float[N, 32] z"
    if "one" in expression:
        inputs = "float[N, 4, 1, 8, 8] one"
    if "line" in expression.split("(")[1].split(","):
        inputs = "float[T, 3, 8] line"
    proto = tiny_model(f"g ({inputs}) => (float[N] y) {{ {outputs} = {expression} }}", arrays, opset=20)
    proto.ir_version = 9
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(proto, strict_mode=True)
