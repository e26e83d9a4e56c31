"""Ratios whose quotient no float holds."""

import math

import pytest

from quarkfast.ranges.decibels import decibels


@pytest.mark.parametrize(
    ("signal", "noise", "expected"),
    [
        (1e-200, 1e200, -4000),
        (1e200, 1e-200, 4000),
        (5e-324, 1e308, 10 * (math.log10(5e-324) - 308)),
        (0, 0, math.inf),
        (math.inf, 1, math.inf),
        (1, math.inf, -math.inf),
        (0, math.inf, -math.inf),
    ],
)
def test_every_pair_of_sums_has_a_ratio(signal, noise, expected):
    assert decibels(float(signal), float(noise)) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("signal", "noise"), [(math.inf, math.inf), (math.nan, 1), (1, math.nan)])
def test_what_is_no_number_has_none(signal, noise):
    assert math.isnan(decibels(float(signal), float(noise)))
