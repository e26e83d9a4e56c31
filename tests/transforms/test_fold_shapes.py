"""Arithmetic on shapes: the same numbers as onnx's reference, and onnxscript where there is more to fold."""

import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from quarkfast.graph.load import load_model
from quarkfast.transforms.fold_constants import fold_constants, fold_shapes
from support.tiny_models import conv_relu_model, tiny_model

A, B = np.int64([[3, -1, 2], [7, 0, 5]]), np.int64([[1, 4, -2], [2, 2, 2]])
EXPRESSIONS = {
    "Add (a, b)": {"a": A, "b": B},
    "Sub (a, b)": {"a": A, "b": B},
    "Mul (a, b)": {"a": A, "b": np.int64(3)},
    "Cast <to = 7> (a)": {"a": A},
    "Cast <to = 7> (a) ": {"a": np.int32([-(2**31), 7])},
    "Concat <axis = 1> (a, b)": {"a": A, "b": B},
    "Concat <axis = -2> (a, b)": {"a": A, "b": B},
    "ConstantOfShape <value = int64[1] {9}> (a)": {"a": np.int64([2, 3])},
    "Gather (a, b)": {"a": A, "b": np.int64([1, -2])},
    "Gather <axis = 1> (a, b)": {"a": A, "b": np.int64(2)},
    "Reshape (a, b)": {"a": A, "b": np.int64([0, -1, 1])},
    "Reshape <allowzero = 1> (a, b)": {"a": np.zeros((0, 3), np.int64), "b": np.int64([3, 0])},
    "Slice (a, b, c, d, e)": {"a": A, "b": [-1], "c": [-(2**63) + 1], "d": [0], "e": [-1]},
    "Slice (a, b, c, d, e) ": {"a": A, "b": [0, 1], "c": [2**63 - 1, 3], "d": [0, -1], "e": [1, 2]},
    "Transpose (a)": {"a": A},
    "Transpose <perm = [0, 1]> (a)": {"a": A},
    "Unsqueeze (a, b)": {"a": A, "b": np.int64([0, -1])},
}
KEPT = {
    "Add (a, b)": {"a": np.float32([1]), "b": np.float32([2])},
    "Cast <to = 1> (a)": {"a": A},
    "Cast <to = 7> (a)": {"a": np.float32([1.5])},
    "Mul (a, a)": {"a": np.int32([2])},
    "ConstantOfShape (a)": {"a": np.int64([2, 3])},
    "ConstantOfShape <value = int64[1] {9}> (a)": {"a": np.int64([1025])},
    "ConstantOfShape <value = int64[1] {9}> (a) ": {"a": np.int64([-1])},
    "Gather (a, b)": {"a": A, "b": np.int64([2])},
    "Gather (a, b) ": {"a": np.zeros(1025, np.int64), "b": np.int64([2])},
    "Mul (a, b)": {"a": np.ones((1, 33), np.int64), "b": np.ones((33, 1), np.int64)},
    "Reshape (a, b)": {"a": A, "b": np.int64([2, 3, 0])},
    "Slice (a, b, c)": {"a": A, "b": np.int64([0]), "c": np.int64([1])},
    "Div (a, b)": {"a": A, "b": np.int64([2])},
}


def _model(expression: str, arrays: dict[str, object]) -> onnx.ModelProto:
    constants = {name: np.asarray(array, getattr(array, "dtype", np.int64)) for name, array in arrays.items()}
    text = f"g (float[N] x) => (int64[M] y) {{ r = {expression} \n y = Identity (r) }}"
    return tiny_model(text, constants, 17)


@pytest.mark.parametrize(("expression", "arrays"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_a_result_is_that_of_the_reference(expression, arrays):
    proto = _model(expression, arrays)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": np.float32([0])})
    model = load_model(proto)
    fold_shapes(model)
    found = model.graph.initializers["r"].const_value.numpy()
    assert (found.dtype, found.shape, found.tolist()) == (expected.dtype, expected.shape, expected.tolist())
    assert [node.op_type for node in model.graph] == ["Identity"]


@pytest.mark.parametrize(("expression", "arrays"), KEPT.items(), ids=KEPT)
def test_what_is_of_another_type_too_large_invalid_or_unknown_is_kept(expression, arrays):
    model = ir.serde.deserialize_model(_model(expression, arrays))
    fold_shapes(model)
    assert len(model.graph) == 2


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool"])
@pytest.mark.parametrize("expression", ["Reshape (a, b)", "Unsqueeze (a, c)"])
def test_constants_of_any_type_take_another_shape(expression, dtype):
    kind = "float" if dtype == "float32" else dtype
    arrays = {"a": A.astype(dtype), "b": np.int64([0, -1, 1]), "c": np.int64([0, -1])}
    text = f"g (float[N] x) => ({kind}[M] y) {{ r = {expression} \n y = Identity (r) }}"
    proto = tiny_model(text, arrays, 17)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": np.float32([0])})
    model = load_model(proto)
    fold_shapes(model)
    found = model.graph.initializers["r"].const_value.numpy()
    assert (found.dtype, found.shape, found.tolist()) == (expected.dtype, expected.shape, expected.tolist())


@pytest.mark.parametrize(
    ("shape", "attributes", "sizes"),
    [("3, 8", "", [3, 8]), ("3, 8, 5", "<start = 1, end = -1>", [8]), ("N, 8", "<start = 1>", [8])],
)
def test_sizes_that_are_known_become_a_constant(shape, attributes, sizes):
    model = load_model(
        tiny_model(f"g (float[{shape}] x) => (int64[M] y) {{ r = Shape {attributes} (x) \n y = Neg (r) }}", {})
    )
    fold_shapes(model)
    assert model.graph.initializers["r"].const_value.numpy().tolist() == sizes


def test_an_open_size_is_kept_and_so_is_a_graph_output():
    model = load_model(tiny_model("g (float[N, 8] x) => (int64[M] y) { r = Shape (x) \n y = Neg (r) }", {}))
    fold_shapes(model)
    assert [node.op_type for node in model.graph] == ["Shape", "Neg"]
    model = load_model(tiny_model("g (float[2] x) => (int64[1] y) { y = Shape (x) }", {}))
    fold_shapes(model)
    assert [node.op_type for node in model.graph] == ["Shape"]


def test_the_optimizer_is_not_loaded_where_nothing_is_left_to_fold(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript.optimizer", None)
    fold_constants(load_model(conv_relu_model()))


@pytest.mark.parametrize("expression", ["Div (a, a)", "Cast <to = 1> (x)"])
def test_the_optimizer_runs_where_it_may_fold_more(monkeypatch, expression):
    monkeypatch.setitem(sys.modules, "onnxscript.optimizer", None)
    with pytest.raises(ImportError):
        fold_constants(load_model(_model(expression, {"a": A})))
