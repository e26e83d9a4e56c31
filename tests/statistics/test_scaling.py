from __future__ import annotations

import numpy as np
import pytest

from quarkfast import kernels
from quarkfast.kernels import Range, histogram
from quarkfast.statistics import TensorStatistics
from quarkfast.statistics.scaling import scale_statistics, shift_statistics

# Counts move by up to a bin, which is an eighth of a step: there are 2048 bins on a side, and 256 codes.
BIN_IN_STEPS = 1 / 8


def _values():
    values = np.random.default_rng(5).normal(0, 1, 20_000).astype(np.float32)
    values[::3] = 0
    return values


def _statistics(values, **others):
    seen = histogram(values)
    return TensorStatistics(seen.range, histogram=seen, **others)


@pytest.mark.parametrize("factor", [0.51, 0.7071067811865476, 1.3, 1.999])
def test_a_scaled_histogram_is_that_of_the_scaled_values(factor):
    values = _values()
    found = scale_statistics(_statistics(values), factor)
    expected = histogram((values.astype(np.float64) * factor).astype(np.float32))
    assert found.range == expected.range
    assert found.histogram.exponent == expected.exponent
    assert found.histogram.counts.dtype == np.uint64
    assert found.histogram.counts.sum() == values.size
    errors = [kernels.quantization_error(each, 1 / 32, 0, -128, 127) for each in (found.histogram, expected)]
    assert abs(errors[0] / errors[1] - 1) < BIN_IN_STEPS


def test_powers_of_two_move_no_count():
    seen = _statistics(_values())
    found = scale_statistics(seen, 0.5)
    np.testing.assert_array_equal(found.histogram.counts, seen.histogram.counts)
    assert found.histogram.exponent == seen.histogram.exponent - 1


def test_channels_are_multiplied_and_sums_left_out():
    seen = _statistics(_values(), sums=(1, 2), extremes=(1, 0, 0), channel_absmax=np.float32([1, 2]))
    found = scale_statistics(seen, 1.5)
    np.testing.assert_array_equal(found.channel_absmax, np.float32([1.5, 3]))
    assert found.sums is None
    assert found.extremes is None


@pytest.mark.parametrize("moved", [scale_statistics, shift_statistics])
def test_a_tensor_without_values_stays_one(moved):
    nothing = Range(np.inf, -np.inf, 2, 2, 0, 0)
    seen = TensorStatistics(nothing, histogram=histogram(np.full(2, np.nan, np.float32)))
    found = moved(seen, 1.5)
    assert found.range == nothing
    assert not found.histogram.counts.any()
