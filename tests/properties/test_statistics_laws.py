"""Laws of statistics: merging is associative and commutative, and the parts always give the whole."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import quarkfast
from quarkfast import _core, kernels, reference

ARRAYS = hnp.arrays(np.float32, st.integers(0, 200), elements=st.floats(width=32))
# Magnitudes close together, so that bins fill up, with an occasional outlier that makes them double.
CROWDED = hnp.arrays(
    np.float32, st.integers(0, 200), elements=st.one_of(st.floats(-4, 4, width=32), st.floats(-1e6, 1e6, width=32))
)


def collected(*arrays: np.ndarray) -> _core.Collector:
    collector = _core.Collector(1, histogram=True, moments=True)
    for array in arrays:
        collector.observe(0, array)
    return collector


def merged(*collectors: _core.Collector) -> _core.Collector:
    total = _core.Collector(1, histogram=True, moments=True)
    for each in collectors:
        total.merge(0, each.range(0), each.extremes(0), each.histogram(0), each.moments(0))
    return total


def state(collector: _core.Collector) -> tuple[object, ...]:
    counts, exponent = collector.histogram(0)
    return collector.range(0), collector.extremes(0), counts.tobytes(), exponent, collector.moments(0)


@given(ARRAYS, ARRAYS)
def test_merging_is_commutative(a, b):
    assert state(merged(collected(a), collected(b))) == state(merged(collected(b), collected(a)))


@given(ARRAYS, ARRAYS, ARRAYS)
def test_merging_is_associative(a, b, c):
    a, b, c = (collected(each) for each in (a, b, c))
    assert state(merged(merged(a, b), c)) == state(merged(a, merged(b, c)))


@given(ARRAYS)
def test_merging_nothing_changes_nothing(a):
    assert state(merged(collected(a), collected())) == state(collected(a))


@given(CROWDED, st.integers(0, 200), st.randoms(use_true_random=False))
def test_parts_in_any_order_give_the_histogram_of_the_whole(x, cut, random):
    order = list(range(x.size))
    random.shuffle(order)
    whole, parts = quarkfast.histogram(x), collected(x[order][:cut], x[order][cut:])
    counts, exponent = parts.histogram(0)
    assert exponent == whole.exponent
    np.testing.assert_array_equal(counts, whole.counts)
    assert quarkfast.Range(**parts.range(0)) == whole.range


@given(CROWDED, CROWDED)
def test_bins_that_double_equal_bins_counted_anew(a, b):
    counts, exponent = collected(a, b).histogram(0)
    expected = reference.merge_histograms(reference.count_histogram(a), reference.count_histogram(b))
    assert exponent == expected[1]
    np.testing.assert_array_equal(counts, expected[0])


@given(ARRAYS)
def test_the_histogram_of_negated_values_is_mirrored_but_for_zeros(x):
    x = x[x != 0]
    np.testing.assert_array_equal(quarkfast.histogram(-x).counts, quarkfast.histogram(x).counts[::-1])


@given(ARRAYS, st.randoms(use_true_random=False))
def test_moments_do_not_depend_on_order(x, random):
    order = list(range(x.size))
    random.shuffle(order)
    assert quarkfast.moments(x) == quarkfast.moments(x[order])


@given(CROWDED, st.lists(st.floats(0, 100), min_size=2, max_size=5), st.booleans())
def test_percentile_ranges_grow_with_the_percentile_and_stay_inside_what_was_seen(x, percentiles, symmetric):
    h = quarkfast.histogram(x)
    found = [kernels.percentile_range(h, p, symmetric=symmetric) for p in sorted(percentiles)]
    for (low, high), (wider_low, wider_high) in itertools.pairwise(found):
        assert wider_low <= low
        assert high <= wider_high
    if x.size:
        assert all(h.range.min <= low and high <= h.range.max for low, high in found)


@given(CROWDED, st.sampled_from([(-128, 127), (0, 255), (-8, 7)]), st.booleans())
def test_the_range_of_least_error_is_no_worse_than_the_whole_range(x, codes, symmetric):
    h = quarkfast.histogram(x)
    if h.range.finite:
        found = kernels.least_error_range(h, *codes, symmetric=symmetric)
        errors = [
            kernels.quantization_error(h, *reference.qparams_from_range(ends, *codes, symmetric), *codes)
            for ends in (found, (h.range.min, h.range.max))
        ]
        # The range is cut at what was seen, which moves the scale of a one-sided symmetric range by a rounding.
        assert errors[0] <= errors[1] * (1 + 2.0**-20)


@given(CROWDED)
def test_every_method_gives_a_finite_range(x):
    h = quarkfast.histogram(x)
    for ends in (
        kernels.percentile_range(h),
        kernels.entropy_range(h),
        kernels.entropy_range(h, rule="onnxruntime", bins=256),
        kernels.least_error_range(h, -128, 127),
        kernels.power_of_two_range(h, 0, 255, symmetric=False),
        kernels.spread(h),
    ):
        assert np.isfinite(ends).all()
