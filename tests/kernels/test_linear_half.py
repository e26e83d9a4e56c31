"""float16 and bfloat16 arrays are quantized through their exact float32 values, and rounded once on the way back."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from conftest import SIZES
from quarkfast import reference
from quarkfast.formats.scalar import qtype

REALS = ("float16", "bfloat16")
INTEGERS = ("int2", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32")
WIDTH = np.uint16


def halves(rng: np.random.Generator, real: str, n: int) -> np.ndarray:
    """Return random bit patterns, NaN, infinities and subnormals among them, and numbers around one."""
    x = rng.integers(0, 1 << 16, n, dtype=WIDTH).view(qtype(real).dtype)
    near = rng.random(n) < 0.5
    x[near] = rng.standard_normal(int(near.sum())).astype(x.dtype)
    return x


def zero_points(rng: np.random.Generator, dtype: str, shape: object = ()) -> np.ndarray:
    row = qtype(dtype)
    return np.asarray(rng.integers(row.qmin, row.qmax, shape, dtype=np.int64, endpoint=True)).astype(row.dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("real", REALS)
def test_all_three_functions_equal_the_reference(isa, rng, real, dtype):
    for n in SIZES:
        x, zero, scale = halves(rng, real, n), zero_points(rng, dtype), np.float32(0.0371)
        q = quarkfast.quantize_linear(x, scale, zero, dtype=dtype)
        np.testing.assert_array_equal(q, reference.quantize_linear(x.astype(np.float32), scale, zero, dtype))
        back = quarkfast.dequantize_linear(q, scale, zero, dtype=real)
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back.view(WIDTH), reference.dequantize_linear(q, scale, zero, real).view(WIDTH))
        fake = quarkfast.fake_quantize_linear(x, scale, zero, dtype=dtype)
        assert fake.dtype == x.dtype
        np.testing.assert_array_equal(fake.view(WIDTH), back.view(WIDTH))
        quarkfast.fake_quantize_linear(x, scale, zero, dtype=dtype, out=x)
        np.testing.assert_array_equal(x.view(WIDTH), back.view(WIDTH))


@pytest.mark.parametrize(
    ("shape", "axis", "block"),
    [
        ((3, 4000), 0, 0),
        ((3000, 3), 1, 0),
        ((2, 5, 49, 11), 1, 0),
        ((40, 300), 1, 32),
        ((100, 70), 0, 16),
        ((9, 90), 1, 9),
    ],
    ids=str,
)
@pytest.mark.parametrize("real", REALS)
def test_every_layout_equals_the_reference(isa, rng, real, shape, axis, block):
    x = halves(rng, real, int(np.prod(shape))).reshape(shape)
    scales = tuple(-(-n // block) if i == axis else n for i, n in enumerate(shape)) if block else (shape[axis],)
    scale = rng.uniform(0.01, 0.2, scales).astype(np.float16)  # as a float16 model carries it
    zero = zero_points(rng, "int8", scales)
    each = [reference.per_element(values, shape, axis, block) for values in (scale, zero)]
    q = quarkfast.quantize_linear(x, scale, zero, axis=axis, block_size=block)
    np.testing.assert_array_equal(q, reference.quantize_linear(x, *each, "int8"))
    back = quarkfast.dequantize_linear(q, scale, zero, dtype=real, axis=axis, block_size=block)
    np.testing.assert_array_equal(back.view(WIDTH), reference.dequantize_linear(q, *each, real).view(WIDTH))
    fake = quarkfast.fake_quantize_linear(x, scale, zero, axis=axis, block_size=block)
    np.testing.assert_array_equal(fake.view(WIDTH), reference.fake_quantize_linear(x, *each, "int8").view(WIDTH))


@pytest.mark.parametrize("real", REALS)
def test_every_bit_pattern_is_quantized_as_its_float32_value(isa, real):
    x = np.arange(1 << 16, dtype=np.uint32).astype(WIDTH).view(qtype(real).dtype)
    for scale in (1.0, 0.5, 0.0123):
        wide = quarkfast.quantize_linear(x.astype(np.float32), scale)
        np.testing.assert_array_equal(quarkfast.quantize_linear(x, scale), wide)
