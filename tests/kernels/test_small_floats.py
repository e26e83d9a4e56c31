"""Casts to the floats of 16 bits and fewer are those of ml_dtypes and of the reference, bit for bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast.kernels.casts import _CODES
from quarkfast.reference import small_floats

TYPES = {code: dtype for dtype, code in _CODES.items()}
SMALL = [code for code in TYPES if code not in ("f16", "bf16")]
SAMPLES = 1 << 17  # of the 2^32 inputs; coprime steps visit all exponents, signs and low bits
CHUNK = 1 << 19  # arrays of 2 MiB: larger ones are mapped anew for every chunk


def bits(x: Any) -> Any:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def codes_of(code: str) -> Any:
    """Every code of a type."""
    dtype = TYPES[code]
    count = 1 << int(ml_dtypes.finfo(dtype).bits)
    return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype)


def everywhere(count: int) -> Any:
    """float32 of evenly spaced bit patterns, and the ties between the codes of every type with their neighbours."""
    spread = (np.arange(count, dtype=np.uint64) * 4294967291 // count).astype(np.uint32)
    found = [spread]
    for code in SMALL:
        values = codes_of(code).astype(np.float32)
        values = np.sort(values[np.isfinite(values)]).astype(np.float64)
        middles = ((values[1:] + values[:-1]) / 2).astype(np.float32).view(np.uint32)
        last = np.float32([values[-1] + (values[-1] - values[-2]) / 2]).view(np.uint32)
        for delta in (0xFFFFFFFF, 0, 1):  # the neighbours below and above
            found += [part + np.uint32(delta) for part in (middles, last, last | np.uint32(1 << 31))]
    return np.concatenate(found).astype(np.uint32).view(np.float32)


def told_by_ml_dtypes(x: Any, code: str) -> Any:
    with np.errstate(all="ignore"):
        y = bits(x.astype(TYPES[code]))
    # NumPy keeps a NaN signalling, if need be by another payload; docs/numerics.md makes it quiet.
    if code == "f16" and np.isnan(x).any():
        told = x.view(np.uint32)
        y = np.where(np.isnan(x), (told >> 16) & 0x8000 | 0x7E00 | (told >> 13) & 0x3FF, y)
    return y


@pytest.mark.parametrize("code", TYPES)
def test_casts_down_are_those_of_ml_dtypes(isa: str, code: str) -> None:
    x = everywhere(SAMPLES)
    np.testing.assert_array_equal(bits(quarkfast.cast(x, TYPES[code])), told_by_ml_dtypes(x, code))


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", TYPES)
def test_casts_down_are_those_of_ml_dtypes_for_all_float32(code: str) -> None:
    first = np.arange(CHUNK, dtype=np.uint32)
    for begin in range(0, 1 << 32, CHUNK):
        x = (first + np.uint32(begin)).view(np.float32)
        got = quarkfast.cast(x, TYPES[code])
        assert np.array_equal(bits(got), told_by_ml_dtypes(x, code)), hex(begin)
        rounded = quarkfast.round_trip(x, TYPES[code])
        assert np.array_equal(bits(rounded), bits(quarkfast.cast(got, np.float32))), hex(begin)


@pytest.mark.exhaustive
def test_every_instruction_set_makes_the_same_float16_of_all_float32() -> None:
    first = np.arange(CHUNK, dtype=np.uint32)
    for begin in range(0, 1 << 32, CHUNK):
        x = (first + np.uint32(begin)).view(np.float32)
        made = set()
        for isa in quarkfast.available_isas():
            with quarkfast.use_isa(isa):
                kinds = (quarkfast.cast(x, "float16", saturate=flag) for flag in (False, True))
                made.add((*(each.tobytes() for each in kinds), quarkfast.round_trip(x, "float16").tobytes()))
        assert len(made) == 1, hex(begin)


@pytest.mark.parametrize("code", SMALL)
def test_casts_up_are_those_of_ml_dtypes_for_every_code(isa: str, code: str) -> None:
    x = codes_of(code)
    wide = quarkfast.cast(x, np.float32)
    np.testing.assert_array_equal(bits(wide), bits(x.astype(np.float32)))
    np.testing.assert_array_equal(bits(wide), bits(small_floats.decode(x, code)))


@pytest.mark.parametrize("saturate", [False, True], ids=["plain", "saturate"])
@pytest.mark.parametrize("code", SMALL)
def test_casts_and_round_trips_equal_the_reference(isa: str, rng: Any, code: str, saturate: bool) -> None:
    x = np.concatenate([float_bits(rng, 20000), everywhere(50000)])
    told = small_floats.encode(x, code, saturate)
    np.testing.assert_array_equal(bits(quarkfast.cast(x, TYPES[code], saturate=saturate)), bits(told))
    rounded = quarkfast.round_trip(x, TYPES[code], saturate=saturate)
    np.testing.assert_array_equal(bits(rounded), bits(small_floats.decode(told, code)))


@pytest.mark.parametrize("code", TYPES)
def test_saturation_is_the_plain_cast_of_clipped_values(isa: str, code: str) -> None:
    x = everywhere(SAMPLES)
    largest = np.float32(float(ml_dtypes.finfo(TYPES[code]).max))
    clipped = np.where(np.isnan(x) | (np.abs(x) <= largest), x, np.copysign(largest, x))
    got = quarkfast.cast(x, TYPES[code], saturate=True)
    np.testing.assert_array_equal(bits(got), bits(quarkfast.cast(clipped, TYPES[code])))
    rounded = quarkfast.round_trip(x, TYPES[code], saturate=True)
    np.testing.assert_array_equal(bits(rounded), bits(quarkfast.cast(got, np.float32)))


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("code", SMALL)
def test_all_16_bit_inputs_go_through_float32(isa: str, code: str, source: str) -> None:
    x = codes_of(source)
    wide = quarkfast.cast(x, np.float32)
    np.testing.assert_array_equal(bits(quarkfast.cast(x, TYPES[code])), told_by_ml_dtypes(wide, code))
    back = quarkfast.cast(codes_of(code), TYPES[source])
    np.testing.assert_array_equal(bits(back), told_by_ml_dtypes(codes_of(code).astype(np.float32), source))


@pytest.mark.parametrize("code", SMALL)
def test_every_size_writes_its_own_bytes_only_also_in_place(isa: str, rng: Any, code: str) -> None:
    for n in SIZES:
        x = np.empty(n + 3, np.float32)[3:]
        x[:] = float_bits(rng, n)
        buffer = np.full(n + 64, 0x5A, np.uint8)
        y = buffer[5 : 5 + n].view(TYPES[code])
        quarkfast.cast(x, TYPES[code], out=y)
        np.testing.assert_array_equal(bits(y), bits(small_floats.encode(x, code)))
        assert (buffer[:5] == 0x5A).all()
        assert (buffer[5 + n :] == 0x5A).all()
        told = small_floats.round_trip(x, code)
        quarkfast.round_trip(x, TYPES[code], out=x)
        np.testing.assert_array_equal(bits(x), bits(told))


def test_types_can_be_named() -> None:
    assert quarkfast.cast(np.float32([1]), "float6_e3m2fn").dtype == ml_dtypes.float6_e3m2fn
    assert quarkfast.round_trip(np.float32([1.1]), "float4_e2m1fn").tolist() == [1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quarkfast.cast(np.zeros(2), "float8_e5m2"), "two different types among float32, .* got float64 to"),
        (lambda: quarkfast.cast(np.zeros(2, np.float32), np.float32), "got float32 to float32"),
        (lambda: quarkfast.cast(np.zeros(2, np.float32), np.int8), "got float32 to int8"),
        (lambda: quarkfast.cast(np.zeros(2, "f4"), "float16", saturate="no"), "saturate: expected True or False, got"),
        (lambda: quarkfast.round_trip(np.zeros(2, "f4"), "float16", saturate=1), "saturate: expected True or False"),
        (lambda: quarkfast.round_trip(np.zeros(2, np.float32), np.float32), "dtype: expected one of float16, bfloat16"),
        (lambda: quarkfast.round_trip(np.zeros(2), "float8_e5m2"), "x: expected dtype float32, got float64"),
    ],
)
def test_wrong_types_meet_a_sentence(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
