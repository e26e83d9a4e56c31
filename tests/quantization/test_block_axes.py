from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quarkfast.graph.block_axes import activation_axes, constant_axis
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import tiny_model


def _model(text, **arrays):
    return prepare(load_model(tiny_model(text, arrays)), 13)


def _axes(model, name):
    value = ir.convenience.create_value_mapping(model.graph)[name]
    axes = activation_axes(value, tuple(value.uses()))
    return [(axis, [(node.op_type, index) for node, index in readers]) for axis, readers in axes]


@pytest.mark.parametrize(
    ("expression", "axis"),
    [
        ("Conv(x, w4)", 1),
        ("ConvTranspose(x, w4)", 1),
        ("MatMul(x, w2)", -1),
        ("MatMul(w2, x)", -2),
        ("Softmax(x)", -1),
        ("Softmax<axis = 2>(x)", 2),
        ("Relu(x)", 1),
        ("Add(x, w2)", 1),
    ],
)
def test_blocks_lie_along_the_axis_that_the_reader_sums_over(expression, axis):
    arrays = {"w4": np.ones((4, 4, 1, 1), np.float32), "w2": np.ones((4, 4), np.float32)}
    used = {name: array for name, array in arrays.items() if name in expression}
    model = _model(f"g (float[N, 4, 4, 4] x) => (float y) {{ y = {expression} }}", **used)
    assert [found for found, _ in _axes(model, "x")] == [axis]


@pytest.mark.parametrize(
    ("attributes", "axes"), [("", (1, 0)), ("<transA = 1>", (0, 0)), ("<transB = 1>", (1, 1))], ids=["A B", "A'", "B'"]
)
def test_gemm_sums_over_what_its_transpositions_say(attributes, axes):
    model = _model(f"g (float[4, 4] x, float[4, 4] z) => (float y) {{ y = Gemm{attributes}(x, z) }}")
    assert tuple(_axes(model, name)[0][0] for name in "xz") == axes


def test_a_tensor_that_is_summed_over_two_axes_is_in_blocks_along_both():
    model = _model("g (float[2, 4, 4] x) => (float y) { y = MatMul(x, x) }")
    assert _axes(model, "x") == [(-1, [("MatMul", 0)]), (-2, [("MatMul", 1)])]


def test_the_last_axis_by_two_names_is_one_axis():
    model = _model("g (float[2, 4] x) => (float y) { a = MatMul(x, w) b = Gemm(x, w) y = Add(a, b) }",
                   w=np.ones((4, 4), np.float32))  # fmt: skip
    assert _axes(model, "x") == [(-1, [("MatMul", 0), ("Gemm", 0)])]


def test_a_reader_without_an_axis_takes_that_of_another():
    model = _model("g (float[2, 4, 4] x) => (float y, float z) { y = Relu(x) z = MatMul(x, w) }",
                   w=np.ones((4, 4), np.float32))  # fmt: skip
    assert _axes(model, "x") == [(-1, [("Relu", 0), ("MatMul", 0)])]


def test_a_product_of_matrices_hands_its_last_axis_on():
    model = _model("g (float[2, 4, 4] x) => (float[2, 4, 4] y) { a = MatMul(x, w) y = Relu(a) }",
                   w=np.ones((4, 4), np.float32))  # fmt: skip
    assert [axis for axis, _ in _axes(model, "a")] == [-1]
    assert [axis for axis, _ in _axes(model, "y")] == [1]


@pytest.mark.parametrize(
    ("expression", "shape", "axis"),
    [
        ("Conv(x, w)", (6, 4, 1, 1), 1),
        ("MatMul(x, w)", (4, 6), 0),
        ("MatMul(x, w)", (4, 4, 6), 1),
        ("Add(x, w)", (4,), 0),
        ("Add(x, w)", (), 0),
    ],
)
def test_constants_are_in_blocks_along_the_axis_that_is_summed_over(expression, shape, axis):
    model = _model(f"g (float[N, 4, 4, 4] x) => (float y) {{ y = {expression} }}", w=np.ones(shape, np.float32))
    assert constant_axis(model.graph[0], 1) == axis
