"""Integer kernels give the reference's bytes on every instruction set, size, alignment, axis, block and thread."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import SIZES, float_bits
from quarkfast import reference
from quarkfast.formats.scalar import qtype

NARROW = ("int2", "uint2", "int4", "uint4")
DTYPES = (*NARROW, "int8", "uint8", "int16", "uint16", "int32", "uint32")
CANARY = 0x5A


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint8)


def misaligned(n: int, dtype: object, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an array of n elements at an odd element offset, and the whole buffer full of canary bytes."""
    dtype = qtype(dtype).dtype if dtype in NARROW else np.dtype(dtype)
    buffer = np.full((n + 64) * dtype.itemsize, CANARY, np.uint8)
    start = offset * dtype.itemsize
    return buffer[start : start + n * dtype.itemsize].view(dtype), buffer


def codes_of(rng: np.random.Generator, dtype: str, shape: object) -> np.ndarray:
    row = qtype(dtype)
    return rng.integers(row.qmin, row.qmax, shape, dtype=np.int64, endpoint=True).astype(row.dtype)


def zero_point_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...] = ()) -> np.ndarray:
    return codes_of(rng, dtype, shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_equal_the_reference_and_nothing_beyond_them_is_written(isa, rng, dtype):
    for n in SIZES:
        x, _ = misaligned(n, np.float32, 3)
        x[:] = float_bits(rng, n)
        y, buffer = misaligned(n, dtype, 5)
        zero = zero_point_of(rng, dtype)
        quarkfast.quantize_linear(x, 0.037, zero, dtype=dtype, out=y)
        np.testing.assert_array_equal(y, reference.quantize_linear(x, np.float32(0.037), zero, dtype))
        size = y.itemsize
        assert (buffer[: 5 * size] == CANARY).all()
        assert (buffer[(5 + n) * size :] == CANARY).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_equal_the_reference_bit_for_bit(isa, rng, dtype):
    q = codes_of(rng, dtype, 5003)
    zero = zero_point_of(rng, dtype)
    got = quarkfast.dequantize_linear(q, 0.0123, zero)
    np.testing.assert_array_equal(bits(got), bits(reference.dequantize_linear(q, np.float32(0.0123), zero)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_fake_quantize_equals_quantize_then_dequantize_also_in_place(isa, rng, dtype):
    x = float_bits(rng, 4099)
    zero = zero_point_of(rng, dtype)
    expected = quarkfast.dequantize_linear(quarkfast.quantize_linear(x, 0.05, zero, dtype=dtype), 0.05, zero)
    np.testing.assert_array_equal(bits(quarkfast.fake_quantize_linear(x, 0.05, zero, dtype=dtype)), bits(expected))
    quarkfast.fake_quantize_linear(x, 0.05, zero, dtype=dtype, out=x)
    np.testing.assert_array_equal(bits(x), bits(expected))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 5), (2, 3, 4, 5), (1, 70, 3), (4, 1, 6)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_axis_per_channel_and_per_block_equals_the_reference(isa, rng, dtype, shape):
    x = float_bits(rng, int(np.prod(shape))).reshape(shape)
    for axis in range(-len(shape), len(shape)):
        for block in (0, 1, 2, 3, 64):
            blocks = list(shape)
            blocks[axis] = -(-shape[axis] // block) if block else shape[axis]
            scales = tuple(blocks) if block else (shape[axis],)
            scale = rng.uniform(0.01, 0.2, scales).astype(np.float32)
            zero = zero_point_of(rng, dtype, scales)
            each = [reference.per_element(values, shape, axis, block) for values in (scale, zero)]
            q = quarkfast.quantize_linear(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
            np.testing.assert_array_equal(q, reference.quantize_linear(x, *each, dtype))
            back = quarkfast.dequantize_linear(q, scale, zero, axis=axis, block_size=block)
            np.testing.assert_array_equal(bits(back), bits(reference.dequantize_linear(q, *each)))
            fake = quarkfast.fake_quantize_linear(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
            np.testing.assert_array_equal(bits(fake), bits(back))


@pytest.mark.parametrize(
    ("shape", "axis", "block"),
    [
        ((2000, 3), 1, 0),  # a period of three
        ((9, 64, 7, 7), 1, 0),  # a period longer than a tile
        ((40, 5, 31), 1, 0),
        ((3, 1100), 1, 16),
        ((3, 1100), 1, 100),  # a ragged last block
        ((70, 1000), 0, 32),
        ((1100, 5), 0, 7),
        ((5, 2048), 1, 32),  # whole runs in one call
        ((2, 300, 64), 1, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["int4", "int8", "uint16", "int32"])
def test_runs_short_and_long_equal_the_reference_wherever_threads_cut_them(isa, rng, dtype, shape, axis, block):
    repeats = 1 if isa == "x86-64-v2" else 12  # enough elements for several threads on some instruction sets
    shape = (shape[0] * repeats, *shape[1:])
    x = float_bits(rng, int(np.prod(shape))).reshape(shape)
    scales = tuple(-(-n // block) if i == axis else n for i, n in enumerate(shape)) if block else (shape[axis],)
    scale, zero = rng.uniform(0.01, 0.2, scales).astype(np.float32), zero_point_of(rng, dtype, scales)
    each = [reference.per_element(values, shape, axis, block) for values in (scale, zero)]
    before = quarkfast.num_threads()
    try:
        for threads in (1, 3):
            quarkfast.set_num_threads(threads)
            q = quarkfast.quantize_linear(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
            np.testing.assert_array_equal(q, reference.quantize_linear(x, *each, dtype))
            back = quarkfast.dequantize_linear(q, scale, zero, axis=axis, block_size=block)
            np.testing.assert_array_equal(bits(back), bits(reference.dequantize_linear(q, *each)))
            fake = quarkfast.fake_quantize_linear(x, scale, zero, dtype=dtype, axis=axis, block_size=block)
            np.testing.assert_array_equal(bits(fake), bits(back))
    finally:
        quarkfast.set_num_threads(before)


@pytest.mark.parametrize("layout", ["tensor", "channel", "last-axis", "block"])
def test_threads_do_not_change_a_byte(isa, rng, layout):
    x = float_bits(rng, 1 << 19).reshape(8, 64, 1024)
    shape, axis, block = {
        "tensor": ((), 1, 0),
        "channel": ((64,), 1, 0),
        "last-axis": ((1024,), 2, 0),
        "block": ((8, 64, 32), 2, 32),
    }[layout]
    scale = rng.uniform(0.01, 0.2, shape).astype(np.float32)
    before = quarkfast.num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 8):
            quarkfast.set_num_threads(threads)
            results.append(quarkfast.quantize_linear(x, scale, dtype="int8", axis=axis, block_size=block))
    finally:
        quarkfast.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("dtype", NARROW)
def test_codes_below_a_byte_leave_its_other_bits_zero_and_ignore_them(isa, rng, dtype):
    row = qtype(dtype)
    unused = 0xFF & ~((1 << row.bits) - 1)
    q = quarkfast.quantize_linear(float_bits(rng, 1000), 0.7, dtype=dtype)
    assert not (bits(q) & unused).any()
    dirty = (bits(q) | rng.choice(np.uint8([0, unused]), 1000)).view(row.dtype)
    np.testing.assert_array_equal(quarkfast.dequantize_linear(dirty, 0.7), quarkfast.dequantize_linear(q, 0.7))


def test_a_narrow_code_range_saturates_at_its_own_ends(isa):
    got = quarkfast.quantize_linear(np.float32([-9, -1, 0, 9, np.nan]), 1.0, dtype="int8", qmin=-8, qmax=7)
    assert got.tolist() == [-8, -1, 0, 7, -8]


def test_strided_input_is_read_in_its_own_order(isa, rng):
    x = float_bits(rng, 600).reshape(20, 30)
    for view in (x.T, x[::2, ::3], x[::-1], np.broadcast_to(x[:1], (5, 30))):
        got = quarkfast.quantize_linear(view, 0.1)
        np.testing.assert_array_equal(got, quarkfast.quantize_linear(view.copy(), 0.1))


def test_blocks_of_an_array_with_an_empty_axis_have_no_scales():
    empty = np.empty((3, 1, 0), np.float32)
    assert quarkfast.quantize_linear(np.empty((3, 7, 0), np.float32), empty, axis=1, block_size=16).shape == (3, 7, 0)


def test_an_input_at_an_odd_address_is_read_all_the_same(isa):
    x = np.frombuffer(b"?" + np.float32([0.25, -9.0, 0.75]).tobytes(), np.uint8)[1:].view(np.float32)
    assert quarkfast.quantize_linear(x, 0.5).tolist() == [0, -18, 2]


def test_scalars_and_empty_arrays_keep_their_shape(isa):
    assert quarkfast.quantize_linear(np.float32(1.0), 0.5).shape == ()
    assert quarkfast.quantize_linear(np.empty((3, 0, 2), np.float32), 0.5).shape == (3, 0, 2)
    assert quarkfast.quantize_linear(np.empty((3, 0), np.float32), np.empty(0, np.float32), axis=1).shape == (3, 0)


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: quarkfast.quantize_linear(X.astype(np.float64), 1.0),
            TypeError,
            "x: expected dtype float32, float16 or bfloat16, got float64",
        ),
        (
            lambda: quarkfast.quantize_linear(X, 0.0),
            ValueError,
            "scale: expected finite values > 0, got 0.0 at index 0",
        ),
        (lambda: quarkfast.quantize_linear(X, -1.0), ValueError, "got -1.0 at index 0"),
        (lambda: quarkfast.quantize_linear(X, np.inf), ValueError, "got inf at index 0"),
        (lambda: quarkfast.quantize_linear(X, np.nan), ValueError, "got nan at index 0"),
        (lambda: quarkfast.quantize_linear(X, [1, 1]), ValueError, r"scale: expected shape \(3,\), got \(2,\)"),
        (
            lambda: quarkfast.quantize_linear(X, [1, 1, 1], axis=2),
            ValueError,
            "axis: expected an axis of a tensor of rank 2, got 2",
        ),
        (lambda: quarkfast.quantize_linear(X, 1.0, 300), ValueError, r"zero_point: expected values in \[-128, 127\]"),
        (lambda: quarkfast.quantize_linear(X, 1.0, 0.5), TypeError, "zero_point: expected integers, got dtype float64"),
        (lambda: quarkfast.quantize_linear(X, [1, 1, 1], [0, 0]), ValueError, r"zero_point: expected shape \(3,\)"),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, np.zeros((1, 1), np.int8)),
            ValueError,
            r"zero_point: expected shape \(\) as of scale, got \(1, 1\)",
        ),
        (lambda: quarkfast.quantize_linear(X, 1.0, block_size=-1), ValueError, "block_size: expected 0 or a positive"),
        (lambda: quarkfast.quantize_linear(X, 1.0, qmin=-200), ValueError, "range: expected -128 <= qmin"),
        (lambda: quarkfast.quantize_linear(X, 1.0, 9, dtype="int4"), ValueError, r"values in \[-8, 7\] for int4"),
        (lambda: quarkfast.quantize_linear(X, 1.0, dtype="uint2", qmax=4), ValueError, "0 <= qmin <= qmax <= 3, got"),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, 5, qmin=0, qmax=3),
            ValueError,
            r"zero_point: expected values in \[0, 3\], got 5",
        ),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, dtype="float16"),
            TypeError,
            "expected an integer type, got float16",
        ),
        (lambda: quarkfast.quantize_linear(X, 1.0, dtype="int9"), TypeError, "got 'int9'; did you mean"),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, out=np.empty((2, 3), np.uint8)),
            TypeError,
            "out: expected an array of dtype int8",
        ),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, out=np.empty(6, np.int8)),
            ValueError,
            r"out: expected shape \(2, 3\)",
        ),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, out=np.empty((3, 2), np.int8).T),
            ValueError,
            "out: expected a C-contiguous",
        ),
        (lambda: quarkfast.dequantize_linear(X, 1.0), TypeError, "expected one of"),
        (
            lambda: quarkfast.dequantize_linear(np.int8([1]), 1.0, dtype="float64"),
            TypeError,
            "dtype: expected float32, float16 or bfloat16, got float64",
        ),
        (lambda: quarkfast.quantize_linear([[1.0], [2.0, 3.0]], 1.0), TypeError, "x: expected an array, got "),
        (lambda: quarkfast.quantize_linear(X, "1"), TypeError, "scale: expected real numbers, got dtype <U1"),
        (lambda: quarkfast.quantize_linear(X, 1j), TypeError, "scale: expected real numbers, got dtype complex128"),
        (lambda: quarkfast.quantize_linear(X, 1e300), ValueError, "scale: expected finite values > 0, got inf"),
        (lambda: quarkfast.quantize_linear(X, 1e-300), ValueError, "scale: expected finite values > 0, got 0.0"),
        (lambda: quarkfast.quantize_linear(X, 1.0, axis="1"), TypeError, "axis: expected an integer, got '1'"),
        (lambda: quarkfast.quantize_linear(X, 1.0, axis=True), TypeError, "axis: expected an integer, got True"),
        (lambda: quarkfast.quantize_linear(X, 1.0, qmin=0.5), TypeError, "qmin: expected an integer, got 0.5"),
        (lambda: quarkfast.quantize_linear(X, 1.0, qmax=1 << 70), ValueError, "qmax: expected an integer of 64 bits"),
        (lambda: quarkfast.cast(X, "int9"), TypeError, "cast: dtype: expected a dtype, got 'int9'"),
        (
            lambda: quarkfast.quantize_linear(X, 1.0, out=np.empty(25, np.uint8)[1:].view(np.float32).reshape(2, 3)),
            TypeError,
            "out: expected an array of dtype int8",
        ),
        (
            lambda: quarkfast.round_trip(X, "float16", out=np.empty(25, np.uint8)[1:].view(np.float32).reshape(2, 3)),
            ValueError,
            "out: expected memory aligned to the item size",
        ),
    ],
)
def test_bad_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_read_only_output_is_refused():
    out = np.empty((2, 3), np.int8)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: expected a writeable array"):
        quarkfast.quantize_linear(X, 1.0, out=out)


def test_an_output_that_overlaps_the_input_is_refused():
    buffer = np.zeros(20, np.float32)
    with pytest.raises(ValueError, match="arrays that overlap"):
        quarkfast.fake_quantize_linear(buffer[:10], 1.0, out=buffer[5:15])


@pytest.mark.parametrize("real", [np.float32, np.float16])
def test_codes_of_three_bits_lie_in_int4(isa, rng, real):
    x = (rng.standard_normal(1003) * 3).astype(real)
    codes = quarkfast.quantize_linear(x, 0.5, dtype="int3")
    assert (codes.dtype, int(codes.min()), int(codes.max())) == (np.dtype(ml_dtypes.int4), -4, 3)
    np.testing.assert_array_equal(codes, reference.quantize_linear(x, np.float32(0.5), np.int8(0), "int3"))
    symmetric = quarkfast.quantize_linear(x, 0.5, dtype="int3", qmin=-3)
    assert int(symmetric.min()) == -3
    np.testing.assert_array_equal(
        quarkfast.fake_quantize_linear(x, 0.5, dtype="int3"), quarkfast.dequantize_linear(codes, 0.5, dtype=real)
    )


def test_codes_of_three_bits_keep_to_them():
    message = r"quantize_linear_f32_i4: range: expected -4 <= qmin <= qmax <= 3 for int3, got \[-8, 3\]"
    with pytest.raises(ValueError, match=message):
        quarkfast.quantize_linear(np.ones(3, np.float32), 1.0, dtype="int3", qmin=-8)
