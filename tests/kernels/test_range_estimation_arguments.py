"""What range estimation refuses, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast import _core, kernels
from quarkfast.kernels import histogram

H = histogram(np.float32([1.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.percentile_range(H, 101), "percentile_range: percentile: expected 0 to 100, got 101"),
        (lambda: kernels.entropy_range(H, levels=1), "entropy_range: levels: expected 2 to 2048, got 1"),
        (lambda: kernels.entropy_range(H, rule="x"), "rule: expected 'tensorrt' or 'onnxruntime', got 'x'"),
        (
            lambda: kernels.entropy_range(H, rule="onnxruntime", bins=1000),
            "bins: expected a power of two from 128 to 4096, got 1000",
        ),
        (lambda: kernels.least_error_range(H, 1, 1), "least_error_range: expected codes with .* got 1 and 1"),
        (lambda: kernels.power_of_two_range(H, 5, 1), "power_of_two_range: expected codes with .* got 5 and 1"),
        (lambda: kernels.power_of_two_range(H, 0, 1, count=0), "count: expected 1 to 32, got 0"),
        (
            lambda: kernels.quantization_error(H, 0.0, 0, 0, 1),
            r"scale: expected .* float32 and > 0, got 0\.0",
        ),
        (
            lambda: kernels.quantization_error(H, np.nan, 0, 0, 1),
            "scale: expected .* float32 and > 0, got nan",
        ),
        (lambda: kernels.quantization_error(H, 1.0, 2, 0, 1), "zero_point: expected 0 to 1, got 2"),
        (lambda: kernels.quantization_error(H, 1.0, 0, 1, 0), "quantization_error: expected codes with"),
        (lambda: kernels.spread(H, root=2), "spread: root: expected 1 or 3, got 2"),
    ],
)
def test_bad_arguments_meet_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.spread([1.0]), r"spread: h: expected a Histogram, got \[1\.0\]"),
        (lambda: kernels.percentile_range(H, "99"), "percentile: expected a number, got '99'"),
        (lambda: kernels.percentile_range(H, 99, symmetric=1), "symmetric: expected True or False, got 1"),
        (lambda: kernels.entropy_range(H, levels=128.0), r"levels: expected an integer, got 128\.0"),
    ],
)
def test_arguments_of_another_type_meet_a_sentence(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((H.counts, 200, (0.0, 1.0), 0), "an exponent from -126 to 117"),
        ((H.counts, 0, (2.0, 1.0), 0), "extremes in order"),
        ((H.counts, 0, (0.0, 1.0), 5), "no more zeros than the first positive bin holds"),
    ],
    ids=["exponent", "extremes", "zeros"],
)
def test_the_binding_refuses_what_is_no_histogram(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        _core.spread(*arguments, 1)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda seen: _core.percentile_range(*seen, 101.0, True), "a percentile from 0 to 100"),
        (lambda seen: _core.entropy_range(*seen, 1), "2 to 2048 levels"),
        (lambda seen: _core.entropy_window_range(*seen, 100, 10), "a power of two of bins"),
        (lambda seen: _core.least_error_range(*seen, 1, 0, True), "codes of 32 bits in order"),
        (lambda seen: _core.power_of_two_range(*seen, 0, 1, True, 0), "1 to 32 candidates"),
        (lambda seen: _core.quantization_error(*seen, 0.0, 0, 0, 1), "a scale within float32"),
        (lambda seen: _core.quantization_error(*seen, 1.0, 2, 0, 1), "a zero point among the codes"),
    ],
)
def test_the_binding_refuses_other_arguments(call, expected):
    with pytest.raises(ValueError, match=expected):
        call((H.counts, H.exponent, (1.0, 1.0), 0))
