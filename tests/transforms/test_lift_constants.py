"""Constant nodes become the initializers that onnx-ir's pass makes of them."""

import onnx_ir as ir
import pytest
from onnx_ir.passes import common as passes

from quarkfast.transforms.clean import lift_constants

_TENSORS = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[2] x, bool b) => (float[2] y, float[2] z, float[2] c) {
        two = Constant <value = float[2] {2.0, 2.0}> ()
        c = Constant <value = float[2] {5.0, 5.0}> ()
        y = Add (x, two)
        z = If (b) <
            then_branch = t () => (float[2] r) { one = Constant <value = float[2] {1.0, 1.0}> () r = Mul (y, one) },
            else_branch = e () => (float[2] r) { r = Add (y, two) }
        >
    }
"""
_OTHERS = _TENSORS.replace("value = float[2] {2.0, 2.0}", "value_floats = [2.0, 2.0]")


@pytest.mark.parametrize("text", [_TENSORS, _OTHERS], ids=["tensors", "numbers"])
def test_initializers_are_those_of_the_pass_of_onnx_ir(text: str) -> None:
    ours, theirs = ir.from_onnx_text(text), ir.from_onnx_text(text)
    lift_constants(ours)
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(theirs)
    assert ir.to_proto(ours) == ir.to_proto(theirs)
    assert list(ours.graph.initializers) == ["two"]
