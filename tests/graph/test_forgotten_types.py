"""Types that ONNX Runtime infers again need not be written."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from quarkfast.graph.external_constants import forget_types, with_constants_as_inputs
from support.tiny_models import conv_relu_model, run_exactly


def known_model() -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(conv_relu_model()))


def test_inputs_and_outputs_keep_theirs_and_the_model_computes_the_same(rng):
    model = known_model()
    before = ir.to_proto(model)
    forget_types(model)
    after = ir.to_proto(model)
    assert before.graph.value_info
    assert not after.graph.value_info
    assert (after.graph.input, after.graph.output) == (before.graph.input, before.graph.output)
    x = rng.normal(size=(2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(run_exactly(after, {"x": x})[0], run_exactly(before, {"x": x})[0])


def test_a_copy_with_constants_as_inputs_has_their_types_and_the_model_keeps_all():
    model = known_model()
    copy = ir.to_proto(with_constants_as_inputs(model, ["w1"]))
    (given,) = (value for value in copy.graph.input if value.name == "w1")
    assert [dim.dim_value for dim in given.type.tensor_type.shape.dim] == [3, 3, 3, 3]
    assert not copy.graph.value_info
    assert ir.to_proto(model).graph.value_info
