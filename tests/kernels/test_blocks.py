"""Block formats give the reference's bytes on every instruction set, size, axis, alignment and thread count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast import reference

ROUNDINGS = ("half_away", "half_up", "half_even")
ELEMENTS = ("fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8")
# MX4, MX6, MX9 and two that only their parameters describe: bit width, block, sub-block, shift bits.
PRIMES = ((11, 16, 2, 1), (13, 16, 2, 1), (16, 16, 2, 1), (14, 12, 4, 2), (20, 32, 32, 7))
CANARY = 0x5A

Kernel = Callable[..., np.ndarray]


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def values(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random bits, ordinary values and ties, in stretches as long as a block so that some blocks hold only finite."""
    x = float_bits(rng, n)
    kind = np.repeat(rng.integers(0, 5, n // 16 + 1), 16)[:n]
    ordinary = rng.standard_normal(n).astype(np.float32)
    tied = (rng.integers(-511, 512, n) * 2.0 ** rng.integers(-9, -4, n)).astype(np.float32)
    tiny = (rng.integers(-(1 << 24), 1 << 24, n) * 2.0**-149).astype(np.float32)
    huge = np.copysign(np.float32(3.4028235e38), ordinary) * rng.choice(np.float32([1, 0.999, 0.5, 0.1]), n)
    return np.select([kind == 0, kind == 1, kind == 2, kind == 3], [ordinary, tied, tiny, huge], x)


def _variants() -> dict[str, tuple[Kernel, Kernel, int, dict[str, Any]]]:
    """Every format: (kernel, reference of blocks, block size, arguments)."""
    found: dict[str, tuple[Kernel, Kernel, int, dict[str, Any]]] = {}
    q, r = quarkfast, reference
    for mode in ROUNDINGS:
        for up in (False, True):
            for block, width in ((8, 16), (16, 12), (32, 10), (5, 24), (40, 31)):
                name = f"bfp-{mode}-{'raise' if up else 'saturate'}-block{block}-width{width}"
                arguments = {"bit_width": width, "rounding": mode, "raise_exponent": up}
                found[name] = (q.fake_quantize_bfp, r.fake_quantize_bfp, block, arguments)
        for width, block, sub, shift in (
            (11, 16, 2, 1),
            (13, 16, 2, 1),
            (16, 16, 2, 1),
            (14, 12, 4, 2),
            (20, 32, 32, 7),
        ):
            arguments = {"bit_width": width, "sub_block_size": sub, "shift_bits": shift, "rounding": mode}
            name = f"bfp_prime-{mode}-block{block}-sub{sub}-width{width}"
            found[name] = (q.fake_quantize_bfp_prime, r.fake_quantize_bfp_prime, block, arguments)
        for rule in ("quark", "ocp"):
            found[f"mx-int8-{mode}-{rule}"] = (
                q.fake_quantize_mx, r.fake_quantize_mx, 32, {"element": "int8", "rounding": mode, "rule": rule}
            )  # fmt: skip
    for element in ELEMENTS[:-1]:
        for rule, block in (("quark", 32), ("ocp", 32), ("quark", 8), ("ocp", 7)):
            found[f"mx-{element}-{rule}-block{block}"] = (
                q.fake_quantize_mx, r.fake_quantize_mx, block, {"element": element, "rule": rule}
            )  # fmt: skip
    return found


VARIANTS = _variants()


def expected(name: str, x: np.ndarray, axis: int) -> np.ndarray:
    _, told, block, arguments = VARIANTS[name]
    return reference.join_blocks(told(reference.split_blocks(x, axis, block), **arguments), x.shape, axis)


def actual(name: str, x: np.ndarray, axis: int, out: np.ndarray | None = None) -> np.ndarray:
    kernel, _, block, arguments = VARIANTS[name]
    return kernel(x, axis=axis, block_size=block, out=out, **arguments)


@pytest.mark.parametrize("name", VARIANTS)
def test_values_equal_the_reference_bit_for_bit(isa: str, rng: np.random.Generator, name: str) -> None:
    x = values(rng, 40000)
    np.testing.assert_array_equal(bits(actual(name, x, 0)), bits(expected(name, x, 0)))


@pytest.mark.parametrize("name", VARIANTS)
def test_blocks_run_along_any_axis_and_may_end_short(isa: str, rng: np.random.Generator, name: str) -> None:
    for shape in ((37,), (3, 53), (53, 3), (2, 19, 5), (1, 33, 130), (2, 3, 4, 6)):
        x = values(rng, int(np.prod(shape))).reshape(shape)
        for axis in range(-len(shape), len(shape)):
            np.testing.assert_array_equal(
                bits(actual(name, x, axis)), bits(expected(name, x, axis)), str((shape, axis))
            )


SOME = (
    "bfp-half_even-saturate-block8-width16",
    "bfp-half_away-raise-block8-width16",
    "bfp_prime-half_even-block16-sub2-width16",
    "mx-fp8_e4m3-quark-block32",
    "mx-int8-half_even-quark",
)


@pytest.mark.parametrize("name", SOME)
def test_every_size_and_alignment_writes_its_own_bytes_only(isa: str, rng: np.random.Generator, name: str) -> None:
    for n in SIZES:
        x = np.empty(n + 3, np.float32)[3:]
        x[:] = values(rng, n)
        buffer = np.full((n + 64) * 4, CANARY, np.uint8)
        y = buffer[20 : 20 + n * 4].view(np.float32)
        actual(name, x, 0, out=y)
        np.testing.assert_array_equal(bits(y), bits(expected(name, x, 0)))
        assert (buffer[:20] == CANARY).all()
        assert (buffer[20 + n * 4 :] == CANARY).all()


@pytest.mark.parametrize("shape", [(1 << 18,), (300, 1003), (7, 64, 700), (64, 4000)], ids=str)
@pytest.mark.parametrize("name", SOME)
def test_threads_and_writing_in_place_do_not_change_a_byte(rng: np.random.Generator, name: str, shape: tuple) -> None:
    x = values(rng, int(np.prod(shape))).reshape(shape)
    before = quarkfast.num_threads()
    try:
        for axis in range(len(shape)):
            results = []
            for threads in (1, 2, 5):
                quarkfast.set_num_threads(threads)
                y = x.copy()
                results.append(bits(actual(name, y, axis, out=y)))
            np.testing.assert_array_equal(results[0], bits(expected(name, x, axis)))
            assert (results[0] == results[1]).all()
            assert (results[0] == results[2]).all()
    finally:
        quarkfast.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SOME)
def test_16_bit_floats_are_widened_and_the_result_rounded_back(
    isa: str, rng: np.random.Generator, name: str, dtype: str
) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    for shape in ((9001,), (17, 41), (3, 40, 33), (2, 5000, 3)):
        x = quarkfast.cast(values(rng, int(np.prod(shape))), kind).reshape(shape)
        for axis in range(len(shape)):
            wide = expected(name, quarkfast.cast(x, np.float32), axis)
            np.testing.assert_array_equal(bits(actual(name, x, axis)), bits(quarkfast.cast(wide, kind)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_16_bit_block_longer_than_the_scratch_is_handled(rng: np.random.Generator, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = quarkfast.cast(rng.standard_normal(30000).astype(np.float32), kind).reshape(5000, 6)
    wide = quarkfast.cast(x, np.float32)
    for axis in (0, 1):
        got = quarkfast.fake_quantize_bfp(x, axis=axis, block_size=4999)
        told = quarkfast.cast(quarkfast.fake_quantize_bfp(wide, axis=axis, block_size=4999), kind)
        np.testing.assert_array_equal(bits(got), bits(told))


def test_strided_input_is_read_in_its_own_order(rng: np.random.Generator) -> None:
    x = values(rng, 600).reshape(20, 30)
    for view in (x.T, x[::2, ::3], x[::-1]):
        np.testing.assert_array_equal(
            bits(quarkfast.fake_quantize_bfp(view)), bits(quarkfast.fake_quantize_bfp(view.copy()))
        )


def test_empty_arrays_keep_their_shape() -> None:
    for shape in ((0,), (3, 0), (0, 3), (2, 0, 4)):
        x = np.empty(shape, np.float32)
        for axis in range(len(shape)):
            assert quarkfast.fake_quantize_bfp(x, axis=axis).shape == shape
            records = quarkfast.quantize_bfp(x, axis=axis)
            assert quarkfast.dequantize_bfp(records, shape[axis], axis=axis).shape == shape


# Not with raised exponents: there -2^mantissa_bits is a code, whose value has the next exponent.
@pytest.mark.parametrize("name", [name for name in SOME if "raise" not in name])
def test_quantizing_twice_changes_nothing(rng: np.random.Generator, name: str) -> None:
    once = actual(name, values(rng, 5000), 0)
    np.testing.assert_array_equal(bits(np.abs(actual(name, once, 0))), bits(np.abs(once)))


X = np.zeros((2, 16), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quarkfast.fake_quantize_bfp(X.astype(int)), TypeError, "x: expected a dtype among float32, float16"),
        (lambda: quarkfast.fake_quantize_bfp(X, axis=2), ValueError, "axis: expected an axis of a tensor of rank 2"),
        (lambda: quarkfast.fake_quantize_bfp(np.float32(1)), ValueError, "expected an axis of a tensor of rank 0"),
        (lambda: quarkfast.fake_quantize_bfp(X, block_size=0), ValueError, "block_size: expected a positive integer"),
        (
            lambda: quarkfast.fake_quantize_bfp(X, block_size=1 << 31),
            ValueError,
            "block_size: expected 1 to 2147",
        ),
        (lambda: quarkfast.fake_quantize_bfp(X, bit_width=9), ValueError, "bit_width: expected 10 to 31, got 9"),
        (
            lambda: quarkfast.fake_quantize_bfp(X, bit_width=-(2**31)),  # from which 9 cannot be taken in 32 bits
            ValueError,
            "bit_width: expected a positive integer, got -2147483648",
        ),
        (lambda: quarkfast.fake_quantize_bfp(X, bit_width=32), ValueError, "bit_width: expected 10 to 31, got 32"),
        (
            lambda: quarkfast.fake_quantize_bfp(X, rounding="even"),
            ValueError,
            "rounding: expected one of half_away, half_up, half_even, got 'even'; did you mean 'half_even'",
        ),
        (
            lambda: quarkfast._core.Bfp(8, 16, 3, False),
            ValueError,
            "bfp: rounding_mode: expected 0, 1 or 2, got 3",
        ),
        (
            lambda: quarkfast.fake_quantize_bfp_prime(X, sub_block_size=3),
            ValueError,
            "sub_block_size: expected a divisor of block_size 16, got 3",
        ),
        (lambda: quarkfast.fake_quantize_bfp_prime(X, shift_bits=8), ValueError, "shift_bits: expected 0 to 7, got 8"),
        (
            lambda: quarkfast.fake_quantize_mx(X, "fp8_e4m4"),
            ValueError,
            "element: expected one of .* got 'fp8_e4m4'; did you mean 'mxfp8_e4m3'",
        ),
        (lambda: quarkfast.fake_quantize_mx(X, "int8", rule="amd"), ValueError, "rule: expected one of quark, ocp"),
        (
            lambda: quarkfast._core.Mx(32, "fp5", 2, False),
            ValueError,
            "mx: element_dtype: expected fp8_e5m2, .* got 'fp5'",
        ),
        (
            lambda: quarkfast.fake_quantize_bfp(X, out=np.empty((2, 16), np.float16)),
            TypeError,
            "out: expected an array of dtype float32, got float16",
        ),
        (lambda: quarkfast.fake_quantize_bfp(X, out=np.empty(32, np.float32)), ValueError, "out: expected shape"),
        (
            lambda: quarkfast.quantize_bfp(X, block_size=12),
            ValueError,
            "block_size: expected a multiple of 8 up to 256 for packed storage, got 12",
        ),
        (
            lambda: quarkfast.quantize_bfp(X, bit_width=17),
            ValueError,
            "bit_width: expected 10 to 16 for packed storage, got 17",
        ),
        (
            lambda: quarkfast.quantize_bfp_prime(X, sub_block_size=4),
            ValueError,
            "sub_block_size: expected a multiple of 8 sub-blocks in a block for packed storage, got 4",
        ),
        (lambda: quarkfast.quantize_mx(X, "int8", block_size=264), ValueError, "a multiple of 8 up to 256"),
        (
            lambda: quarkfast.dequantize_bfp(np.zeros((2, 9), np.uint8), 17),
            ValueError,
            r"expected records of shape \(..., 3, 9\) for length 17, got \(2, 9\)",
        ),
        (lambda: quarkfast.dequantize_bfp(X, 16), TypeError, "x: expected dtype uint8, got float32"),
        (
            lambda: quarkfast.dequantize_bfp(np.zeros((2, 9), np.uint8), -1),
            ValueError,
            "length: expected 0 or a positive integer, got -1",
        ),
    ],
)
def test_bad_arguments_meet_a_sentence(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
