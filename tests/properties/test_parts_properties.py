"""What must hold of codes with scales apart, of super-blocks and of stochastic rounding whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import quarkfast

NUMBERS = st.floats(2.0**-60, 2.0**60, width=32) | st.floats(0.125, 8, width=32) | st.just(0.0)
SIGNED = st.builds(lambda x, negative: -x if negative else x, NUMBERS, st.booleans())
NEAR = st.builds(lambda x, negative: -x if negative else x, st.floats(0.125, 8, width=32), st.booleans())


@pytest.mark.parametrize("block", [16, 32])
@settings(max_examples=60)
@given(x=arrays(np.float32, 64, elements=SIGNED))
def test_mxfp4_is_idempotent(block: int, x: np.ndarray) -> None:
    once = quarkfast.dequantize_mxfp4(*quarkfast.quantize_mxfp4(x, block_size=block), block_size=block)
    twice = quarkfast.dequantize_mxfp4(*quarkfast.quantize_mxfp4(once, block_size=block), block_size=block)
    np.testing.assert_array_equal(twice, once)


@settings(max_examples=100)
@given(x=arrays(np.float32, 64, elements=NEAR))
def test_nvfp4_is_within_half_a_step_of_the_largest_code(x: np.ndarray) -> None:
    y = quarkfast.dequantize_nvfp4(*quarkfast.quantize_nvfp4(x))
    largest = np.abs(x).reshape(4, 16).max(axis=1)
    # Codes end 4, 6: half a step is a sixth of the largest. The scale is e4m3: up to 2^-4 off, by which 6 codes shrink
    # or saturate (scales of at least 0.125 / 8 of the largest are normal in e4m3). 2^-20: float32 roundings.
    limit = largest * ((1 / 6) * (1 + 2**-4) + 2**-4 + 2**-20)
    assert (np.abs(y - x).reshape(4, 16).max(axis=1) <= limit).all()


@settings(max_examples=100)
@given(x=arrays(np.float32, (3, 20), elements=SIGNED))
def test_rows_are_within_half_a_step(x: np.ndarray) -> None:
    codes, scales = quarkfast.quantize_rows(x)
    error = np.abs(codes.astype(np.float64) * scales - x)
    assert (error <= scales.astype(np.float64) * (0.5 + 127 * 2**-23)).all()  # the quotient is a float32


@settings(max_examples=60)
@given(x=arrays(np.float32, 40, elements=NEAR), seed=st.integers(0, 2**63 - 1))
def test_stochastic_codes_are_a_neighbour_and_rise_with_the_values(x: np.ndarray, seed: int) -> None:
    codes, next_codes = (
        quarkfast.quantize_linear_stochastic(each, 0.125, seed=seed).astype(np.int64)
        for each in (x, x + np.float32(0.01))
    )
    quotient = x.astype(np.float64) * 8
    assert ((codes == np.floor(quotient)) | (codes == np.ceil(quotient))).all()
    assert (codes <= next_codes).all()


@pytest.mark.parametrize(("name", "plain"), [("Q4_K", "Q4_0"), ("Q6_K", "Q5_0")])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_super_blocks_are_nearer_to_normal_weights_than_plain_blocks(name: str, plain: str, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((4, 256)).astype(np.float32)

    def noise(kind: str) -> float:
        return float(((quarkfast.dequantize_gguf(quarkfast.quantize_gguf(x, kind), kind) - x) ** 2).sum())

    assert noise(name) < noise(plain)


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-3, 3))
def test_codes_of_super_blocks_do_not_depend_on_a_power_of_two(name: str, seed: int, power: int) -> None:
    x = np.random.default_rng(seed).standard_normal((4, 256)).astype(np.float32)
    part = slice(4, None) if name == "Q4_K" else slice(0, 208)
    stored = quarkfast.quantize_gguf(x, name), quarkfast.quantize_gguf(np.ldexp(x, power), name)
    np.testing.assert_array_equal(stored[0][:, part], stored[1][:, part])
