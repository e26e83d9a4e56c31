"""Linear quantization to 16-bit floats equals the reference on every instruction set, type, layout and size."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from conftest import SIZES, float_bits
from quarkfast import kernels, reference

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
X = np.zeros((2, 3), np.float32)


def bits(x: Any) -> Any:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def same(got: Any, told: Any) -> None:
    """Compare bytes, but let any NaN stand for another: which payload a sum of two keeps is the processor's choice."""
    assert got.dtype == told.dtype
    nan = np.isnan(told)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(bits(got)[~nan], bits(told)[~nan])


@pytest.mark.parametrize("zero", [0.0, -0.0, 1.5, -300.0])
@pytest.mark.parametrize("scale", [1.0, 0.37, 2.0**-100, 1e30])
@pytest.mark.parametrize("name", DTYPES)
def test_per_tensor_equals_the_reference(isa, rng, name, scale, zero):
    zero_point = np.asarray(zero).astype(DTYPES[name])
    x = float_bits(rng, 4099)
    codes = kernels.quantize_float(x, scale, zero_point, dtype=name)
    same(codes, reference.quantize_float(x, scale, zero_point))
    every = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[name])
    same(kernels.dequantize_float(every, scale, zero_point), reference.dequantize_float(every, scale, zero_point))


@pytest.mark.parametrize("name", DTYPES)
def test_every_size_writes_its_own_bytes_only(isa, rng, name):
    for n in SIZES:
        x = float_bits(rng, n)
        buffer = np.full(n + 8, 0x5A5A, np.uint16)
        out = buffer[3 : 3 + n].view(DTYPES[name])
        kernels.quantize_float(x, 0.5, dtype=DTYPES[name], out=out)
        same(out, reference.quantize_float(x, 0.5, np.zeros((), DTYPES[name])))
        assert (buffer[:3] == 0x5A5A).all()
        assert (buffer[3 + n :] == 0x5A5A).all()


@pytest.mark.parametrize(("axis", "block"), [(0, 0), (1, 0), (-1, 0), (1, 3), (0, 2)])
@pytest.mark.parametrize("name", DTYPES)
def test_channels_and_blocks_equal_the_reference(isa, rng, name, axis, block):
    x = rng.standard_normal((5, 7, 3)).astype(np.float32)
    shape = list(x.shape)
    shape[axis] = -(-shape[axis] // block) if block else shape[axis]
    scale = rng.uniform(0.1, 2, shape if block else shape[axis]).astype(np.float32)
    zero = rng.standard_normal(scale.shape).astype(DTYPES[name])
    each = [reference.per_element(values, x.shape, axis, block) for values in (scale, zero)]
    codes = kernels.quantize_float(x, scale, zero, dtype=DTYPES[name], axis=axis, block_size=block)
    same(codes, reference.quantize_float(x, *each))
    back = kernels.dequantize_float(codes, scale, zero, axis=axis, block_size=block)
    same(back, reference.dequantize_float(codes, *each))


def test_half_precision_saturates_and_keeps_the_sign_of_zero_where_bfloat16_does_neither():
    x = np.float32([np.inf, -1e30, -0.0, np.nan])
    half = kernels.quantize_float(x, 1.0)
    assert half.tolist()[:2] == [65504.0, -65504.0]
    assert np.signbit(half[2])
    brain = kernels.quantize_float(x, 1.0, dtype=ml_dtypes.bfloat16)
    assert brain[0] == np.inf
    assert not np.signbit(brain[2])
    assert np.isnan(half[3])
    assert np.isnan(brain[3])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: kernels.quantize_float(X, 1.0, dtype="int8"),
            TypeError,
            "quantize_float: dtype: expected float16 or bfloat16, got int8",
        ),
        (lambda: kernels.quantize_float(X.astype("f8"), 1.0), TypeError, "x: expected dtype float32, got float64"),
        (lambda: kernels.dequantize_float(X, 1.0), TypeError, "x: expected dtype float16 or bfloat16, got float32"),
        (lambda: kernels.quantize_float(X, 0.0), ValueError, "scale: expected finite values > 0, got 0.0"),
        (lambda: kernels.quantize_float(X, [1, 2]), ValueError, r"scale: expected shape \(3,\), got \(2,\)"),
        (lambda: kernels.quantize_float(X, 1.0, 3), TypeError, "zero_point: expected dtype float16, got int64"),
        (
            lambda: kernels.quantize_float(X, 1.0, np.zeros(3, np.float16)),
            ValueError,
            r"zero_point: expected shape \(\) as of scale, got \(3,\)",
        ),
        (
            lambda: kernels.quantize_float(X, 1.0, np.float16(np.inf)),
            ValueError,
            "zero_point: expected finite values, got inf",
        ),
        (lambda: kernels.quantize_float(X, 1.0, axis="1"), TypeError, "axis: expected an integer, got '1'"),
        (lambda: kernels.quantize_float(X, 1.0, out=X), TypeError, "out: expected an array of dtype float16"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
