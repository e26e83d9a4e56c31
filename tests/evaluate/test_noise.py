"""What samples held apart say of a change, and when they object."""

import numpy as np
import pytest

from quarkfast.evaluate.noise import Gains, powers_of


@pytest.mark.parametrize(
    ("gains", "objects"),
    [
        ([0.2, -0.3, 0.1, -0.1], False),  # a mean of -0.025 with a standard error of 0.11
        ([-0.2, -0.3, -0.1, -0.2], True),
        ([3.0, -4.0, 1.0, -1.6], False),  # a mean of -0.4 with a standard error of 1.5
        ([3.0, -6.0, 1.0, -4.0], True),  # a mean of -1.5 with a standard error of 2.1
        ([3.0, -5.0, 1.0, -3.0] * 2, False),  # of eight a mean of -1.0 with a standard error of 1.2
        ([-0.1], True),
        ([1.0, np.nan], False),
        ([], False),
    ],
)
def test_samples_object_to_what_chance_does_not_explain_and_few_to_half_a_decibel(gains, objects):
    before = np.full(len(gains), 20.0)
    before[np.isnan(gains)] = np.nan
    assert Gains(before, before + np.array(gains)).are_losses() == objects


def test_numbers_that_are_not_finite_where_they_are_wanted_are_left_out_and_others_are_infinite_noise():
    wanted = np.float32([3.0, np.nan, 4.0])
    assert powers_of(wanted, np.float32([3.0, 7.0, 2.0])) == (25.0, 4.0, False)
    assert powers_of(wanted, np.float32([3.0, 7.0, np.inf])) == (25.0, np.inf, False)
    assert powers_of(np.ones((2, 2)), np.ones(3)) == (4.0, np.inf, True)


def test_a_gain_has_to_be_above_what_it_costs_by_errors_of_the_mean():
    gains = Gains(np.zeros(4), np.array([1.0, 2.0, 3.0, 2.0]))  # a mean of 2 with a standard error of 0.41
    assert gains.better(gain=1.5, errors=1.0)
    assert not gains.better(gain=1.5, errors=2.0)
    assert Gains(np.array([1.0, 2.0, 3.0, 2.0]), np.zeros(4)).worse(errors=4.0)
