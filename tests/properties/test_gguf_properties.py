"""What must hold of blocks of GGUF whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import quarkfast

# Within what float16 scales resolve: a scale of 2^-14 or more has eleven bits.
NUMBERS = st.floats(0.125, 8, width=32) | st.just(0.0)
SIGNED = st.builds(lambda x, negative: -x if negative else x, NUMBERS, st.booleans())
# Half a step of the code, and the scale's own rounding (2^-11 of it) times the largest code; with a minimum, its
# rounding too. The code at the far end of a symmetric type is missing: a whole step there.
STEPS = {"Q4_0": 1 / 8, "Q5_0": 1 / 16, "Q8_0": 0.5 / 127}


@pytest.mark.parametrize("name", STEPS)
@settings(max_examples=60)
@given(x=arrays(np.float32, 64, elements=SIGNED))
def test_what_is_read_is_near_what_was_stored(name: str, x: np.ndarray) -> None:
    y = quarkfast.dequantize_gguf(quarkfast.quantize_gguf(x, name), name)
    largest = np.abs(x).reshape(2, 32).max(axis=1)
    # 2^-10: the scale's rounding, and that of the product and the quotient.
    assert (np.abs(y - x).reshape(2, 32).max(axis=1) <= largest * (STEPS[name] + 2**-10)).all()


@pytest.mark.parametrize(("name", "steps"), [("Q4_1", 15), ("Q5_1", 31)])
@settings(max_examples=60)
@given(x=arrays(np.float32, 64, elements=SIGNED))
def test_what_is_read_of_types_with_a_minimum_is_near_what_was_stored(name: str, steps: int, x: np.ndarray) -> None:
    y = quarkfast.dequantize_gguf(quarkfast.quantize_gguf(x, name), name)
    parts = x.reshape(2, 32)
    span, low = parts.max(axis=1) - parts.min(axis=1), np.abs(parts.min(axis=1))
    assert (np.abs(y - x).reshape(2, 32).max(axis=1) <= span * (0.5 / steps + 2**-10) + low * 2**-10).all()


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
@settings(max_examples=60)
@given(x=arrays(np.float32, 32, elements=SIGNED), power=st.integers(-4, 4))
def test_codes_do_not_depend_on_a_power_of_two(name: str, x: np.ndarray, power: int) -> None:
    head = 4 if name.endswith("1") else 2
    stored = quarkfast.quantize_gguf(x, name), quarkfast.quantize_gguf(np.ldexp(x, power), name)
    np.testing.assert_array_equal(stored[0][head:], stored[1][head:])
