"""What is told about types and shapes beyond what onnx tells."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.transforms.infer_types import infer_types
from support.tiny_models import operators_of, tiny_model

# What PaddlePaddle writes for a flattening in front of a transformer: sizes are computed, their number is known.
COMPUTED = """g (float[N, 4, H, W] x) => (float[A, B, C] y) {
    sizes = Shape (x)
    batch = Slice (sizes, zero, one)
    wanted = Concat <axis = 0> (batch, rest)
    r = Reshape (x, wanted)
    t = Transpose <perm = [0, 2, 1]> (r)
    y = Mul (t, unit)
}"""
CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "rest": np.array([4, -1]),
    "unit": np.array([1], np.float32),
}


@pytest.mark.parametrize("opset", [13, 14, 21])
def test_a_reshape_to_computed_sizes_has_as_many_dimensions(opset):
    model = load_model(tiny_model(COMPUTED, CONSTANTS, opset=opset))
    infer_types(model)
    shapes = {value.name: value.shape for node in model.graph for value in node.outputs}
    assert len(shapes["r"]) == len(shapes["t"]) == 3


@pytest.mark.parametrize("opset", [13, 14, 21])
def test_what_multiplies_it_by_one_goes_in_every_operator_set(opset):
    model = load_model(
        tiny_model(COMPUTED.replace("y = Mul (t, unit)", "m = Mul (t, unit) y = Sigmoid (m)"), CONSTANTS, opset=opset)
    )
    assert "Mul" not in operators_of(prepare(model, opset))


def test_sizes_that_are_too_many_for_an_array_say_nothing():
    """A file may claim any number of them, and memory is not taken for a claim."""
    model = load_model(
        tiny_model("g (float[4] x, int64[100000000] wanted) => (float y) { y = Reshape (x, wanted) }", {})
    )
    model.graph.outputs[0].shape = None
    tracemalloc.start()
    infer_types(model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.graph.outputs[0].shape is None
    assert peak < 10 << 20
