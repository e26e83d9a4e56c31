"""quarkfast::QuantizeDequantizeLinear: the bits of a QuantizeLinear and the DequantizeLinear behind it."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import float_bits
from quarkfast import ort, reference
from quarkfast.errors import ModelError

from .models import ONNX_TYPES, Array, one_node, run, session
from .test_linear_operators import along

TYPES = ("uint8", "int8", "uint16", "int16")
NAME = "QuantizeDequantizeLinear"


def ort_pair(x: Array, scale: Array, zero_point: Array) -> Array:
    """What onnxruntime's own two operators make of x, each run as it stands."""
    kind = ONNX_TYPES[zero_point.dtype.name]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero_point, "z")],
        value_info=[helper.make_tensor_value_info("q", kind, x.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.session_options(optimize=False)
    return np.asarray(ort.inference_session(model.SerializeToString(), options).run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, -1], ids=lambda axis: f"axis={axis}")
def test_it_equals_the_reference_of_both(rng: np.random.Generator, dtype: str, axis: int | None, isa: str) -> None:
    x = float_bits(rng, 3 * 5 * 7).reshape(3, 5, 7)
    size = () if axis is None else (x.shape[axis],)
    scale = rng.uniform(1e-3, 2, size).astype(np.float32)
    zero_point = rng.integers(0, 100, size).astype(dtype)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    y = run(NAME, x, scale, zero_point, domain="quarkfast", **attributes)
    s, z = along(scale, axis, x.ndim), along(zero_point, axis, x.ndim)
    q = reference.quantize_linear(x, s, z, dtype)
    assert y.tobytes() == reference.dequantize_linear(q, s, z).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_it_equals_onnxruntime_bit_for_bit(rng: np.random.Generator, dtype: str) -> None:
    limits = np.iinfo(dtype)
    for zero in (limits.min, 0, 3, limits.max):
        scale = np.float32(rng.uniform(1e-4, 1))
        halves = np.arange(-299.5, 300, dtype=np.float32) * scale
        specials = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45])
        x = np.concatenate([float_bits(rng, 4096), halves, specials])
        zero_point = np.array(zero, dtype)
        y = run(NAME, x, np.array(scale), zero_point, domain="quarkfast", constants=(1, 2))
        assert y.tobytes() == ort_pair(x, np.array(scale), zero_point).tobytes()


def test_large_tensors_are_the_same_on_one_thread_and_many(rng: np.random.Generator) -> None:
    x = rng.standard_normal((64, 64, 64)).astype(np.float32)
    scale, zero_point = np.array(0.01, np.float32), np.array(3, np.int8)
    results = {run(NAME, x, scale, zero_point, domain="quarkfast", threads=threads).tobytes() for threads in (1, 2, 5)}
    q = reference.quantize_linear(x, scale, zero_point, np.int8)
    assert results == {reference.dequantize_linear(q, scale, zero_point).tobytes()}


def test_an_input_that_others_read_is_not_written_over() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "quarkfast" : 1]>
    g (float[N] x, float[] s, int8[] z) => (float[N] y, float[N] error) {
        v = Abs (x)
        y = quarkfast.QuantizeDequantizeLinear (v, s, z)
        error = Sub (v, y)
    }"""
    opened = ort.inference_session(onnx.parser.parse_model(text).SerializeToString())
    feed = {"x": np.float32([0.3, -1.2]), "s": np.array(0.5, np.float32), "z": np.array(0, np.int8)}
    y, error = opened.run(None, feed)
    assert y.tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(error, np.abs(feed["x"]) - y)


def test_a_scale_that_is_no_scale_is_rejected_with_the_session() -> None:
    inputs = [np.zeros(3, np.float32), np.array(0, np.float32), np.array(0, np.int8)]
    with pytest.raises(ModelError, match=rf"quarkfast\.{NAME} 'node': scale: expected finite values greater than 0"):
        session(one_node(NAME, inputs, domain="quarkfast", constants=(1, 2)))
