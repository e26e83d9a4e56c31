"""Blocks of GGUF files: the bytes of the reference, and wrong arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import float_bits
from quarkfast import reference
from quarkfast.kernels.gguf import GGUF_TYPES


def values(rng: np.random.Generator, blocks: int, size: int) -> Any:
    """Blocks of random bits, of ordinary values at any exponent, and of few levels, whose quotients are ties."""
    bits = float_bits(rng, blocks * size).reshape(blocks, size)
    plain = rng.standard_normal((blocks, size)) * 10.0 ** rng.integers(-44, 37, (blocks, 1))
    ties = rng.integers(-9, 10, (blocks, size)) * 2.0 ** rng.integers(-20, 20, (blocks, 1))
    with np.errstate(over="ignore"):
        return np.concatenate([bits, plain.astype(np.float32), ties.astype(np.float32)])


def same(got: Any, told: Any) -> bool:
    """Whether floats have the same bits, all NaN counting as one."""
    return bool(np.array_equal(got, told, equal_nan=True) and (np.signbit(got) == np.signbit(told))[got == 0].all())


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_records_equal_the_reference_byte_for_byte(isa: str, rng: np.random.Generator, name: str) -> None:
    x = values(rng, 600, GGUF_TYPES[name].values)
    np.testing.assert_array_equal(quarkfast.quantize_gguf(x, name), reference.quantize_gguf(x, name))


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_any_record_is_read_as_the_reference_reads_it(isa: str, rng: np.random.Generator, name: str) -> None:
    records = rng.integers(0, 256, (3000, GGUF_TYPES[name].bytes), np.uint8)
    assert same(quarkfast.dequantize_gguf(records, name), reference.dequantize_gguf(records, name))


@pytest.mark.parametrize("name", GGUF_TYPES)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_block_that_is_not_finite_reads_as_nan_and_spares_its_neighbours(name: str, special: float) -> None:
    size = GGUF_TYPES[name].values
    x = np.ones((3, size), np.float32)
    x[1, 5] = special
    y = quarkfast.dequantize_gguf(quarkfast.quantize_gguf(x, name), name)
    assert np.isnan(y[1]).all()
    np.testing.assert_allclose(y[[0, 2]], 1, rtol=2**-9)  # float16 scales have 11 bits


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_sixteen_bit_floats_are_widened(rng: np.random.Generator, name: str) -> None:
    x = rng.standard_normal((3, 512)).astype(np.float32)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = x.astype(dtype)
        told = quarkfast.quantize_gguf(narrow.astype(np.float32), name)
        np.testing.assert_array_equal(quarkfast.quantize_gguf(narrow, name), told)


def test_shapes_keep_all_axes_but_the_last() -> None:
    records = quarkfast.quantize_gguf(np.zeros((2, 0, 3, 64), np.float32), "Q5_1")
    assert records.shape == (2, 0, 3, 48)
    assert quarkfast.dequantize_gguf(records, "Q5_1").shape == (2, 0, 3, 64)


def test_outputs_are_written_to(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 64)).astype(np.float32)
    records, y = np.empty((2, 68), np.uint8), np.empty((2, 64), np.float32)
    assert quarkfast.quantize_gguf(x, "Q8_0", out=records) is records
    assert quarkfast.dequantize_gguf(records, "Q8_0", out=y) is y


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"quantize_gguf: type: expected one of Q4_0, .*, got 'Q4_O'; did you mean"):
        quarkfast.quantize_gguf(np.zeros(32, np.float32), "Q4_O")


@pytest.mark.parametrize("shape", [(), (33,), (32, 1)])
def test_rows_that_are_no_whole_blocks_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="x: expected rows of a multiple of 32 values for Q4_0, got shape"):
        quarkfast.quantize_gguf(np.zeros(shape, np.float32), "Q4_0")
    with pytest.raises(ValueError, match="x: expected rows of a multiple of 18 bytes for Q4_0, got shape"):
        quarkfast.dequantize_gguf(np.zeros(shape, np.uint8), "Q4_0")


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="quantize_gguf_f32_q4_0: x: expected dtype float32, got int8"):
        quarkfast.quantize_gguf(np.zeros(32, np.int8), "Q4_0")
    with pytest.raises(TypeError, match="dequantize_gguf_q4_0_f32: x: expected dtype uint8, got int8"):
        quarkfast.dequantize_gguf(np.zeros(18, np.int8), "Q4_0")


def test_memory_that_overlaps_is_refused() -> None:
    memory = np.zeros(1024, np.uint8)
    with pytest.raises(ValueError, match="out: expected memory apart from x"):
        quarkfast.quantize_gguf(memory[:128].view(np.float32), "Q8_0", out=memory[:34])
