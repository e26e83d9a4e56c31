"""Dynamic int8 of rows: the bytes of the reference, those of quantize_linear, and wrong arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast import reference


def test_rows_equal_the_reference(isa: str, rng: np.random.Generator) -> None:
    for n in SIZES:
        x: Any = float_bits(rng, 7 * n).reshape(7, n)
        codes, scales = quarkfast.quantize_rows(x)
        told, levels = reference.quantize_rows(x)
        np.testing.assert_array_equal(codes, told)
        np.testing.assert_array_equal(scales, levels)


def test_codes_are_those_of_quantize_linear_with_the_scales(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 5, 65)).astype(np.float32)
    codes, scales = quarkfast.quantize_rows(x)
    assert scales.shape == (3, 5, 1)
    told = quarkfast.quantize_linear(x.reshape(15, 65), scales.reshape(15), axis=0)
    np.testing.assert_array_equal(codes, told.reshape(x.shape))


def test_scales_are_greater_than_zero_whatever_the_row() -> None:
    _, scales = quarkfast.quantize_rows(np.float32([[0, 0], [1e-45, 0], [np.nan, np.inf], [np.inf, 127]]))
    assert scales.ravel().tolist() == [2.0**-126, 2.0**-126, 2.0**-126, 1.0]


def test_sixteen_bit_floats_are_widened_and_out_is_written_to(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 40)).astype(ml_dtypes.bfloat16)
    out = np.empty((3, 40), np.int8)
    assert quarkfast.quantize_rows(x, out=out)[0] is out
    np.testing.assert_array_equal(out, quarkfast.quantize_rows(x.astype(np.float32))[0])


def test_wrong_arguments_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="quantize_rows_f32_i8: x: expected an array of rank 1 or more, got a scalar"):
        quarkfast.quantize_rows(np.float32(1))
    with pytest.raises(TypeError, match="quantize_rows_f32_i8: x: expected dtype float32, got int8"):
        quarkfast.quantize_rows(np.zeros((2, 2), np.int8))
    with pytest.raises(ValueError, match="out: expected shape"):
        quarkfast.quantize_rows(np.zeros((2, 2), np.float32), out=np.zeros(4, np.int8))
