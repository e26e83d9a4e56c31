"""Requantization gives the bytes of the reference, and those of onnxruntime's QLinearConv."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import quarkfast
from conftest import SIZES
from quarkfast import reference

DTYPES = ("int8", "uint8")
ROUNDINGS = ("half_up", "half_even")
LIMITS = np.int32([0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1])


def sums(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return 32-bit sums of every magnitude, with halves of powers of two and the limits among them."""
    x = rng.integers(-(2**31), 2**31, n) >> rng.integers(0, 31, n)
    tie = rng.random(n) < 0.3
    x[tie] = (x[tie] | 1) << rng.integers(0, 12, int(tie.sum()))
    end = rng.random(n) < 0.1
    x[end] = rng.choice(LIMITS, int(end.sum()))
    return np.clip(x, -(2**31), 2**31 - 1).astype(np.int32)


def zero_points(rng: np.random.Generator, dtype: str, shape: object = ()) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_by_a_scale_equal_the_reference(isa, rng, dtype):
    for n in SIZES:
        x, zero = sums(rng, n), zero_points(rng, dtype)
        for scale in np.float32([1.0, 0.5, 0.00123, 1e-30, 3e38]):
            got = quarkfast.requantize_linear(x, scale, zero, dtype=dtype)
            np.testing.assert_array_equal(got, reference.requantize_linear(x, scale, zero, dtype))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_by_each_shift_equal_the_reference(isa, rng, dtype, rounding):
    for shift in range(32):
        for n in (*SIZES[:10], 1003):
            x, zero = sums(rng, n), zero_points(rng, dtype)
            got = quarkfast.requantize_shift(x, shift, zero, dtype=dtype, rounding=rounding)
            np.testing.assert_array_equal(got, reference.requantize_shift(x, shift, zero, dtype, rounding))


@pytest.mark.parametrize("shape", [(4, 5), (3, 16, 64), (2, 7, 9, 9), (1000, 3), (3, 20000)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_axis_equals_the_reference(isa, rng, dtype, shape):
    x = sums(rng, int(np.prod(shape))).reshape(shape)
    for axis in range(-1, len(shape)):
        n = shape[axis]
        scale, zero = np.exp2(rng.uniform(-20, 2, n)).astype(np.float32), zero_points(rng, dtype, n)
        shift = rng.integers(0, 32, n)
        each, zeros, shifts = (reference.per_element(v, shape, axis) for v in (scale, zero, shift))
        got = quarkfast.requantize_linear(x, scale, zero, dtype=dtype, axis=axis)
        np.testing.assert_array_equal(got, reference.requantize_linear(x, each, zeros, dtype))
        for rounding in ROUNDINGS:
            got = quarkfast.requantize_shift(x, shift, zero, dtype=dtype, axis=axis, rounding=rounding)
            np.testing.assert_array_equal(got, reference.requantize_shift(x, shifts, zeros, dtype, rounding))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_byte(isa, rng, dtype, rounding):
    x = sums(rng, 300_000)
    before = quarkfast.num_threads()
    try:
        for threads in (1, 2, 3):
            quarkfast.set_num_threads(threads)
            got = quarkfast.requantize_shift(x, 9, dtype=dtype, rounding=rounding)
            np.testing.assert_array_equal(got, reference.requantize_shift(x, 9, 0, dtype, rounding))
            got = quarkfast.requantize_linear(x, 0.01, dtype=dtype)
            np.testing.assert_array_equal(got, reference.requantize_linear(x, np.float32(0.01), 0, dtype))
    finally:
        quarkfast.set_num_threads(before)


def test_halves_go_where_the_rounding_says(isa):
    x = np.int32([-40, -24, -8, 8, 24, 40])
    assert quarkfast.requantize_shift(x, 4).tolist() == [-2, -1, 0, 1, 2, 3]
    assert quarkfast.requantize_shift(x, 4, rounding="half_even").tolist() == [-2, -2, 0, 0, 2, 2]


def test_a_shift_to_even_is_a_scale_of_a_power_of_two_below_2_to_the_24(isa, rng):
    x = np.clip(sums(rng, 5000), -(2**24), 2**24)
    for shift in range(32):
        expected = quarkfast.requantize_linear(x, 2.0**-shift)
        np.testing.assert_array_equal(quarkfast.requantize_shift(x, shift, rounding="half_even"), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_onnxruntime_requantizes_the_sums_of_a_convolution_alike(rng, dtype):
    # All products are zero, so the sum of an output channel is its bias, and any 32-bit number can be one.
    channels = 4096
    bias = sums(rng, channels)
    zero = zero_points(rng, dtype)
    x_scale, w_scale, y_scale = np.float32(0.02), np.float32(0.0005), np.float32(0.75)
    constants = {
        "x": np.zeros((1, 1, 1, 1), dtype),
        "xs": x_scale,
        "xz": np.zeros((), dtype),
        "w": np.zeros((channels, 1, 1, 1), np.int8),
        "ws": w_scale,
        "wz": np.zeros((), np.int8),
        "ys": y_scale,
        "yz": zero,
        "b": bias,
    }
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", list(constants), ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (1, channels, 1, 1))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert model.graph.initializer[-1].data_type == TensorProto.INT32
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ours = quarkfast.requantize_linear(bias, x_scale * w_scale / y_scale, zero, dtype=dtype)
    np.testing.assert_array_equal(ours, session.run(None, {})[0].reshape(-1))


X = np.zeros((2, 3), np.int32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: quarkfast.requantize_linear(X, 1.0, dtype="int4"),
            TypeError,
            "dtype: expected int8 or uint8, got int4",
        ),
        (lambda: quarkfast.requantize_linear(X.astype(float), 1.0), TypeError, "x: expected dtype int32, got float64"),
        (lambda: quarkfast.requantize_linear(X, 0.0), ValueError, "scale: expected finite values > 0, got 0.0"),
        (lambda: quarkfast.requantize_linear(X, [1.0, 2.0]), ValueError, r"scale: expected shape \(3,\), got \(2,\)"),
        (lambda: quarkfast.requantize_linear(X, 1.0, qmax=300), ValueError, "range: expected -128 <= qmin <= qmax"),
        (lambda: quarkfast.requantize_shift(X, 32), ValueError, r"shift: expected values in \[0, 31\], got \[32, 32\]"),
        (lambda: quarkfast.requantize_shift(X, -1), ValueError, r"got \[-1, -1\]"),
        (lambda: quarkfast.requantize_shift(X, 1, rounding=np.ones(2)), ValueError, "or 'half_even', got array"),
        (lambda: quarkfast.requantize_shift(X, 1.5), TypeError, "shift: expected integers, got dtype float64"),
        (lambda: quarkfast.requantize_shift(X, [1, 2]), ValueError, r"shift: expected shape \(3,\), got \(2,\)"),
        (
            lambda: quarkfast.requantize_shift(X, [1, 2, 3], 5),
            ValueError,
            r"zero_point: expected shape \(3,\) as of shift",
        ),
        (lambda: quarkfast.requantize_shift(X, 1, rounding="up"), ValueError, "expected 'half_up' or .* got 'up'"),
    ],
)
def test_bad_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
