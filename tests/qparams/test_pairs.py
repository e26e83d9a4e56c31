"""Pairs of codes whose products fit 16 bits, beside every choice that there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quarkfast.qparams import fit_pairs, from_rows, grow_scales, overflowing_pairs, rows_of

# Twice the largest magnitude that a code of 7 bits and 16 steps of 1/16 leave.
TWICE = 2.0


def _overflows(codes, reach):
    """Whether activations from 0 to `reach` can bring two products beyond 16 bits, in Python's integers."""
    ends = itertools.product(*((0, int(code) * int(most)) for code, most in zip(codes, reach, strict=True)))
    return any(not -32768 <= sum(products) <= 32767 for products in ends)


@pytest.mark.parametrize("highest", [None, "some"])
def test_overflowing_pairs_are_those_that_an_activation_can_take_beyond_16_bits(highest, rng):
    rows = rng.integers(-128, 128, (40, 9)).astype(np.int8)
    reach = None if highest is None else rng.integers(0, 256, rows.shape)
    found = overflowing_pairs(rows, reach)
    assert found.shape == (40, 4)
    known = np.full(rows.shape, 255) if reach is None else reach
    for row, pair in np.ndindex(found.shape):
        places = slice(2 * pair, 2 * pair + 2)
        assert found[row, pair] == _overflows(rows[row, places], known[row, places])


@pytest.mark.parametrize("highest", [None, "some"])
def test_fitted_codes_are_the_nearest_of_all_that_fit(highest, rng):
    wanted = rng.uniform(-140, 140, (40, 2)).astype(np.float32)
    rows = np.clip(np.rint(wanted), -128, 127).astype(np.int8)
    reach = None if highest is None else rng.integers(100, 256, rows.shape)
    fitted = fit_pairs(rows, wanted, reach).astype(int)
    known = np.full(rows.shape, 255) if reach is None else reach
    overflowing = overflowing_pairs(rows, reach)[:, 0]
    assert 0 < overflowing.sum() < len(rows)
    np.testing.assert_array_equal(fitted[~overflowing], rows[~overflowing])
    for codes, exact, most, old in zip(
        fitted[overflowing], wanted[overflowing], known[overflowing], rows[overflowing].astype(int), strict=True
    ):
        sign = np.sign(old)
        choices = itertools.product(range(abs(old[0]) + 1), range(abs(old[1]) + 1))
        best = min(np.square(sign * pair - exact).sum() for pair in choices if not _overflows(sign * pair, most))
        assert not _overflows(codes, most)
        assert np.square(codes - exact).sum() == pytest.approx(best, rel=1e-6)


def test_a_last_code_without_a_neighbour_stays():
    rows = np.int8([[100, 100, 127]])
    assert fit_pairs(rows, rows.astype(np.float32)).tolist() == [[64, 64, 127]]


@pytest.mark.parametrize(
    ("shape", "order"), [((6, 4, 3, 2), "kernel"), ((6, 4, 5), "kernel"), ((6, 8), "rows"), ((2, 8, 6), "columns")]
)
def test_rows_go_back_to_the_weight(shape, order, rng):
    weight = rng.integers(-128, 128, shape).astype(np.int8)
    rows = rows_of(weight, order)
    assert len(rows) == (12 if order == "columns" else 6)
    np.testing.assert_array_equal(from_rows(rows, shape, order), weight)


def test_a_scale_grows_where_that_loses_less(rng):
    exact = np.clip(rng.normal(0, 20, (3, 1000)), -50, 50).astype(np.float32)
    exact[1, :2] = 66, 64  # two steps too many: cheaper to cut than to round 1,000 codes to larger steps
    exact[2, :100] = 127  # 63 steps too many in each of fifty pairs
    factors = grow_scales(exact, np.arange(3), np.zeros(3, np.int64), (-127, 127))
    assert factors[:2].tolist() == [1, 1]
    assert 1.5 < factors[2] <= TWICE


def test_one_scale_for_all_grows_by_the_sum_of_errors(rng):
    exact = np.clip(rng.normal(0, 20, (3, 1001)), -50, 50).astype(np.float32)
    exact[2, :100] = 127
    (factor,) = grow_scales(exact, np.zeros(3, np.int64), np.zeros(3, np.int64), (-127, 127))
    assert 1.5 < factor <= TWICE


def test_nothing_to_fit_leaves_scales():
    exact = np.zeros((2, 5), np.float32)
    assert grow_scales(exact, np.arange(2), np.zeros(2, np.int64), (-127, 127)).tolist() == [1, 1]
