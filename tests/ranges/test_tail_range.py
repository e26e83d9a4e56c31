from __future__ import annotations

import math

import numpy as np
import pytest

from quarkfast.config import TensorSpec
from quarkfast.kernels import histogram
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.tail_range import range_with_tails

SYMMETRIC, SPANNING = TensorSpec("int8"), TensorSpec("uint8", symmetric=False)
TAILS = {
    "normal": lambda rng, size: rng.normal(1, 2, size),
    "laplace": lambda rng, size: rng.laplace(0, 1, size),
    "relu": lambda rng, size: np.maximum(rng.normal(0, 3, size), 0),
}


def _range(seen, spec, samples=64):
    seen = np.asarray(seen, np.float32)
    return range_with_tails(histogram(seen), (float(seen.min()), float(seen.max())), spec, samples, 5)


def _noise(values, low, high, spec):
    params = params_for(low, high, spec)
    codes = np.clip(np.rint(values / params.scale) + params.zero_point, params.qmin, params.qmax)
    return float(np.mean((values - (codes - params.zero_point.astype(np.float64)) * params.scale) ** 2))


@pytest.mark.parametrize("spec", [SYMMETRIC, SPANNING], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("draw", TAILS.values(), ids=TAILS)
def test_values_that_were_not_seen_have_less_noise(draw, spec):
    rng = np.random.default_rng(7)
    others, had, has = draw(rng, 1 << 18), [], []
    for _ in range(20):
        seen = draw(rng, 160)
        had.append(_noise(others, seen.min(), seen.max(), spec))
        has.append(_noise(others, *_range(seen, spec), spec))
    # Of 160 values the largest is below what 1 in 160 reaches, by an amount that dwarfs steps of 8 bits.
    assert np.mean(has) < np.mean(had) / 2


def test_the_end_is_the_one_of_least_error_by_the_formula():
    seen = np.float32([*([1.0] * 80), *range(10, 30)])
    low, high = _range(seen, SYMMETRIC)
    # 100 values: the ten largest, in bins of 2^-6, are the tail, which begins at the eleventh, 19.
    powers = [(value + 2**-7) ** 1.5 for value in range(19, 30)]
    excess = sum(power - powers[0] for power in powers[1:]) / 10

    def error(end):
        slope = excess / (1.5 * math.sqrt(end))
        return (2 * end / 255) ** 2 / 12 + 0.1 * 2 * slope**2 * math.exp(-(end**1.5 - powers[0]) / excess)

    ends = [29 * (1 + each / 32) for each in range(33)]
    assert low == 1.0
    assert high == min(ends, key=error)
    assert high > 29


def test_many_values_show_their_tails_themselves():
    seen = np.random.default_rng(1).uniform(-1, 1, 1 << 18).astype(np.float32)
    for spec in (SYMMETRIC, SPANNING):
        assert _range(seen, spec) == (seen.min(), seen.max())


def test_the_end_on_the_side_of_the_larger_magnitude_moves_where_zero_is_in_the_middle():
    seen = -np.abs(np.random.default_rng(2).normal(0, 1, 100)).astype(np.float32)
    low, high = _range(seen, SYMMETRIC)
    assert low < seen.min()
    assert high == seen.max()


def test_a_channel_that_stands_out_is_no_tail_of_the_others():
    rng = np.random.default_rng(5)
    seen = rng.normal(0, 1, (24, 32))
    seen[:, 3] = rng.uniform(95, 100, 24)
    # The root of 768 values is 27: three more than the channel has.
    assert _range(seen, SYMMETRIC, 24)[1] < 1.1 * seen.max()
    assert _range(seen, SYMMETRIC, 64)[1] > 1.5 * seen.max()


def test_no_end_moves_to_more_than_twice_its_distance():
    seen = np.float32([*np.linspace(0.01, 0.02, 90), *np.geomspace(0.02, 5, 10)])
    assert _range(seen, SYMMETRIC)[1] <= 10


@pytest.mark.parametrize(
    "seen",
    [[0.0] * 50, [1.0] * 50, [-2.0] * 20 + [2.0] * 20, [3.0], [0.5, 1.0, 2.0, 3.0]],
    ids=["zeros", "ones", "two values", "one value", "a few values"],
)
def test_what_has_no_tail_keeps_its_range(seen):
    for spec in (SYMMETRIC, SPANNING):
        assert _range(seen, spec) == (min(seen), max(seen))


def test_a_side_without_values_stays():
    seen = np.maximum(np.random.default_rng(3).normal(0, 1, 200), 0)
    low, high = _range(seen, SPANNING)
    assert low == 0
    assert high > seen.max()


def test_infinity_and_nan_say_nothing():
    seen = np.random.default_rng(4).normal(0, 1, 100).astype(np.float32)
    known = histogram(np.concatenate([seen, np.float32([np.inf, -np.inf, np.nan])]))
    kept = (float(seen.min()), float(seen.max()))
    assert range_with_tails(known, kept, SYMMETRIC, 64, 5) == range_with_tails(histogram(seen), kept, SYMMETRIC, 64, 5)
