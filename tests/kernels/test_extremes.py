"""Extremes of channels and blocks equal the reference on every instruction set, type, layout and thread count."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast import kernels, reference

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# Channels before, between and behind other axes, and blocks that end short of one; from 256 results on threads share
# out results in place of values, and a strip has 2048 columns.
LAYOUTS = [
    ((7, 5), 0, 0),
    ((7, 5), 1, 0),
    ((5, 300), 1, 0),
    ((9, 4100), 1, 0),
    ((300, 9), 0, 0),
    ((3, 270, 11), 1, 0),
    ((2, 3, 4, 5), -2, 0),
    ((7, 5), 0, 3),
    ((7, 5), 1, 2),
    ((40, 33), 1, 16),
    ((70, 9), 0, 32),
    ((3, 70, 90), 1, 16),
    ((13, 2100), 0, 4),
    ((90, 67), 1, 16),
    ((5, 6), 0, 1),
    ((40, 30), 1, 1),
    ((6,), 0, 4),
    ((5, 3), 0, 1000),
]


def bits(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return random bit patterns: numbers, subnormals, zeros of both signs, infinities and NaN."""
    n = int(np.prod(shape))
    if dtype == "float32":
        return float_bits(rng, n).reshape(shape)
    return rng.integers(0, 1 << 16, n, dtype=np.uint16).view(DTYPES[dtype]).reshape(shape)


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return finite numbers, few of them, so that zeros of both signs are extremes."""
    return (rng.integers(-2, 3, shape) * np.float32(0.0)).astype(DTYPES[dtype]) + rng.integers(-1, 2, shape).astype(
        DTYPES[dtype]
    ) * (rng.random(shape) < 0.3).astype(DTYPES[dtype])


def assert_same_bytes(got: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("shape", "axis", "block"), LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_equals_the_reference(isa, rng, dtype, shape, axis, block):
    for make in (bits, numbers):
        x = make(rng, dtype, shape)
        got = kernels.extremes(x, channel_axis=axis, block_size=block)
        assert_same_bytes(got, reference.reduce_extremes(x, axis, block))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_any_size_equals_the_reference(isa, rng, dtype):
    for n in SIZES[1:]:
        for make in (bits, numbers):
            x = make(rng, dtype, (n + 3,))[3:]
            low, high = reference.reduce_extremes(x[None], 0)
            assert_same_bytes(kernels.extremes(x), (low.reshape(()), high.reshape(())))


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_patterns_of_bits_are_ordered_as_their_values(isa, dtype):
    every = np.arange(1 << 16, dtype=np.uint32)
    x = (every << 16).view(np.float32) if dtype == "float32" else every.astype(np.uint16).view(DTYPES[dtype])
    with np.errstate(invalid="ignore"):
        pairs = np.stack([x, np.roll(x, 12345)])
    assert_same_bytes(kernels.extremes(pairs, channel_axis=1), reference.reduce_extremes(pairs, 1))


@pytest.mark.parametrize(
    ("shape", "axis", "block"),
    [((1 << 19,), None, 0), ((600, 999), 1, 0), ((600, 999), 0, 0), ((700, 800), 0, 32), ((700, 800), 1, 32)],
    ids=str,
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_byte(rng, dtype, shape, axis, block):
    x = bits(rng, dtype, shape)
    before = quarkfast.num_threads()
    try:
        found = []
        for threads in (1, 2, 3, 8):
            quarkfast.set_num_threads(threads)
            found.append(kernels.extremes(x, channel_axis=axis, block_size=block))
        for other in found[1:]:
            assert_same_bytes(other, found[0])
    finally:
        quarkfast.set_num_threads(before)


def test_one_value_that_is_no_number_tells_of_its_group_alone(isa):
    x = np.ones((64, 300), np.float32)
    x[40, 7], x[3, 8], x[33, 9] = np.nan, np.inf, -np.inf
    low, high = kernels.extremes(x, channel_axis=0, block_size=32)
    for found in (low, high):
        assert np.argwhere(np.isnan(found)).tolist() == [[1, 7]]
    assert np.argwhere(np.isinf(high)).tolist() == [[0, 8]]
    assert np.argwhere(np.isinf(low)).tolist() == [[1, 9]]


def test_strided_input_is_read(rng):
    x = rng.standard_normal((60, 70)).astype(np.float32)
    assert_same_bytes(
        kernels.extremes(x.T[::2], channel_axis=1, block_size=16),
        kernels.extremes(x.T[::2].copy(), channel_axis=1, block_size=16),
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: kernels.extremes(np.zeros(3)),
            TypeError,
            "extremes: x: expected dtype float32, float16 or bfloat16, got float64",
        ),
        (
            lambda: kernels.extremes(np.zeros((2, 0), np.float32), channel_axis=0),
            ValueError,
            r"extremes: x: expected one value or more, got shape \(2, 0\)",
        ),
        (
            lambda: kernels.extremes(np.zeros((2, 2), np.float32), channel_axis=2),
            ValueError,
            "extremes: channel_axis: expected an axis of a tensor of rank 2, got 2",
        ),
        (
            lambda: kernels.extremes(np.zeros((2, 2), np.float32), channel_axis=0, block_size=-1),
            ValueError,
            "extremes: block_size: expected 0 or a positive integer, got -1",
        ),
        (
            lambda: kernels.extremes(np.zeros((2, 2), np.float32), block_size=2),
            ValueError,
            "extremes: block_size: expected 0 without an axis, got 2",
        ),
        (
            lambda: quarkfast._core.reduce_extremes_f32(np.zeros((2, 0), np.float32), (2, 0, 1), 0),
            ValueError,
            "reduce_extremes_f32: x: expected one value or more, got none",
        ),
    ],
    ids=["dtype", "empty", "axis", "block", "block of the whole", "empty native"],
)
def test_wrong_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
