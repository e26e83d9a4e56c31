"""MXFP4 and NVFP4 in parts: the bytes of the reference, those of the records, and wrong arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import float_bits
from quarkfast import reference


def values(rng: np.random.Generator, blocks: int, size: int) -> Any:
    """Blocks of random bits, and of ordinary values at any exponent."""
    with np.errstate(over="ignore"):
        plain = (rng.standard_normal((blocks, size)) * 10.0 ** rng.integers(-44, 37, (blocks, 1))).astype(np.float32)
    return np.concatenate([float_bits(rng, blocks * size).reshape(blocks, size), plain])


def same_bits(got: Any, told: Any) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), told.view(np.uint32))


@pytest.mark.parametrize("block", [16, 32])
def test_mxfp4_equals_the_reference_and_the_records(isa: str, rng: np.random.Generator, block: int) -> None:
    x = values(rng, 500, 3 * block)
    codes, scales = quarkfast.quantize_mxfp4(x, block_size=block)
    told, levels = reference.quantize_mxfp4(x, block)
    np.testing.assert_array_equal(codes, told)
    np.testing.assert_array_equal(scales.view(np.uint8), levels.view(np.uint8))
    records = quarkfast.quantize_mx(x, "fp4_e2m1", block_size=block)
    np.testing.assert_array_equal(records[..., 0], scales.view(np.uint8))
    np.testing.assert_array_equal(records[..., 1:].reshape(codes.shape), codes)


@pytest.mark.parametrize("block", [16, 32])
def test_mxfp4_reads_what_any_codes_and_scales_mean(isa: str, rng: np.random.Generator, block: int) -> None:
    codes = rng.integers(0, 256, (256, block), np.uint8)
    scales = rng.permuted(np.stack([np.arange(256, dtype=np.uint8)] * 2, 1), axis=0)
    y = quarkfast.dequantize_mxfp4(codes, scales, block_size=block)
    same_bits(y, reference.dequantize_mxfp4(codes, scales, block))
    same_bits(y, quarkfast.dequantize_mxfp4(codes, scales.view(ml_dtypes.float8_e8m0fnu), block_size=block))


@pytest.mark.parametrize("tensor_scale", [1.0, 1.17549435e-38, 0.0123, 3e5, 1e35])
def test_nvfp4_equals_the_reference(isa: str, rng: np.random.Generator, tensor_scale: float) -> None:
    x = values(rng, 500, 48)
    codes, scales, factor = quarkfast.quantize_nvfp4(x, tensor_scale=tensor_scale)
    told, levels = reference.quantize_nvfp4(x, tensor_scale)
    assert factor == np.float32(tensor_scale)
    np.testing.assert_array_equal(codes, told)
    np.testing.assert_array_equal(scales.view(np.uint8), levels.view(np.uint8))


def test_nvfp4_reads_what_any_codes_and_scales_mean(isa: str, rng: np.random.Generator) -> None:
    codes, scales = rng.integers(0, 256, (256, 16), np.uint8), rng.integers(0, 256, (256, 2), np.uint8)
    for factor in (1.0, 0.01, 1e35):
        y = quarkfast.dequantize_nvfp4(codes, scales, factor)
        same_bits(y, reference.dequantize_nvfp4(codes, scales, factor))
        same_bits(y, quarkfast.dequantize_nvfp4(codes, scales.view(ml_dtypes.float8_e4m3fn), factor))


def test_the_scale_of_a_tensor_in_nvfp4_lets_its_largest_value_fit(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 64)).astype(np.float32)
    x[2, 3], x[4, 60] = np.nan, 100
    codes, scales, factor = quarkfast.quantize_nvfp4(x)
    assert factor == np.float32(100) / np.float32(2688)
    assert scales[4, 3] == 448
    assert np.isnan(scales[2, 0])
    assert quarkfast.dequantize_nvfp4(codes, scales, factor)[4, 60] == pytest.approx(100, rel=2**-22)


def test_scales_of_nvfp4_are_never_zero() -> None:
    stored = quarkfast.quantize_nvfp4(np.zeros((2, 32), np.float32))
    assert stored.tensor_scale == np.finfo(np.float32).tiny
    assert (stored.scales.astype(np.float32) == 2**-9).all()
    assert not quarkfast.dequantize_nvfp4(*stored).any()
    small = quarkfast.quantize_nvfp4(np.float32([[6e-5] * 16]), tensor_scale=1.0)
    assert small.scales.astype(np.float32) == 2**-9


def test_sixteen_bit_floats_are_widened(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 64)).astype(np.float32)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = x.astype(dtype)
        for function in (quarkfast.quantize_mxfp4, quarkfast.quantize_nvfp4):
            for got, told in zip(function(narrow), function(narrow.astype(np.float32)), strict=True):
                assert np.asarray(got).tobytes() == np.asarray(told).tobytes()


def test_wrong_arguments_are_refused_with_a_sentence() -> None:
    x, codes, scales = np.zeros((2, 32), np.float32), np.zeros((2, 16), np.uint8), np.zeros((2, 1), np.uint8)
    with pytest.raises(ValueError, match="quantize_mxfp4_f32: block_size: expected 16 or 32, got 8"):
        quarkfast.quantize_mxfp4(x, block_size=8)
    with pytest.raises(ValueError, match="quantize_nvfp4_f32: x: expected rows of a multiple of 16 values, got shape"):
        quarkfast.quantize_nvfp4(x[:, :20])
    with pytest.raises(TypeError, match="dequantize_mxfp4_f32: codes: expected dtype uint8, got int8"):
        quarkfast.dequantize_mxfp4(codes.view(np.int8), scales)
    with pytest.raises(
        TypeError, match="dequantize_nvfp4_f32: scales: expected dtype float8_e4m3fn or uint8, got float32"
    ):
        quarkfast.dequantize_nvfp4(codes, np.zeros((2, 2), np.float32), 1.0)
    with pytest.raises(ValueError, match="dequantize_mxfp4_f32: scales: expected one for each 32 of rows of codes"):
        quarkfast.dequantize_mxfp4(codes, scales[:1])
    with pytest.raises(ValueError, match="tensor_scale: expected a real number, got 'a'"):
        quarkfast.quantize_nvfp4(x, tensor_scale="a")
    for wrong in (0.0, -1.0, np.nan, np.inf, 1e-40):
        with pytest.raises(ValueError, match="tensor_scale: expected a normal float32 greater than 0, got"):
            quarkfast.quantize_nvfp4(x, tensor_scale=wrong)
