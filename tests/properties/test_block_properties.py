"""What must hold of block formats whatever the numbers, the format and the rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import quarkfast

ROUNDINGS = st.sampled_from(["half_away", "half_up", "half_even"])
ELEMENTS = ["fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"]
# Far enough from the ends of float32 that no result is subnormal: those count as zero in MX4, MX6 and MX9.
NUMBERS = st.floats(2.0**-60, 2.0**60, width=32) | st.floats(0.125, 8, width=32)
SIGNED = st.builds(lambda x, negative: -x if negative else x, NUMBERS | st.just(0.0), st.booleans())


def blocks(least: int, most: int) -> Any:
    return arrays(np.float32, st.integers(least, most), elements=SIGNED)


def exponent(x: Any) -> int:
    """Of the largest magnitude: 2**exponent <= largest < 2**(exponent + 1)."""
    return math.frexp(float(np.abs(x).max()))[1] - 1


def _exponents(x):
    """Returns the exponent of the largest magnitude of each block of 32."""
    padded = np.pad(np.abs(x), (0, -x.size % 32)).reshape(-1, 32)
    return np.frexp(padded.max(axis=1))[1]


@settings(max_examples=100)
@given(blocks(1, 30), st.integers(10, 24), ROUNDINGS)
def test_bfp_is_idempotent(x, bit_width, rounding):
    once = quarkfast.fake_quantize_bfp(x, bit_width=bit_width, rounding=rounding)
    twice = quarkfast.fake_quantize_bfp(once, bit_width=bit_width, rounding=rounding)
    np.testing.assert_array_equal(twice, once)


@settings(max_examples=100)
@given(blocks(1, 40), st.sampled_from([11, 13, 16]), ROUNDINGS)
def test_blocks_with_micro_exponents_are_idempotent(x, bit_width, rounding):
    once = quarkfast.fake_quantize_bfp_prime(x, bit_width=bit_width, rounding=rounding)
    twice = quarkfast.fake_quantize_bfp_prime(once, bit_width=bit_width, rounding=rounding)
    np.testing.assert_array_equal(twice, once)


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=40)
@given(x=blocks(1, 70), rounding=ROUNDINGS, rule=st.sampled_from(["quark", "ocp"]))
def test_microscaling_formats_are_idempotent(element, x, rounding, rule):
    once = quarkfast.fake_quantize_mx(x, element=element, rounding=rounding, rule=rule)
    # The int8 element -2 has the exponent of the next scale: a block that holds it is rounded to twice the step then.
    assume(element != "int8" or np.array_equal(_exponents(once), _exponents(x)))
    twice = quarkfast.fake_quantize_mx(once, element=element, rounding=rounding, rule=rule)
    np.testing.assert_array_equal(twice, once)


@settings(max_examples=100)
@given(blocks(1, 8), st.integers(10, 24), ROUNDINGS)
def test_the_error_of_bfp_is_half_a_step_and_less_than_one_where_it_saturates(x, bit_width, rounding):
    if not x.any():
        return
    step = 2.0 ** (exponent(x) - (bit_width - 9) + 1)
    largest = (2 ** (bit_width - 9) - 1) * step
    error = np.abs(quarkfast.fake_quantize_bfp(x, bit_width=bit_width, rounding=rounding).astype(np.float64) - x)
    assert (error[np.abs(x) <= largest] <= step / 2).all()
    assert (error < step).all()


@settings(max_examples=100)
@given(blocks(2, 2), blocks(0, 14), st.sampled_from([11, 13, 16]), ROUNDINGS)
def test_the_error_of_a_sub_block_follows_its_own_exponent_down_to_one_below_the_block(pair, others, width, rounding):
    x = np.concatenate([pair, others])
    if not x.any():
        return
    own = exponent(pair) if pair.any() else -200
    step = 2.0 ** (max(own, exponent(x) - 1) - (width - 9) + 1)
    rounded = quarkfast.fake_quantize_bfp_prime(x, bit_width=width, rounding=rounding)
    assert (np.abs(rounded[:2].astype(np.float64) - pair) < step).all()


@settings(max_examples=100)
@given(blocks(1, 8), st.integers(10, 24), ROUNDINGS)
def test_bfp_is_monotone_within_a_block(x, bit_width, rounding):
    rounded = quarkfast.fake_quantize_bfp(np.sort(x), bit_width=bit_width, rounding=rounding)
    assert (np.diff(rounded) >= 0).all()


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=40)
@given(x=blocks(1, 32), rounding=ROUNDINGS, rule=st.sampled_from(["quark", "ocp"]))
def test_microscaling_formats_are_monotone_within_a_block(element, x, rounding, rule):
    rounded = quarkfast.fake_quantize_mx(np.sort(x), element=element, rounding=rounding, rule=rule)
    assert (np.diff(rounded) >= 0).all()


@settings(max_examples=100)
@given(blocks(16, 16), st.sampled_from([11, 13, 16]), ROUNDINGS)
def test_a_sub_block_is_monotone(x, bit_width, rounding):
    pairs = np.sort(x.reshape(8, 2), axis=1)
    rounded = quarkfast.fake_quantize_bfp_prime(pairs.reshape(-1), bit_width=bit_width, rounding=rounding)
    assert (np.diff(rounded.reshape(8, 2), axis=1) >= 0).all()


@settings(max_examples=100)
@given(blocks(1, 40), st.permutations(range(8)), ROUNDINGS)
def test_elements_of_a_block_may_change_places(x, order, rounding):
    whole = np.zeros(-(-x.size // 8) * 8, np.float32)
    whole[: x.size] = x
    moved = whole.reshape(-1, 8)[:, order]
    rounded = quarkfast.fake_quantize_bfp(whole, rounding=rounding).reshape(-1, 8)[:, order]
    np.testing.assert_array_equal(quarkfast.fake_quantize_bfp(moved, rounding=rounding), rounded)
