from __future__ import annotations

import numpy as np
import pytest

from quarkfast import kernels
from quarkfast.kernels import histogram
from quarkfast.statistics import TensorStatistics
from quarkfast.statistics.scaling import shift_statistics

# Counts move by up to a bin, which is an eighth of a step: there are 2048 bins on a side, and 256 codes.
BIN_IN_STEPS = 1 / 8


def _values():
    return np.maximum(np.random.default_rng(5).normal(0, 1, 20_000), 0).astype(np.float32)


def _statistics(values, **others):
    seen = histogram(values)
    return TensorStatistics(seen.range, histogram=seen, **others)


@pytest.mark.parametrize("offset", [0.51, 1.75, 2.0, -1.3])
def test_a_shifted_histogram_is_that_of_the_shifted_values(offset):
    values = _values()
    found = shift_statistics(_statistics(values), offset)
    expected = histogram((values.astype(np.float64) - offset).astype(np.float32))
    assert found.range == expected.range
    assert found.histogram.exponent == expected.exponent
    assert found.histogram.counts.sum() == values.size
    # The zeros, half of all values, lie in the bin of what they become.
    assert np.argmax(found.histogram.counts) == np.argmax(expected.counts)
    errors = [kernels.quantization_error(each, 1 / 32, 0, -128, 127) for each in (found.histogram, expected)]
    assert abs(errors[0] / errors[1] - 1) < BIN_IN_STEPS


@pytest.mark.parametrize(("low", "wanted"), [(0.0, [1.5, 2.5]), (-4.0, [2.5, 5.5])])
def test_channels_have_the_largest_magnitude_that_they_may_have(low, wanted):
    values = np.float32([low, 4])
    seen = _statistics(values, channel_absmax=np.float32([1, 4]), sums=(1, 2))
    found = shift_statistics(seen, 1.5)
    np.testing.assert_array_equal(found.channel_absmax, np.float32(wanted))
    assert found.sums is None
