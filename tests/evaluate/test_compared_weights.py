"""Constants as codes: what counts as clipped."""

import numpy as np
import onnx_ir as ir
import pytest

from quarkfast.evaluate.compared_weights import _inside


@pytest.mark.parametrize(
    ("dtype", "codes", "inside"),
    [
        (ir.DataType.INT8, [-128, -127, 0, 126, 127], [False, False, True, True, False]),
        (ir.DataType.UINT8, [0, 1, 255], [False, True, False]),
        (ir.DataType.INT32, [-9, 1 << 20], [True, True]),
        (ir.DataType.FLOAT8E4M3FN, [-448.0, 1.0, 448.0], [False, True, False]),
    ],
)
def test_only_codes_at_the_ends_of_their_type_may_be_clipped(dtype, codes, inside) -> None:
    """A bias that makes up for rounded weights lies many steps off, and nowhere near an end."""
    assert _inside(np.array(codes), dtype).tolist() == inside
