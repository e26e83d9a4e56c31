"""Stochastic rounding: the bytes of the reference, right on average, and wrong arguments."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import float_bits
from quarkfast import reference
from quarkfast.reference.linear import random_bits

TYPES = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
# Of a mean of n independent draws: beyond six standard errors once in 5e8 tests.
SIGMAS = 6


def zeros_like(scale: Any, name: str, rng: np.random.Generator) -> Any:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    low, high = (-8, 7) if name == "int4" else (0, 15) if name.startswith("u") else (-100, 100)
    return rng.integers(low, high, scale.shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_codes_equal_the_reference(isa: str, rng: np.random.Generator, name: str, axis: int | None) -> None:
    shape = (5, 37, 29)
    x: Any = float_bits(rng, math.prod(shape)).reshape(shape)
    scale = rng.uniform(0.01, 2, () if axis is None else shape[axis]).astype(np.float32)
    zero_point = zeros_like(scale, name, rng)
    told = [reference.per_element(each, shape, axis or 0, 0) for each in (scale, zero_point.astype(np.int64))]
    got = quarkfast.quantize_linear_stochastic(x, scale, zero_point, dtype=name, axis=axis or 0, seed=11)
    np.testing.assert_array_equal(got, reference.quantize_linear_stochastic(x, *told, name, 11))


def test_bfloat16_equals_the_reference(isa: str, rng: np.random.Generator) -> None:
    x: Any = float_bits(rng, 70001)
    got = quarkfast.cast_stochastic(x, seed=3)
    np.testing.assert_array_equal(got.view(np.uint16), reference.cast_stochastic(x, 3).view(np.uint16))


def test_whole_quotients_stay(rng: np.random.Generator) -> None:
    codes = rng.integers(-128, 127, 10000, endpoint=True)
    for seed in range(5):
        got = quarkfast.quantize_linear_stochastic((codes * 0.25).astype(np.float32), 0.25, seed=seed)
        np.testing.assert_array_equal(got, codes)
    exact = rng.standard_normal(10000).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(quarkfast.cast_stochastic(exact.astype(np.float32), seed=9), exact)


@pytest.mark.parametrize("fraction", [0.001, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_the_mean_is_the_value(fraction: float, seed: int) -> None:
    n = 1 << 18
    limit = SIGMAS * math.sqrt(fraction * (1 - fraction) / n)
    codes = quarkfast.quantize_linear_stochastic(np.full(n, fraction - 3, np.float32), 1.0, seed=seed)
    assert set(np.unique(codes).tolist()) == {-3, -2}
    assert abs(codes.mean() - (fraction - 3)) < limit
    near = quarkfast.cast_stochastic(np.full(n, 1 + fraction * 2**-7, np.float32), seed=seed).astype(np.float64)
    assert abs((near.mean() - 1) * 2**7 - fraction) < limit


def test_neighbours_and_seeds_are_independent() -> None:
    n = 1 << 18
    half = np.full(n, 0.5, np.float32)
    drawn = [quarkfast.quantize_linear_stochastic(half, 1.0, seed=seed) * 2.0 - 1 for seed in (0, 1, 2)]
    pairs = [(drawn[0], drawn[1]), (drawn[0], drawn[2]), (drawn[1], drawn[2])]
    pairs += [(drawn[0][: n - step], drawn[0][step:]) for step in (1, 2, 16, 1024)]
    for a, b in pairs:
        assert abs((a * b).mean()) < SIGMAS / math.sqrt(a.size)


def test_random_bits_beyond_2_to_the_32_differ() -> None:
    places = np.arange(8, dtype=np.uint64)
    assert not (random_bits(places, 5) == random_bits(places + np.uint64(1 << 32), 5)).any()


def test_wrong_arguments_are_refused_with_a_sentence() -> None:
    x = np.zeros((2, 3), np.float32)
    call = quarkfast.quantize_linear_stochastic
    with pytest.raises(
        TypeError, match=r"quantize_linear_stochastic: dtype: expected an integer type of 4, 8 or 16 bits, got int32"
    ):
        call(x, 1.0, seed=0, dtype="int32")
    with pytest.raises(ValueError, match=r"seed: expected 0 or a positive integer, got -1"):
        call(x, 1.0, seed=-1)
    with pytest.raises(TypeError, match=r"seed: expected an integer, got 1\.5"):
        quarkfast.cast_stochastic(x, seed=1.5)
    with pytest.raises(ValueError, match=r"scale: expected a scalar or shape \(3,\), got \(2,\)"):
        call(x, np.ones(2, np.float32), seed=0)
    with pytest.raises(ValueError, match="axis: expected an axis of a tensor of rank 2, got 2"):
        call(x, np.ones(3, np.float32), seed=0, axis=2)
    with pytest.raises(ValueError, match=r"scale: expected finite values greater than 0, got 0\.0"):
        call(x, 0.0, seed=0)
    with pytest.raises(ValueError, match=r"zero_point: expected shape \(3,\), got \(2,\)"):
        call(x, np.ones(3, np.float32), np.zeros(2, np.int8), seed=0)
    with pytest.raises(TypeError, match="x: expected dtype float32, got float64"):
        quarkfast.cast_stochastic(x.astype(np.float64), seed=0)
