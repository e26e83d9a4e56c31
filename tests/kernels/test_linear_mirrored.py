"""A scale below zero gives the codes of the negated values, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from conftest import SIZES, float_bits
from quarkfast import kernels, reference
from quarkfast.formats.scalar import qtype

REALS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LAYOUTS = [((9, 33), 1, 0), ((9, 33), 0, 0), ((70, 40), 0, 32), ((40, 70), 1, 16), ((3, 33, 300), 1, 8), ((5, 5), 1, 1)]


def values(rng: np.random.Generator, real: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers around one, and every seventh of random bits."""
    x = np.asarray(rng.standard_normal(shape)).astype(REALS[real])
    x.reshape(-1)[::7] = float_bits(rng, len(x.reshape(-1)[::7])).astype(REALS[real])
    return x


def scales_of(rng: np.random.Generator, shape: tuple[int, ...], axis: int, block: int) -> np.ndarray:
    """Return scales of both signs for each index or block."""
    wanted = [shape[axis]] if not block else list(shape)
    if block:
        wanted[axis] = -(-shape[axis] // block)
    return (rng.uniform(0.05, 0.3, wanted) * rng.choice([-1.0, 1.0], wanted)).astype(np.float32)


@pytest.mark.parametrize(("shape", "axis", "block"), LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", ["int3", "int4", "uint4"])
@pytest.mark.parametrize("real", REALS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_codes_are_those_of_negated_values_and_those_of_the_reference(isa, rng, real, dtype, shape, axis, block):
    x, scale = values(rng, real, shape), scales_of(rng, shape, axis, block)
    zero = rng.integers(0, 4, scale.shape).astype(qtype(dtype).dtype)
    got = kernels.quantize_linear_mirrored(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
    each = [reference.per_element(a, shape, axis, block) for a in (scale, zero)]
    np.testing.assert_array_equal(got, reference.quantize_linear(x, *each, dtype))
    negated = np.where(each[0] < 0, -x, x).astype(x.dtype)
    flipped = kernels.quantize_linear(negated, np.abs(scale), zero, dtype=dtype, axis=axis, block_size=block)
    np.testing.assert_array_equal(got, flipped)


@pytest.mark.parametrize("scale", [0.125, -0.125])
def test_one_scale_serves_any_number_of_values(isa, rng, scale):
    for n in SIZES:
        x = float_bits(rng, n)
        got = kernels.quantize_linear_mirrored(x, scale)
        np.testing.assert_array_equal(got, reference.quantize_linear(x, np.float32(scale), np.int8(0), "int4"))


def test_scales_of_sixteen_bits_are_widened():
    x = np.float32([1, -2, 3, -8])
    got = kernels.quantize_linear_mirrored(x, np.float16([-1, 1, -1, 1]), axis=0)
    assert got.tolist() == [-1, -2, -3, -8]


@pytest.mark.parametrize(
    ("scale", "shown"), [(0.0, "0.0"), (-0.0, "-0.0"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
)
def test_scales_that_divide_nothing_meet_a_sentence(scale, shown):
    message = f"quantize_linear_mirrored_f32_i4: scale: expected finite values other than 0, got {shown} at index 0"
    with pytest.raises(ValueError, match=message):
        kernels.quantize_linear_mirrored(np.ones(3, np.float32), scale)


@pytest.mark.parametrize(
    ("x", "dtype", "message"),
    [
        (np.ones(3, np.float32), "int8", "quantize_linear_mirrored: dtype: expected int3, int4 or uint4, got int8"),
        (
            np.ones(3),
            "int4",
            "quantize_linear_mirrored: x: expected dtype float32, float16 or bfloat16, got float64",
        ),
    ],
    ids=["codes", "values"],
)
def test_other_types_meet_a_sentence(x, dtype, message):
    with pytest.raises(TypeError, match=message):
        kernels.quantize_linear_mirrored(x, 1.0, dtype=dtype)
