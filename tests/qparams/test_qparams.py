"""Scale and zero point of every rule, against exact rational arithmetic and hand-worked values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from quarkfast import qparams
from quarkfast.formats.scalar import integer_type

INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32")


@pytest.mark.parametrize(
    ("dtype", "plain", "symmetric", "reduced"),
    [
        ("int4", (-8, 7), (-7, 7), (-4, 3)),
        ("uint4", (0, 15), (0, 15), (0, 7)),
        ("int8", (-128, 127), (-127, 127), (-64, 64)),
        ("uint8", (0, 255), (0, 255), (0, 127)),
        ("int16", (-32768, 32767), (-32767, 32767), (-16384, 16384)),
        ("uint16", (0, 65535), (0, 65535), (0, 32767)),
        ("int32", (-(2**31), 2**31 - 1), (1 - 2**31, 2**31 - 1), (-(2**30), 2**30)),
        ("uint32", (0, 2**32 - 1), (0, 2**32 - 1), (0, 2**31 - 1)),
    ],
)
def test_code_ranges_are_those_of_onnxruntime_and_quark(dtype, plain, symmetric, reduced):
    assert qparams.code_range(dtype) == plain
    assert qparams.code_range(dtype, symmetric=True) == symmetric
    assert qparams.code_range(dtype, reduce_range=True) == reduced
    assert qparams.code_range(dtype, symmetric=True, reduce_range=True) == reduced


def test_three_bit_codes_live_in_eight_bit_types():
    assert qparams.code_range("int8", bits=3, symmetric=True) == (-3, 3)
    assert qparams.code_range("uint8", bits=3) == (0, 7)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scale_and_zero_point_equal_exact_rational_arithmetic(rng, dtype, symmetric):
    ends = np.sort(rng.standard_normal((500, 2)) * np.exp2(rng.integers(-90, 90, (500, 1))), axis=1)
    got = qparams.from_range(ends[:, 0], ends[:, 1], dtype, symmetric=symmetric)
    for i, (low, high) in enumerate(ends):
        low, high = Fraction(min(low, 0.0)), Fraction(max(high, 0.0))
        if symmetric:
            high = max(-low, high)
            low = -high
        scale = (high - low) / (got.qmax - got.qmin)
        # Two roundings of float64 (the difference and the quotient) before the one to float32.
        assert abs(Fraction(float(got.scale[i])) / scale - 1) <= Fraction(2) ** -24 + Fraction(2) ** -51
        exact = Fraction(got.qmin + got.qmax, 2) if symmetric else Fraction(got.qmin) - low / scale
        # Half a code, plus the error of float64 over 2^32 codes.
        assert abs(Fraction(int(got.zero_point[i])) - exact) <= Fraction(1, 2) + Fraction(2) ** -18


@pytest.mark.parametrize("dtype", INTEGERS)
def test_symmetric_zero_points_are_the_middle_of_the_type(dtype):
    zero = int(qparams.from_range(-0.7, 0.3, dtype, symmetric=True).zero_point)
    bits = integer_type(dtype).bits
    assert zero == (1 << (bits - 1) if dtype.startswith("u") else 0)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("scale_dtype", ["float32", "float16"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scales_are_always_finite_and_positive(dtype, scale_dtype, symmetric):
    ends = np.float64([0, 1e-320, 1e-45, 1e-38, 1e-8, 1e-6, 1, 9e3, 3.4e38 if scale_dtype == "float32" else 3e4])
    for low, high in ((-ends, ends), (0 * ends, ends), (-ends, 0 * ends)):
        p = qparams.from_range(low, high, dtype, symmetric=symmetric, scale_dtype=scale_dtype)
        assert p.scale.dtype == scale_dtype
        assert np.isfinite(p.scale).all()
        assert (p.scale > 0).all()
        zero = p.zero_point.astype(np.int64)
        assert (zero >= p.qmin).all()
        assert (zero <= p.qmax).all()
        for rule in ("nearest", "ceil"):
            q = qparams.power_of_two(p, rule).scale
            assert (np.frexp(q.astype(np.float64))[0] == 0.5).all()


def test_an_empty_range_gets_scale_one_and_a_tiny_one_the_smallest_normal_scale():
    p = qparams.from_range([0.0, 1e-44], [0.0, 1e-44], "uint8", symmetric=True)
    assert p.scale.tolist() == [1.0, float(np.finfo(np.float32).tiny)]
    assert p.zero_point.tolist() == [128, 128]
    assert qparams.from_range(0.0, 0.0, "int8").zero_point == 0


def test_float16_scales_of_16_bit_activations_do_not_collapse_to_one():
    p = qparams.from_range(-1.0, 1.0, "int16", symmetric=True, scale_dtype="float16")
    assert p.limits()[1] >= 1.0  # 1/32767 lies among the subnormals, where scales round upwards
    assert float(p.scale) < 1.01 / 32767


def test_softmax_has_a_fixed_range():
    assert float(qparams.from_range(*qparams.SOFTMAX_RANGE, "int8", symmetric=True).scale) == np.float32(1 / 127)
    assert float(qparams.from_range(*qparams.SOFTMAX_RANGE, "uint8").scale) == np.float32(1 / 255)


def test_nearest_power_of_two_may_saturate_and_ceil_never_does():
    p = qparams.from_range([-2.8, -1.0, -127.0], [2.8, 1.0, 127.0], "int8", symmetric=True)
    assert qparams.power_of_two(p).scale.tolist() == [1 / 64, 1 / 128, 1.0]
    assert qparams.power_of_two(p, "ceil").scale.tolist() == [1 / 32, 1 / 64, 1.0]
    assert float(qparams.power_of_two(p).limits()[1][0]) == 127 / 64  # 29 % below 2.8, as Quark's NonOverflow


def test_nearest_power_of_two_equals_rounding_the_logarithm(rng):
    p = qparams.from_range(np.zeros(4000), rng.uniform(0, 1, 4000) * np.exp2(rng.integers(-100, 100, 4000)), "uint8")
    exponent = -np.rint(-np.log2(p.scale.astype(np.float64)))
    np.testing.assert_array_equal(qparams.power_of_two(p).scale, np.exp2(exponent).astype(np.float32))


def test_the_search_finds_the_smallest_error_of_each_channel(rng):
    x = (rng.standard_normal((6, 5, 40)) * np.exp2(np.arange(-2, 3))[:, None]).astype(np.float32)
    x[:, 3] = 0
    largest = np.abs(x).max((0, 2)).astype(np.float64)
    p = qparams.from_range(-largest, largest, "int8", bits=4, symmetric=True)
    found = qparams.search_power_of_two(x, p, axis=1).scale
    for channel in range(5):
        values = x[:, channel].astype(np.float64)
        errors = {}
        for each in qparams.power_of_two_candidates(p):
            scale = float(each.scale[channel])
            errors[scale] = np.square(values - np.clip(np.rint(values / scale), -7, 7) * scale).sum()
        expected = 1.0 if channel == 3 else min(errors, key=errors.__getitem__)
        assert float(found[channel]) == expected


def test_the_search_per_tensor_agrees_with_one_channel(rng):
    x = rng.standard_normal((1, 400)).astype(np.float32)
    whole = qparams.search_power_of_two(x, qparams.from_range(-4.0, 4.0, "uint8"))
    each = qparams.search_power_of_two(x, qparams.from_range([-4.0], [4.0], "uint8"), axis=0)
    assert float(whole.scale) == float(each.scale[0])


def test_dyadic_scales_are_the_nearest_ratio_and_never_zero(rng):
    p = qparams.from_range(np.zeros(50), np.exp2(rng.uniform(-30, 14, 50)) * 255, "uint8")
    got, multiplier, shift = qparams.dyadic_scale(p)
    np.testing.assert_array_equal(got.scale, multiplier / np.exp2(shift))
    assert (multiplier >= 1).all()
    for i, scale in enumerate(p.scale.astype(np.float64)):
        nearest = min(
            abs(m / 2**n - scale)
            for n in range(17)
            for m in (np.floor(scale * 2**n), np.ceil(scale * 2**n))
            if 1 <= m <= 32767
        )
        assert abs(float(got.scale[i]) - scale) == nearest


def test_dyadic_scales_of_quark_are_reproduced():
    p = qparams.from_range(0.0, 1e-4 * 255, "uint8")
    assert float(qparams.dyadic_scale(p)[0].scale) == 7 / 65536
    assert float(qparams.dyadic_scale(p, max_shift=30)[0].scale) == pytest.approx(1e-4, rel=2**-15)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qparams.code_range("float16"), TypeError, "expected an integer type, got float16"),
        (lambda: qparams.code_range("int8", bits=9), ValueError, "bits: expected 2 to 8 for int8, got 9"),
        (lambda: qparams.code_range("int8", bits=3, reduce_range=True), ValueError, "at least 4 bits, got 3"),
        (lambda: qparams.from_range(np.nan, 1.0, "int8"), ValueError, r"expected finite ranges, got \[nan, 1.0\]"),
        (lambda: qparams.from_range(0.0, np.inf, "int8"), ValueError, r"got \[0.0, inf\] at index 0; take the range"),
        (lambda: qparams.from_range(2.0, 1.0, "int8"), ValueError, r"expected rmin <= rmax, got \[2.0, 1.0\]"),
        (lambda: qparams.from_range([0.0, 1.0], 1.0, "int8"), ValueError, r"rmax: expected shape \(2,\)"),
        (lambda: qparams.from_range(0, 1, "int8", scale_dtype="float64"), TypeError, "expected float32 or float16"),
        (lambda: qparams.from_range(0, 1e9, "int8", scale_dtype="float16"), ValueError, "at most 65504 for float16"),
        (lambda: qparams.power_of_two(qparams.from_range(0, 1, "int8"), "up"), ValueError, "rule: .* got 'up'"),
        (
            lambda: qparams.power_of_two(qparams.from_range(0, 1e7, "uint8", scale_dtype="float16")),
            ValueError,
            "at most 32768 for float16",
        ),
        (
            lambda: qparams.search_power_of_two(np.float32([np.inf]), qparams.from_range(0, 1, "int8")),
            ValueError,
            "x: expected finite values, got NaN or infinity",
        ),
        (
            lambda: qparams.dyadic_scale(qparams.from_range(0, 1, "int8"), 63),
            ValueError,
            "max_shift: expected 0 to 62, got 63",
        ),
        (lambda: qparams.dyadic_scale(qparams.from_range(0, 1e9, "int8")), ValueError, "expected at most 32767"),
        (
            lambda: qparams.dyadic_scale(qparams.from_range(0, 1, "int8", scale_dtype="float16")),
            TypeError,
            "scale: expected float32, got float16",
        ),
    ],
)
def test_bad_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
