"""Statistics equal the reference on every instruction set, type, size and thread count."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast import _core, kernels, reference

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# Sizes that end inside the first chunk of 2048, at its end, behind it, and inside the second block of 63488 (moments)
# and of 126976 (histograms).
CHUNKS = (2047, 2048, 2049, 63487, 63488, 70001, 126975, 126976, 130001)


def values(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    """Return n values of every kind: random bits for 16-bit types, seasoned random bits for float32."""
    if dtype == "float32":
        return float_bits(rng, n)
    return rng.integers(0, 1 << 16, n, dtype=np.uint16).view(DTYPES[dtype])


def of_kind(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Return n float32 as tensors have them."""
    x = rng.standard_normal(n).astype(np.float32)
    return {
        "normal": x,
        "relu": np.maximum(x, 0),
        "negative": -np.abs(x),
        "constant": np.full(n, -1.25, np.float32),
        "zero": np.where(x > 0, np.float32(0.0), np.float32(-0.0)),
        "mask": np.where(x > 0, np.float32(0.0), np.float32(-3.4e38)),
        "infinite": np.where(x > 0, x, np.float32(-np.inf)),
        "nan": np.full(n, np.nan, np.float32),
        "subnormal": (x * 1e-40).astype(np.float32),
        "growing": np.ldexp(x, np.arange(n) // max(1, n // 8) * 3).astype(np.float32),
        "shrinking": np.ldexp(x, -np.arange(n) // max(1, n // 8) * 3).astype(np.float32),
        "powers of two": np.ldexp(np.sign(x), rng.integers(-20, 20, n)).astype(np.float32),
    }[kind]


KINDS = (
    "normal",
    "relu",
    "negative",
    "constant",
    "zero",
    "mask",
    "infinite",
    "nan",
    "subnormal",
    "growing",
    "shrinking",
    "powers of two",
)


def as_dict(r: quarkfast.Range) -> dict[str, float]:
    return dataclasses.asdict(r)


def assert_histograms_equal(got: quarkfast.Histogram, expected: tuple[np.ndarray, int]) -> None:
    assert got.exponent == expected[1]
    np.testing.assert_array_equal(got.counts, expected[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranges_and_histograms_of_random_bits_equal_the_reference(isa, rng, dtype):
    for n in SIZES:
        x = values(rng, n + 3, dtype)[3:]
        got = quarkfast.histogram(x)
        assert as_dict(got.range) == reference.reduce_range(x)
        assert quarkfast.reduce_range(x) == got.range
        assert_histograms_equal(got, reference.count_histogram(x))


@pytest.mark.parametrize("kind", KINDS)
def test_histograms_of_every_kind_of_tensor_equal_the_reference(isa, rng, kind):
    for n in CHUNKS:
        x = of_kind(rng, n, kind)
        got = quarkfast.histogram(x)
        assert as_dict(got.range) == reference.reduce_range(x)
        assert_histograms_equal(got, reference.count_histogram(x))
        assert int(got.counts.sum()) == got.range.finite


def test_threads_do_not_change_a_count(isa, rng):
    x = np.concatenate([of_kind(rng, 30011, kind) for kind in KINDS])
    expected = reference.count_histogram(x)
    before = quarkfast.num_threads()
    try:
        for threads in (1, 2, 3, 8):
            quarkfast.set_num_threads(threads)
            assert_histograms_equal(quarkfast.histogram(x), expected)
            assert as_dict(quarkfast.reduce_range(x)) == reference.reduce_range(x)
    finally:
        quarkfast.set_num_threads(before)


def test_a_constant_block_does_not_overflow_a_counter(isa):
    got = quarkfast.histogram(np.full(1 << 20, 3.0, np.float32))
    assert got.counts.max() == 1 << 20


@pytest.mark.parametrize(
    ("x", "exponent"),
    [
        ([], -126),
        ([0.0], -126),
        ([2.0**-115 * 0.99], -126),
        ([2.0**-115], -125),
        ([0.999], -11),
        ([1.0], -10),
        ([-1.0], -10),
        ([3.4e38], 117),
        ([np.inf, np.nan, 1.5], -10),
    ],
    ids=["empty", "zero", "narrowest", "next", "below one", "one", "minus one", "largest", "non-finite"],
)
def test_the_width_is_the_least_with_which_the_largest_magnitude_fits(x, exponent):
    assert quarkfast.histogram(np.float32(x)).exponent == exponent


@pytest.mark.parametrize("other", [1.0, 0.5], ids=["constant", "one that differs in each chunk"])
def test_counters_hold_a_block_of_equal_values(isa, other):
    x = np.ones(260_003, np.float32)
    x[::1024] = other
    found = quarkfast.histogram(x)
    counts = {int(i): int(found.counts[i]) for i in np.flatnonzero(found.counts)}
    assert sum(counts.values()) == len(x)
    assert max(counts.values()) == np.count_nonzero(x == 1)


def test_a_histogram_of_magnitudes_is_the_folded_histogram(rng):
    x = of_kind(rng, 5000, "powers of two")
    both, folded = quarkfast.histogram(x), quarkfast.histogram(np.abs(x))
    np.testing.assert_array_equal(both.counts[2048:] + both.counts[:2048][::-1], folded.counts[2048:])


def test_edges_enclose_the_values_of_their_bin():
    h = quarkfast.histogram(np.float32([0.3, -0.7]))
    low, high = np.flatnonzero(h.counts)
    assert h.edges[low] < -0.7 <= h.edges[low + 1]
    assert h.edges[high] <= 0.3 < h.edges[high + 1]
    assert h.edges.shape == (4097,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_equal_the_fractions_of_the_reference(isa, rng, dtype):
    for n in (*SIZES, 2049):
        x = values(rng, n, dtype)
        got = quarkfast.moments(x)
        assert (got.count, got.sum, got.squares) == reference.sum_moments(x)


@pytest.mark.parametrize("exponent", [-127, -106, -105, -85, 0, 127])
def test_moments_are_exact_however_far_apart_the_magnitudes_of_a_chunk_lie(isa, rng, exponent):
    for octaves in (0, 19, 20, 21, 22, 60):
        # Odd significands of 24 bits, the largest and the least of them, with the extremes of the exponents present.
        n = 2055
        exponents = np.clip(exponent - rng.integers(0, octaves + 1, n), -126, 127)
        exponents[:2] = max(exponent, -126), max(exponent - octaves, -126)
        significands = rng.integers(1 << 23, 1 << 24, n) | 1
        significands[2:6] = (1 << 24) - 1, (1 << 23) + 1, (1 << 22) + 1, (1 << 24) - (1 << 2) + 1
        x = np.ldexp(significands * rng.choice([-1.0, 1.0], n), exponents - 23).astype(np.float32)
        got = quarkfast.moments(x)
        assert (got.count, got.sum, got.squares) == reference.sum_moments(x)


def test_moments_do_not_depend_on_threads_or_order(isa, rng):
    x = float_bits(rng, 300_000)
    before = quarkfast.num_threads()
    try:
        quarkfast.set_num_threads(1)
        expected = quarkfast.moments(x)
        quarkfast.set_num_threads(3)
        assert quarkfast.moments(x) == expected
        assert quarkfast.moments(rng.permutation(x)) == expected
    finally:
        quarkfast.set_num_threads(before)


def test_sums_of_the_largest_numbers_do_not_overflow(isa):
    largest = np.finfo(np.float32).max
    got = quarkfast.moments(np.full(100_000, -largest, np.float32))
    assert got.mean == -largest
    assert got.variance == 0.0
    assert got.squares == 100_000 * int(largest) ** 2


def test_moments_of_nothing_are_zero():
    got = quarkfast.moments(np.float32([np.nan, np.inf]))
    assert (got.count, got.mean, got.variance) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    "shape", [(5,), (3, 4), (2, 3, 49), (2, 3, 4, 5), (1, 70, 3), (3, 2050), (2, 5000, 1), (2, 0, 3)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_channel_maxima_equal_the_reference_along_every_axis(isa, rng, dtype, shape):
    x = values(rng, int(np.prod(shape)), dtype).reshape(shape)
    for axis in range(-len(shape), len(shape)):
        np.testing.assert_array_equal(quarkfast.absmax(x, channel_axis=axis), reference.reduce_absmax(x, axis))
    np.testing.assert_array_equal(quarkfast.absmax(x), reference.reduce_absmax(x.reshape(1, -1), 0)[0])


def test_channel_maxima_do_not_depend_on_threads(isa, rng):
    x = float_bits(rng, 1 << 19).reshape(4, 64, 2048)
    before = quarkfast.num_threads()
    try:
        for axis in range(3):
            found = []
            for threads in (1, 2, 5):
                quarkfast.set_num_threads(threads)
                found.append(quarkfast.absmax(x, channel_axis=axis))
            np.testing.assert_array_equal(found[0], found[1])
            np.testing.assert_array_equal(found[0], found[2])
    finally:
        quarkfast.set_num_threads(before)


def test_strided_input_and_scalars_are_read(rng):
    x = rng.standard_normal((6, 7)).astype(np.float32)
    assert quarkfast.reduce_range(x.T[::2]) == quarkfast.reduce_range(x.T[::2].copy())
    assert quarkfast.reduce_range(np.float32(2.0)).max == 2.0
    assert quarkfast.absmax(np.float32(-2.0)).shape == ()


@pytest.mark.parametrize("function", ["reduce_range", "histogram", "moments", "absmax"])
def test_other_dtypes_meet_a_sentence(function):
    message = f"{function}: x: expected dtype float32, float16 or bfloat16, got float64"
    with pytest.raises(TypeError, match=message):
        getattr(quarkfast, function)(np.zeros(3))


def test_an_axis_that_does_not_exist_meets_a_sentence():
    with pytest.raises(ValueError, match="absmax: channel_axis: expected an axis of a tensor of rank 2, got 2"):
        quarkfast.absmax(np.zeros((2, 2), np.float32), channel_axis=2)


class TestCollector:
    def test_observations_add_up_to_the_statistics_of_all_values(self, isa, rng):
        parts = [
            of_kind(rng, n, kind) for n, kind in ((10, "normal"), (70_000, "growing"), (0, "normal"), (999, "mask"))
        ]
        collector = _core.Collector(2, histogram=True, moments=True)
        for part in parts:
            collector.observe(1, part)
        x = np.concatenate(parts)
        assert collector.range(1) == reference.reduce_range(x)
        counts, exponent = collector.histogram(1)
        expected = reference.count_histogram(x)
        assert exponent == expected[1]
        np.testing.assert_array_equal(counts, expected[0])
        total = quarkfast.moments(x)
        assert collector.moments(1) == (total.sum * 2**149, total.squares * 2**298)
        assert collector.range(0)["count"] == 0
        assert not collector.histogram(0)[0].any()

    def test_extremes_of_observations_are_summed_exactly(self):
        collector = _core.Collector(1)
        for low, high in ((-1.0, 2.0), (1e-45, 3e38), (-3e38, 0.0)):
            collector.observe(0, np.float32([low, high]))
        collector.observe(0, np.float32([np.nan]))
        count, low, high = collector.extremes(0)
        unit = 2**149
        assert count == 3
        assert low == int(-unit) + 1 - int(np.float32(3e38)) * unit
        assert high == 2 * unit + int(np.float32(3e38)) * unit

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_float_type_is_observed_as_it_is(self, rng, dtype):
        x = values(rng, 5000, dtype)
        collector = _core.Collector(1, histogram=True)
        collector.observe(0, x)
        assert collector.range(0) == reference.reduce_range(x)

    def test_merged_collectors_equal_one_that_saw_everything(self, rng):
        x = of_kind(rng, 10_000, "shrinking")
        whole, total = (_core.Collector(1, histogram=True, moments=True) for _ in range(2))
        whole.observe(0, x[:3000])
        whole.observe(0, x[3000:])
        for part in (x[3000:], x[:3000]):
            each = _core.Collector(1, histogram=True, moments=True)
            each.observe(0, part)
            total.merge(0, each.range(0), each.extremes(0), each.histogram(0), each.moments(0))
        assert total.range(0) == whole.range(0)
        assert total.extremes(0) == whole.extremes(0)
        assert total.moments(0) == whole.moments(0)
        assert total.histogram(0)[1] == whole.histogram(0)[1]
        np.testing.assert_array_equal(total.histogram(0)[0], whole.histogram(0)[0])

    def test_a_collector_without_histograms_says_so(self):
        collector = _core.Collector(1)
        with pytest.raises(ValueError, match=r"Collector\.histogram: expected a collector opened with histogram=True"):
            collector.histogram(0)
        with pytest.raises(ValueError, match=r"Collector\.moments: expected a collector opened with moments=True"):
            collector.moments(0)

    def test_each_slot_gathers_what_is_asked_of_it(self, rng):
        x = of_kind(rng, 5000, "normal")
        some = _core.Collector(3, histogram=[True, False, False], moments=[False, True, False])
        every = _core.Collector(1, histogram=True, moments=True)
        for collector, slot in ((some, 0), (some, 1), (some, 2), (every, 0)):
            collector.observe(slot, x)
        np.testing.assert_array_equal(some.histogram(0)[0], every.histogram(0)[0])
        assert some.moments(1) == every.moments(0)
        assert all(some.range(slot) == every.range(0) for slot in range(3))
        for slot in (1, 2):
            with pytest.raises(ValueError, match=r"Collector\.histogram: expected a collector opened with histogram="):
                some.histogram(slot)
        for slot in (0, 2):
            with pytest.raises(ValueError, match=r"Collector\.moments: expected a collector opened with moments="):
                some.moments(slot)

    @pytest.mark.parametrize("what", ["histogram", "moments"])
    def test_flags_of_another_number_than_the_slots_meet_a_sentence(self, what):
        with pytest.raises(ValueError, match=f"Collector: {what}: expected one flag for each of 2 slots, got 3"):
            _core.Collector(2, **{what: [True, False, True]})

    def test_a_slot_that_does_not_exist_meets_a_sentence(self):
        with pytest.raises(IndexError, match="Collector: slot: expected an index below 1, got 1"):
            _core.Collector(1).range(1)

    @pytest.mark.parametrize(
        ("counts", "exponent", "error", "message"),
        [
            (np.zeros(4096, np.int64), 0, TypeError, "histogram: counts: expected dtype uint64, got int64"),
            (np.zeros(4096, ">u8"), 0, TypeError, "histogram: counts: expected dtype uint64, got >u8"),
            (np.zeros(100, np.uint64), 0, ValueError, "histogram: counts: expected 4096 elements, got 100"),
            (
                np.zeros(4096, np.uint64),
                118,
                ValueError,
                "histogram: exponent: expected a value from -126 to 117, got 118",
            ),
        ],
        ids=["dtype", "byte order", "size", "exponent"],
    )
    def test_arrays_that_are_no_histogram_are_refused(self, counts, exponent, error, message):
        collector = _core.Collector(1, histogram=True)
        with pytest.raises(error, match=message):
            collector.merge(0, collector.range(0), (0, 0, 0), (counts, exponent), None)

    @pytest.mark.parametrize("number", [np.uint64, np.ulonglong])
    def test_every_type_of_64_bits_is_uint64(self, number):
        collector = _core.Collector(1, histogram=True)
        collector.merge(0, collector.range(0), (0, 0, 0), (np.arange(4096).astype(number), 0), None)
        assert collector.histogram(0)[0].tolist() == list(range(4096))


@pytest.mark.parametrize("function", [quarkfast.absmax, kernels.extremes])
def test_the_old_name_of_the_axis_works_and_warns_of_the_new_one(function):
    x = np.float32([[1, -3], [2, 5]])
    with pytest.warns(
        DeprecationWarning, match=r"axis: expected channel_axis, the new name .*, got axis; from the next"
    ):
        old = function(x, 0)
    np.testing.assert_array_equal(old, function(x, channel_axis=0))
    with pytest.raises(ValueError, match="channel_axis: expected it alone, got axis too"):
        function(x, 0, channel_axis=0)
