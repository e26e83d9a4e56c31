"""Range estimation equals the reference, and onnxruntime's where both compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast import kernels, qparams, reference
from quarkfast.kernels import Histogram, histogram

# The integral of a bin is a difference of two values of G, each rounded at its own size: 2^-52 times at most 2^20 (a
# position of 2^11 bins, scales down to 2^-10 of a bin width or of the largest value) for terms that are compared.
ERROR_TOLERANCE = 2.0**-32
# Sums of at most 4096 terms, each from a logarithm good to two units in the last place.
DIVERGENCE_TOLERANCE = 4096 * 2.0**-50


def sample(kind: str, n: int = 3_000) -> np.ndarray:
    rng = np.random.default_rng(7)
    x = rng.standard_normal(n).astype(np.float32)
    return {
        "normal": x,
        "shifted": x + 3,
        "relu": np.maximum(x, 0),
        "heavy": np.float32(rng.standard_t(2, n)),
        "outlier": np.append(x, np.float32(300.0)),
        "uniform": np.float32(rng.uniform(-1, 1, n)),
        "sparse": np.where(rng.random(n) < 0.99, np.float32(0), x),
        "negative": -np.abs(x),
        "far": x * np.float32(0.01) + 5,
        "few": np.float32([0.5, -3.0, 7.25]),
        "one": np.float32([2.5]),
        "constant": np.full(100, -1.5, np.float32),
        "zero": np.zeros(10, np.float32),
        "nothing": np.float32([np.nan]),
    }[kind]


KINDS = (
    "normal",
    "shifted",
    "relu",
    "heavy",
    "outlier",
    "uniform",
    "sparse",
    "negative",
    "far",
    "few",
    "one",
    "constant",
    "zero",
    "nothing",
)
CODES = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint16": (0, 65535), "narrow": (-127, 127)}


def seen(h: Histogram) -> tuple[np.ndarray, int, float, float, int]:
    return h.counts, h.exponent, h.range.min, h.range.max, h.range.zero


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("kind", KINDS)
def test_percentiles_equal_the_reference(kind, symmetric):
    h = histogram(sample(kind))
    for percentile in (0, 0.1, 37.0, 50, 99, 99.9, 99.999, 100):
        got = kernels.percentile_range(h, percentile, symmetric=symmetric)
        assert got == reference.percentile_range(seen(h), percentile, symmetric)


@pytest.mark.parametrize("kind", ["normal", "shifted", "relu", "heavy", "uniform", "negative", "far"])
def test_percentiles_are_within_one_bin_of_those_of_the_values(kind):
    x = sample(kind, 20_000).astype(np.float64)
    h = histogram(x.astype(np.float32))
    width = 2.0**h.exponent
    for percentile in (90.0, 99.0, 99.9):
        _, high = kernels.percentile_range(h, percentile)
        exact = np.percentile(np.abs(x), percentile, method="inverted_cdf")
        assert min(exact, h.range.max) - width <= high <= min(exact, h.range.max) + width
        low, high = kernels.percentile_range(h, percentile, symmetric=False)
        cut = int(x.size * (100 - percentile) / 200)  # so many values lie outside, give or take one
        ordered = np.sort(x)
        assert ordered[cut - 1] - width <= low <= ordered[cut + 1] + width
        assert ordered[-cut - 2] - width <= high <= ordered[-cut] + width


def test_a_percentile_of_100_keeps_everything_exactly():
    h = histogram(np.float32([-1.1, 2.3]))
    assert kernels.percentile_range(h, 100, symmetric=False) == (h.range.min, h.range.max)
    assert kernels.percentile_range(h, 100) == (h.range.min, h.range.max)


def test_half_zeros_leave_the_lower_percentile_at_zero():
    h = histogram(sample("relu"))
    assert kernels.percentile_range(h, 99.0, symmetric=False)[0] == 0.0


@pytest.mark.parametrize("levels", [64, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_entropy_ranges_have_the_least_divergence_of_the_reference(kind, levels):
    h = histogram(sample(kind))
    found = reference.entropy_divergences(seen(h), levels)
    got = kernels.entropy_range(h, levels=levels)
    least = min(found.values(), default=0.0)
    fits = [bins for bins, value in found.items() if value <= least + DIVERGENCE_TOLERANCE]
    thresholds = {max(abs(v) for v in got), max(-h.range.min, h.range.max)}
    assert got == reference.entropy_range(seen(h), levels) or thresholds & {bins * 2.0**h.exponent for bins in fits}


@pytest.mark.parametrize(("bins", "levels"), [(128, 128), (512, 128), (256, 64)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_entropy_windows_equal_the_reference(kind, bins, levels):
    h = histogram(sample(kind))
    got = kernels.entropy_range(h, rule="onnxruntime", bins=bins, levels=levels)
    assert got == reference.entropy_window_range(seen(h), bins, levels)


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("kind", KINDS)
def test_expected_errors_equal_the_integral_of_the_reference(isa, kind, codes):
    h = histogram(sample(kind))
    qmin, qmax = CODES[codes]
    for ends in ((h.range.min, h.range.max), (h.range.min / 3, h.range.max / 3)):
        if not np.isfinite(ends).all():
            continue
        scale, zero = reference.qparams_from_range(ends, qmin, qmax, False)
        got = kernels.quantization_error(h, scale, zero, qmin, qmax)
        assert got == pytest.approx(reference.quantization_error(seen(h), scale, zero, qmin, qmax), rel=ERROR_TOLERANCE)


def test_errors_of_narrow_bins_beside_a_code_are_not_lost_in_those_of_wide_ones():
    # Bins of 1/680 of a step, and all values within one of 0 or 3: the error is millions of times less than 3 / 12.
    x = np.concatenate([np.full(6, 3.3999999e38, np.float32), np.full(12, 1e35, np.float32)])
    h = histogram(x)
    scale = 1.1333332835774387e38
    expected = reference.quantization_error(seen(h), scale, -2, -2, 1)
    assert kernels.quantization_error(h, scale, -2, -2, 1) == pytest.approx(expected, rel=ERROR_TOLERANCE)


def test_every_instruction_set_gives_the_same_error_to_the_bit():
    import quarkfast

    h = histogram(sample("heavy"))
    found = set()
    for name in quarkfast.available_isas():
        with quarkfast.use_isa(name):
            found.add(kernels.quantization_error(h, 0.0123, 3, -128, 127))
            found.add(kernels.quantization_error(h, 0.0123, 3, -128, 127))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("kind", "codes", "zero"), [("normal", "int8", 0), ("shifted", "uint8", 90), ("heavy", "int4", 0)]
)
def test_expected_errors_are_those_of_real_codes(kind, codes, zero):
    x = sample(kind, 200_000)
    qmin, qmax = CODES[codes]
    scale = np.float32(8 / (qmax - qmin))
    dtype = "int8" if qmin < 0 else "uint8"
    fake = kernels.fake_quantize_linear(x, scale, zero, dtype=dtype, qmin=qmin, qmax=qmax)
    measured = np.square(x.astype(np.float64) - fake).mean()
    # A bin of the histogram is at most 1/30 of a step here; values inside it are not spread evenly, but nearly.
    assert kernels.quantization_error(histogram(x), float(scale), zero, qmin, qmax) == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("codes", ["int8", "uint8", "int4"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_for_the_least_error_equals_the_reference(kind, codes, symmetric):
    h = histogram(sample(kind))
    qmin, qmax = CODES[codes]

    def error(_seen: object, scale: float, zero: int, low: int, high: int) -> float:
        return kernels.quantization_error(h, scale, zero, low, high)

    got = kernels.least_error_range(h, qmin, qmax, symmetric=symmetric)
    assert got == reference.least_error_range(seen(h), qmin, qmax, symmetric, error)


@pytest.mark.parametrize("kind", ["normal", "relu", "heavy", "outlier", "sparse", "shifted"])
def test_no_other_threshold_on_a_grid_has_less_error(kind):
    h = histogram(sample(kind))
    found = kernels.least_error_range(h, -8, 7)

    def error(ends: tuple[float, float]) -> float:
        scale, zero = reference.qparams_from_range(ends, -8, 7, True)
        return kernels.quantization_error(h, scale, zero, -8, 7)

    top = max(-h.range.min, h.range.max)
    grid = [error((-top * k / 256, top * k / 256)) for k in range(1, 257)]
    # The search is local after its first pass: a grid of another pitch may be luckier, but hardly.
    assert error(found) <= min(grid) * 1.02


@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("kind", KINDS)
def test_power_of_two_ranges_equal_the_reference(kind, codes, symmetric):
    h = histogram(sample(kind))
    qmin, qmax = CODES[codes]
    got = kernels.power_of_two_range(h, qmin, qmax, symmetric=symmetric)
    assert got == reference.power_of_two_range(seen(h), qmin, qmax, symmetric, 5)


def test_codes_of_one_bit_have_a_finite_scale_at_the_end_of_float32():
    h = histogram(np.float32([-3.4e38, 1.0, 3.4e38]))
    got = kernels.power_of_two_range(h, 0, 1, symmetric=True)
    assert got == reference.power_of_two_range(seen(h), 0, 1, True, 5)
    assert np.abs(got).max() <= 2.0**127


@pytest.mark.parametrize("codes", ["int8", "uint8", "uint16", "uint2"])
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
def test_scales_inside_the_search_are_those_of_qparams(codes, symmetric):
    for ends in ((-1.0, 3.0), (0.0, 2.7), (-5.0, -1.0), (0.25, 0.5), (0.0, 0.0), (-1e-45, 1e-45), (-1e38, 3e38)):
        expected = qparams.from_range(*ends, codes, symmetric=symmetric)
        scale, zero = reference.qparams_from_range(ends, expected.qmin, expected.qmax, symmetric)
        assert (scale, zero) == (float(expected.scale), int(expected.zero_point))


@pytest.mark.parametrize("root", [1, 3])
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_spreads_equal_the_reference(kind, root):
    h = histogram(sample(kind))
    # The reference adds in pairs, the kernel in order: 4096 additions may differ by that many roundings.
    expected = reference.spread(seen(h), root)
    top = max(abs(h.range.min), abs(h.range.max), 1.0)
    assert kernels.spread(h, root=root) == pytest.approx(expected, rel=1e-9, abs=1e-9 * top)


class TestAgainstOnnxruntime:
    """The histogram is ours, the calibrator theirs."""

    @pytest.fixture
    def collector(self):
        calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
        return calibrate.HistogramCollector("entropy", False, 128, 128, 99.9, "same")

    @staticmethod
    def theirs(h: Histogram, bins: int) -> tuple[np.ndarray, np.ndarray, np.float32, np.float32]:
        counts = h.counts.reshape(bins, -1).sum(axis=1).astype(np.int64)
        edges = h.edges[:: 4096 // bins].astype(np.float32)
        return counts, edges, np.float32(h.range.min), np.float32(h.range.max)

    @pytest.mark.parametrize("kind", ["normal", "shifted", "heavy", "uniform", "relu"])
    @pytest.mark.parametrize("bins", [128, 256, 512])
    def test_entropy_windows_are_theirs(self, collector, kind, bins):
        h = histogram(sample(kind))
        expected = collector.get_entropy_threshold(self.theirs(h, bins), 128)
        got = kernels.entropy_range(h, rule="onnxruntime", bins=bins, levels=128)
        assert got == tuple(float(v) for v in expected[:2])

    @pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "asymmetric"])
    @pytest.mark.parametrize("kind", ["normal", "shifted", "heavy", "uniform"])
    def test_percentiles_are_theirs_to_one_bin(self, collector, kind, symmetric):
        h = histogram(sample(kind, 100_000))
        counts, edges, low, high = self.theirs(h, 4096)
        if symmetric:  # theirs wants the histogram of magnitudes
            counts, edges = counts[2048:] + counts[:2048][::-1], edges[2048:]
        collector.symmetric, collector.percentile = symmetric, 99.0
        collector.histogram_dict = {"x": (counts, edges, low, high)}
        expected = collector.compute_percentile()["x"][:2]
        got = kernels.percentile_range(h, 99.0, symmetric=symmetric)
        width = 2.0**h.exponent
        assert all(abs(float(a) - b) <= width for a, b in zip(expected, got, strict=True))

    @pytest.mark.parametrize(("scenario", "root"), [("same", 1), ("p3", 3)])
    def test_spreads_are_theirs(self, collector, scenario, root):
        h = histogram(sample("shifted"))
        counts, edges, _, _ = self.theirs(h, 4096)
        mean, deviation = collector._avg_std(counts, edges, power=1 if root == 1 else 1.0 / 3.0)
        # Theirs is float32.
        assert kernels.spread(h, root=root) == pytest.approx((float(mean), float(deviation)), rel=1e-4)
