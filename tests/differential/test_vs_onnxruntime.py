"""Integer quantization gives the bits of onnxruntime's QuantizeLinear and DequantizeLinear on random bit patterns.

A run takes 2^16 values a case; ``-m exhaustive`` takes 2^24. Where several scales meet in one array, onnxruntime has
paths that convert the quotient to int32 before they saturate: NaN and quotients of 2^31 or more then give whatever the
processor gives (on x86 the lowest int32, so +inf becomes the lowest code). Such values are left out there.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import quarkfast
from conftest import float_bits
from quarkfast import reference
from quarkfast.formats.scalar import qtype

QUANTIZE = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
DEQUANTIZE = (*QUANTIZE, "int32")
INT32_LIMIT = 2.0**31 - 2.0**16  # a quotient plus any 16-bit zero point below 2^31
COUNTS = [1 << 16, pytest.param(1 << 24, marks=pytest.mark.exhaustive)]
FLOATS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}


def run(nodes: list, initializers: dict, x: np.ndarray | None, out: int, shape: tuple[int, ...]) -> np.ndarray:
    """Run a graph from x (absent where all inputs are constants) to y."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    inputs = [] if x is None else [helper.make_tensor_value_info("x", FLOATS[x.dtype], x.shape)]
    constants = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    outputs = [helper.make_tensor_value_info("y", out, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {} if x is None else {"x": x})[0]


def quantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, block: int) -> np.ndarray:
    """Return onnxruntime's codes in int32, a type that NumPy has for all of them."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis, block_size=block),
        helper.make_node("Cast", ["q"], ["y"], to=TensorProto.INT32),
    ]
    return run(nodes, {"s": scale, "z": zero}, x, TensorProto.INT32, x.shape)


def dequantized(q: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, block: int) -> np.ndarray:
    node = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis, block_size=block)
    return run([node], {"q": q, "s": scale, "z": zero}, None, FLOATS[scale.dtype], q.shape)


def codes(rng: np.random.Generator, dtype: str, shape: object = ()) -> np.ndarray:
    row = qtype(dtype)
    return np.asarray(rng.integers(row.qmin, row.qmax, shape, dtype=np.int64, endpoint=True)).astype(row.dtype)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", QUANTIZE)
def test_codes_per_tensor(rng, dtype, count):
    x = float_bits(rng, count)
    for scale in np.float32([1.0, 0.037]):
        zero = codes(rng, dtype)
        ours = quarkfast.quantize_linear(x, scale, zero, dtype=dtype)
        np.testing.assert_array_equal(ours.astype(np.int32), quantized(x, scale, zero, 0, 0))


@pytest.mark.parametrize("dtype", QUANTIZE)
def test_codes_and_values_of_a_float16_model(rng, dtype):
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    for scale in np.float16([1.0, 0.037, 6e-5, 300.0]):
        zero = codes(rng, dtype)
        ours = quarkfast.quantize_linear(x, scale, zero, dtype=dtype)
        # Here too it converts to int32 first, so what is not finite has no defined result.
        theirs = quantized(x, scale, zero, 0, 0)
        np.testing.assert_array_equal(ours.astype(np.int32)[np.isfinite(x)], theirs[np.isfinite(x)])
        back = quarkfast.dequantize_linear(ours, scale, zero, dtype=np.float16)
        np.testing.assert_array_equal(back.view(np.uint16), dequantized(ours, scale, zero, 0, 0).view(np.uint16))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", DEQUANTIZE)
def test_values_per_tensor(rng, dtype, count):
    q, scale = codes(rng, dtype, count), np.float32(0.0123)
    zero = np.zeros((), q.dtype) if dtype == "int32" else codes(rng, dtype)
    ours = quarkfast.dequantize_linear(q, scale, zero)
    np.testing.assert_array_equal(ours.view(np.uint32), dequantized(q, scale, zero, 0, 0).view(np.uint32))


@pytest.mark.parametrize(("axis", "block"), [(0, 0), (1, 0), (2, 0), (0, 16), (1, 32), (2, 16)])
@pytest.mark.parametrize("dtype", QUANTIZE)
def test_codes_and_values_per_channel_and_per_block(rng, dtype, axis, block):
    shape = (32, 70, 48)
    x = float_bits(rng, int(np.prod(shape))).reshape(shape)
    scales = tuple(-(-n // block) if i == axis else n for i, n in enumerate(shape)) if block else (shape[axis],)
    scale = rng.uniform(0.01, 0.2, scales).astype(np.float32)
    zero = codes(rng, dtype, scales)
    ours = quarkfast.quantize_linear(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
    with np.errstate(all="ignore"):
        defined = np.abs(x / reference.per_element(scale, shape, axis, block)) < INT32_LIMIT
    theirs = quantized(x, scale, zero, axis, block)
    np.testing.assert_array_equal(ours.astype(np.int32)[defined], theirs[defined])
    back = quarkfast.dequantize_linear(ours, scale, zero, axis=axis, block_size=block)
    np.testing.assert_array_equal(back.view(np.uint32), dequantized(ours, scale, zero, axis, block).view(np.uint32))
