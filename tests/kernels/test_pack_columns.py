"""Columns of 4-bit codes become rows of bytes, on every instruction set and thread count."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from quarkfast import _core, kernels, reference

# Columns around the width of a tile, 64; rows around its height, 128.
SHAPES = [(k, n) for k in (16, 112, 128, 144, 400) for n in (1, 7, 63, 64, 65, 200)]


def codes(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.integers(0, 16, shape).astype(ml_dtypes.uint4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_packed_as_the_reference_packs_them(isa, rng, shape):
    x = codes(rng, shape)
    packed = kernels.pack_columns(x)
    np.testing.assert_array_equal(packed, reference.pack_columns(x))
    np.testing.assert_array_equal(packed.ravel(), kernels.pack_codes(x.T))


@pytest.mark.parametrize("shape", [(16, 65), (144, 200)], ids=str)
def test_rows_that_lie_apart_are_written_and_nothing_between_them(isa, rng, shape):
    x = codes(rng, shape)
    around = np.full((shape[1], shape[0] // 2 + 9), 0xA5, np.uint8)
    made = kernels.pack_columns(x, out=around[:, 5:-4])
    np.testing.assert_array_equal(made, reference.pack_columns(x))
    assert (around[:, :5] == 0xA5).all()
    assert (around[:, -4:] == 0xA5).all()


def test_bits_above_a_code_are_not_read(isa, rng):
    x = codes(rng, (32, 70)).view(np.uint8)
    dirty = (x | rng.integers(0, 16, x.shape, dtype=np.uint8) << 4).view(ml_dtypes.uint4)
    np.testing.assert_array_equal(kernels.pack_columns(dirty), reference.pack_columns(x))


def test_signed_codes_keep_their_low_bits(rng):
    x = rng.integers(-8, 8, (16, 5)).astype(ml_dtypes.int4)
    np.testing.assert_array_equal(kernels.pack_columns(x), reference.pack_columns(x))


def test_threads_do_not_change_a_byte(rng):
    x = codes(rng, (512, 3000))
    before = quarkfast.num_threads()
    try:
        for threads in (1, 2, 3, 8):
            quarkfast.set_num_threads(threads)
            np.testing.assert_array_equal(kernels.pack_columns(x).ravel(), kernels.pack_codes(x.T))
    finally:
        quarkfast.set_num_threads(before)


@pytest.mark.parametrize("shape", [(0, 3), (16, 0)], ids=str)
def test_nothing_becomes_nothing(shape):
    assert kernels.pack_columns(np.zeros(shape, ml_dtypes.int4)).shape == (shape[1], shape[0] // 2)


X = np.zeros((16, 2), ml_dtypes.uint4)
BYTES = X.view(np.uint8)
SHARED = np.zeros(64, np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: kernels.pack_columns(BYTES),
            TypeError,
            "pack_columns: x: expected int4 or uint4, got uint8",
        ),
        (
            lambda: kernels.pack_columns(X[:15]),
            ValueError,
            r"pack_columns: x: expected shape \[K, N\] with K a multiple of 16, got \(15, 2\)",
        ),
        (
            lambda: kernels.pack_columns(X, out=np.zeros((2, 9), np.uint8)),
            ValueError,
            r"pack_columns: out: expected shape \(2, 8\), got \(2, 9\)",
        ),
        (
            lambda: kernels.pack_columns(X, out=np.zeros((8, 2), np.uint8).T),
            ValueError,
            r"pack_columns_p4: out: expected rows of contiguous bytes, got strides \(1, 2\) for shape \(2, 8\)",
        ),
        (
            lambda: _core.pack_columns_p4(BYTES[:15], np.zeros((2, 8), np.uint8)),
            ValueError,
            r"pack_columns_p4: x: expected shape \[K, N\] with a multiple of 16 rows, got \(15, 2\)",
        ),
        (
            lambda: _core.pack_columns_p4(BYTES, np.zeros((2, 9), np.uint8)),
            ValueError,
            r"pack_columns_p4: out: expected shape \[N, K / 2\] for x of \(16, 2\), got \(2, 9\)",
        ),
        (
            lambda: _core.pack_columns_p4(SHARED[:32].reshape(16, 2), SHARED[20:36].reshape(2, 8)),
            ValueError,
            "pack_columns_p4: out: expected memory apart from x, got arrays that overlap",
        ),
    ],
    ids=["bytes", "rows", "out", "strides", "native rows", "native out", "overlap"],
)
def test_wrong_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
