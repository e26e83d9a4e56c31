"""What must hold of integer quantization whatever the numbers, the scale and the type."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import quarkfast
from quarkfast import qparams
from quarkfast.formats.scalar import qtype

TYPES = st.sampled_from(["int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"])
# Scales whose products with any 16-bit code are normal numbers.
SCALES = st.floats(2.0**-100, 2.0**100, width=32)
FLOATS = arrays(np.float32, st.integers(1, 70), elements=st.floats(width=32))
FINITE = arrays(np.float32, st.integers(1, 70), elements=st.floats(-1e6, 1e6, width=32))
# A float32 quotient and a float32 product are each off by at most 2^-24 of their value.
RELATIVE_ERROR = 2.0**-23 * (1 + 2.0**-20)


@st.composite
def zero_points(draw: st.DrawFn, dtype: str) -> int:
    row = qtype(dtype)
    return draw(st.integers(int(row.qmin), int(row.qmax)))


@settings(max_examples=200)
@given(st.data(), TYPES, SCALES, FLOATS)
def test_codes_are_monotone(data, dtype, scale, x):
    x = np.sort(x[~np.isnan(x)])
    codes = quarkfast.quantize_linear(x, scale, data.draw(zero_points(dtype)), dtype=dtype).astype(np.int64)
    assert (np.diff(codes) >= 0).all()


@settings(max_examples=200)
@given(st.data(), TYPES, SCALES, FLOATS)
def test_fake_quantization_is_idempotent_and_keeps_zero(data, dtype, scale, x):
    zero = data.draw(zero_points(dtype))
    once = quarkfast.fake_quantize_linear(x, scale, zero, dtype=dtype)
    np.testing.assert_array_equal(quarkfast.fake_quantize_linear(once, scale, zero, dtype=dtype), once)
    assert (once[x == 0] == 0).all()
    assert not np.isnan(once).any()


@settings(max_examples=200)
@given(st.data(), TYPES, SCALES)
def test_every_code_comes_back_from_its_value(data, dtype, scale):
    row = qtype(dtype)
    codes = np.arange(row.qmin, row.qmax + 1).astype(row.dtype)
    zero = data.draw(zero_points(dtype))
    values = quarkfast.dequantize_linear(codes, scale, zero)
    np.testing.assert_array_equal(quarkfast.quantize_linear(values, scale, zero, dtype=dtype), codes)


@settings(max_examples=200)
@given(TYPES, FINITE, st.booleans())
def test_the_error_is_half_a_step_within_the_range_that_made_the_scale(dtype, x, symmetric):
    p = qparams.from_range(float(x.min()), float(x.max()), dtype, symmetric=symmetric)
    fake = quarkfast.fake_quantize_linear(x, p.scale, p.zero_point, dtype=dtype, qmin=p.qmin, qmax=p.qmax)
    low, high = (float(v) for v in p.limits())
    inside = np.clip(x.astype(np.float64), low, high)
    bound = float(p.scale) / 2 + np.abs(inside) * RELATIVE_ERROR
    assert (np.abs(fake - inside) <= bound).all()
    # The rounded zero point moves the ends of the range by half a step at most.
    assert (np.abs(inside - x) <= float(p.scale) / 2 + np.abs(x) * RELATIVE_ERROR).all()


@given(TYPES, SCALES, st.integers(1, 70))
def test_nan_becomes_the_lowest_code(dtype, scale, n):
    codes = quarkfast.quantize_linear(np.full(n, np.nan, np.float32), scale, dtype=dtype)
    assert (codes.astype(np.int64) == qtype(dtype).qmin).all()


@given(st.sampled_from([2, 3, 4]), st.sampled_from(["int8", "uint8"]), st.integers(0, 100), st.randoms())
def test_packing_is_lossless_at_the_least_size(bits, dtype, n, random):
    low = -(1 << (bits - 1)) if dtype == "int8" else 0
    codes = np.array([random.randrange(low, low + (1 << bits)) for _ in range(n)], dtype)
    packed = quarkfast.pack_codes(codes, bits=bits)
    assert packed.size == (n * bits + 7) // 8
    np.testing.assert_array_equal(quarkfast.unpack_codes(packed, dtype, n, bits=bits), codes)
