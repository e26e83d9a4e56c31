"""What samples held apart say of a change, and when they object."""

import numpy as np
import pytest

from quarkfast.algorithms.held_apart import Gains


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
