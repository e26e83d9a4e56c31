"""Which Q/DQ nodes become those of Quark: only such as Quark's take."""

import numpy as np
import onnx_ir as ir
import pytest

from quarkfast.transforms.pairs import to_custom_pairs
from support.tiny_models import tiny_model

TEXT = "g (int8[N, 3] x) => (float[N, 3] y) {{ y = DequantizeLinear{attributes} (x, s, z) }}"


@pytest.mark.parametrize(
    ("scale", "attributes", "changed"),
    [
        (0.5, "", 1),
        (0.0, "", 0),
        (-0.5, "", 0),
        (np.inf, "", 0),
        (np.nan, "", 0),
        (0.5, "<output_dtype = 1>", 0),
        (0.5, "<axis = 1>", 1),
    ],
    ids=str,
)
def test_nodes_with_scales_that_quarks_refuse_stay(scale, attributes, changed):
    constants = {"s": np.float32(scale), "z": np.int8(0)}
    model = ir.from_proto(tiny_model(TEXT.format(attributes=attributes), constants, opset=23))
    assert to_custom_pairs(model) == (changed, 1 - changed)


def test_nodes_with_a_computed_scale_stay():
    text = """g (float[N, 3] x) => (float[N, 3] y) {
        c, s, z = DynamicQuantizeLinear (x)
        y = DequantizeLinear (c, s, z)
    }"""
    assert to_custom_pairs(ir.from_proto(tiny_model(text, {}))) == (0, 1)
