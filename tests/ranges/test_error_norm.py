"""Ranges of least expected error to several powers."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.config import TensorSpec
from quarkfast.kernels import fake_quantize_linear, histogram
from quarkfast.ranges.error_norm import POWERS, least_power_ranges

INT8 = TensorSpec("int8")

# Two places stand for the values of a bin, and eighths of an octave lie between scales.
TOLERANCE = 1.02


def _error(x, scale, power):
    return np.mean(np.abs(x - fake_quantize_linear(x, np.float32(scale), dtype="int8")) ** power)


@pytest.mark.parametrize("power", POWERS)
def test_no_other_scale_that_is_tried_has_less_error(power):
    x = np.random.default_rng(1).standard_t(3, 20_000).astype(np.float32)
    high = least_power_ranges(histogram(x), INT8)[power][1]
    full = np.abs(x).max() / 127.5
    best = min(_error(x, full * 2 ** (-each / 8), power) for each in range(21))
    assert _error(x, high / 127, power) < best * TOLERANCE


def test_higher_powers_let_less_saturate():
    x = np.random.default_rng(1).standard_t(3, 1_000_000).astype(np.float32)
    ends = [high for _, high in least_power_ranges(histogram(x), INT8).values()]
    assert ends == sorted(ends)
    assert ends[0] < ends[1] < ends[-1]


def test_powers_of_two_stay_such():
    x = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    for _, high in least_power_ranges(histogram(x), TensorSpec("int8", scale="power_of_two")).values():
        assert np.log2(high / 127).is_integer()


def test_unsigned_codes_keep_their_zero_point():
    x = np.random.default_rng(1).exponential(size=5000).astype(np.float32)
    for low, high in least_power_ranges(histogram(x), TensorSpec("uint8", symmetric=False)).values():
        assert low == 0 < high


def test_zeros_alone_have_a_range():
    assert all(low < high for low, high in least_power_ranges(histogram(np.zeros(9, np.float32)), INT8).values())
