"""From statistics to ranges: each method against a slow telling on the values themselves."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from quarkfast import kernels, qparams, reference
from quarkfast.config import TensorSpec
from quarkfast.errors import CalibrationError
from quarkfast.kernels import Range, histogram
from quarkfast.ranges.estimate import estimate_range, estimate_ranges
from quarkfast.ranges.methods import normal_clip, params_for
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import ValuesSummary
from support.percentile_telling import percentile_ends

RNG = np.random.default_rng(5)
VALUES = {
    "normal": RNG.normal(size=20_000),
    "skewed": RNG.normal(size=20_000) ** 2 - 0.5,
    "heavy tails": RNG.standard_t(2, 20_000),
    "half zeros": np.maximum(RNG.normal(size=20_000), 0),
    "negative": -np.abs(RNG.normal(3, 1, 5_000)),
}
VALUES = {name: values.astype(np.float32) for name, values in VALUES.items()}
SPECS = (
    TensorSpec("int8"),
    TensorSpec("uint8", symmetric=False),
    TensorSpec("int16"),
    TensorSpec("int8", scale="power_of_two"),
)
values_and_specs = pytest.mark.parametrize(
    ("name", "spec"), [(name, spec) for name in VALUES for spec in SPECS], ids=lambda each: getattr(each, "dtype", each)
)


def _with(spec: TensorSpec, **changed) -> TensorSpec:
    return dataclasses.replace(spec, **changed)


def _found(values, spec):
    return estimate_range(ValuesSummary(histogram(values)), spec, "x")


def _error(values, ends, spec, power=2):
    """Mean error of quantizing the values themselves."""
    params = params_for(*ends, spec)
    fake = kernels.fake_quantize_linear(
        values, params.scale, params.zero_point, dtype=spec.dtype, qmin=params.qmin, qmax=params.qmax
    )
    return float((np.abs(values.astype(np.float64) - fake) ** power).mean())


@values_and_specs
def test_minmax_is_exact(name, spec):
    values = VALUES[name]
    for method in ("minmax", "nonoverflow", "moving_average"):
        assert _found(values, _with(spec, method=method)) == (values.min(), values.max())
        reach = np.abs(values).max()
        assert _found(values, _with(spec, method=method, range_symmetric=True)) == (-reach, reach)


@values_and_specs
@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9])
def test_a_percentile_is_that_of_the_values_within_one_bin(name, spec, percent):
    values = VALUES[name].astype(np.float64)
    low, high = _found(VALUES[name], _with(spec, method="percentile", percentile=percent))
    width = 2.0 ** histogram(VALUES[name]).exponent
    expected = percentile_ends(values, percent, spec.symmetric)
    # The value of that rank and the place of the rank lie in the same bin, or at either edge of it.
    assert abs(low - expected[0]) <= width
    assert abs(high - expected[1]) <= width


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("bins", [None, 512])
def test_entropy_is_the_slow_telling_on_the_same_histogram(name, bins):
    h = histogram(VALUES[name])
    seen = (h.counts, h.exponent, h.range.min, h.range.max, h.range.zero)
    expected = reference.entropy_window_range(seen, bins, 128) if bins else reference.entropy_range(seen, 128)
    assert _found(VALUES[name], TensorSpec("uint8", symmetric=False, method="entropy", bins=bins)) == expected


@pytest.mark.parametrize("name", ["skewed", "negative"])
@pytest.mark.parametrize("spec", [SPECS[1], SPECS[3]], ids=lambda spec: spec.scale)
def test_least_error_is_the_slow_telling_on_the_same_histogram(name, spec):
    h = histogram(VALUES[name])
    seen = (h.counts, h.exponent, h.range.min, h.range.max, h.range.zero)
    codes = qparams.from_range(0, 0, spec.dtype, symmetric=spec.symmetric)
    arguments = (seen, codes.qmin, codes.qmax, spec.symmetric)
    if spec.scale == "power_of_two":
        expected = reference.power_of_two_range(*arguments, 5)
    else:
        expected = reference.least_error_range(*arguments)
    assert _found(VALUES[name], _with(spec, method="minmse")) == expected


@values_and_specs
def test_auto_leaves_no_more_expected_error_than_any_method_it_chooses_from(name, spec):
    h = histogram(VALUES[name])

    def expected_error(method, **changed):
        params = params_for(*_found(VALUES[name], _with(spec, method=method, **changed)), spec)
        return kernels.quantization_error(h, float(params.scale), int(params.zero_point), params.qmin, params.qmax)

    others = [expected_error(method) for method in ("minmax", "minmse")]
    others += [expected_error("percentile", percentile=percent) for percent in (99.9, 99.99, 99.999)]
    assert expected_error("auto") == min(others)


@values_and_specs
@pytest.mark.parametrize(("metric", "power"), [("mae", 1), ("mse", 2)])
def test_layerwise_percentile_takes_the_candidate_of_least_error(name, spec, metric, power):
    values, percents = VALUES[name], (90.0, 99.0, 99.99)
    found = _found(values, _with(spec, method="layerwise_percentile", metric=metric, percentiles=percents))
    candidates = [_found(values, _with(spec, method="percentile", percentile=percent)) for percent in percents]
    assert found in candidates
    # Errors of the values themselves; the histogram takes them as evenly spread inside a bin.
    least = min(_error(values, ends, spec, power) for ends in candidates)
    assert _error(values, found, spec, power) <= 1.05 * least


def test_distribution_reaches_as_far_as_a_normal_distribution_asks_for():
    values = VALUES["normal"]
    low, high = _found(values, TensorSpec("int4", symmetric=False, method="distribution"))
    reach = normal_clip(4) * values.std(dtype=np.float64)
    # Middles of bins stand for values: the mean is off by at most half a bin, the deviation by far less.
    width = 2.0 ** histogram(values).exponent
    assert abs(low - (values.mean(dtype=np.float64) - reach)) <= width
    assert abs(high - (values.mean(dtype=np.float64) + reach)) <= width


def test_distribution_of_cube_roots_reaches_further_where_tails_are_heavy():
    values = VALUES["heavy tails"]
    same, roots = (
        _found(values, TensorSpec("int8", method="distribution", scenario=scenario)) for scenario in ("same", "p3")
    )
    assert same[1] < roots[1] <= np.abs(values).max()


def test_distribution_stays_within_what_was_seen_and_zero():
    assert _found(VALUES["half zeros"], TensorSpec("uint8", symmetric=False, method="distribution"))[0] == 0
    low, high = _found(VALUES["negative"], TensorSpec("int8", symmetric=False, method="distribution"))
    assert VALUES["negative"].min() <= low < high <= 0


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_reach_for_a_normal_distribution_has_the_least_error(bits):
    x = np.linspace(-12, 12, 2_000_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])

    def cost(c):
        return c * c / (3 * 4.0**bits) + (np.maximum(np.abs(x) - c, 0) ** 2 * density).sum()

    c = normal_clip(bits)
    assert cost(c) < min(cost(0.99 * c), cost(1.01 * c))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.dtype} {spec.scale}")
@pytest.mark.parametrize(
    "values",
    [[0.0, 0.0], [-0.0], [3.0, 3.0], [-1e-40], [np.nan, np.inf], [3.4e38, -3.4e38], [1.0, np.nan, -np.inf]],
    ids=str,
)
def test_every_method_gives_every_tensor_a_finite_positive_scale(method, spec, values):
    spec = _with(spec, method=method)
    low, high = estimate_range(ValuesSummary(histogram(np.float32(values))), spec, "x")
    if low > high:  # nothing finite was seen
        low = high = 0.0
    scale = params_for(low, high, spec).scale
    assert np.isfinite(scale)
    assert scale > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_reads_histograms_says_so_where_there_is_none(method):
    class Alone:
        range = Range(-1.0, 2.0, 3, 0, 0, 0)
        histogram = None
        mean_extremes = (-1.0, 2.0)

    spec = TensorSpec("int8", symmetric=False, method=method)
    if not METHODS[method].needs_histogram:
        assert estimate_ranges({"x": Alone()}, {"x": spec}) == {"x": Alone.range}
        return
    message = f"calibration: expected a histogram of tensor 'x', which method '{method}' reads, got its range alone"
    with pytest.raises(CalibrationError, match=message):
        estimate_range(Alone(), spec, "x")
