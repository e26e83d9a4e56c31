"""The block formats give what AMD Quark's own operators answered, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quarkfast
from golden.vectors import Case, bits, cases, formats
from quarkfast.kernels.block_arguments import ROUNDINGS

BLOCKS = [name for name in formats() if name.startswith(("bfp", "mx"))]
MODES = {number: name for name, number in ROUNDINGS.items()}


def answer(case: Case) -> np.ndarray:
    """Run our function for the operator and attributes of a case."""
    given: dict[str, Any] = dict(case.attributes)
    rounding = MODES[given.get("rounding_mode", 0)]
    chosen = {"axis": given["axis"], "block_size": given["block_size"], "rounding": rounding}
    (x,) = case.inputs
    if case.operator == "MXQuantizeDequantize":
        return quarkfast.fake_quantize_mx(x, given["element_dtype"], **chosen)
    if given["bfp_method"] == "to_bfp":
        up = bool(given.get("use_compiler_version_cpu_kernel", 0))
        return quarkfast.fake_quantize_bfp(x, bit_width=given["bit_width"], raise_exponent=up, **chosen)
    sub = {"sub_block_size": given["sub_block_size"], "shift_bits": given["sub_block_shift_bits"]}
    return quarkfast.fake_quantize_bfp_prime(x, bit_width=given["bit_width"], **sub, **chosen)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_recorded_answer_is_ours(isa: str, name: str) -> None:
    for case in cases(name):
        if case.inputs[0].size == 1:  # the operator returns single elements as they are; the format does not
            continue
        np.testing.assert_array_equal(bits(answer(case)), bits(case.output), str(case))
