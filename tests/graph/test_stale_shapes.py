"""Shapes that a file declares between its nodes, where they are no longer those of the model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import tools
from quarkfast.config import PRESETS
from quarkfast.graph.load import load_model
from quarkfast.graph.shape_inference import drop_stale_shapes
from support.every_verb import run_every_verb, run_everywhere
from support.tiny_models import tiny_model

TEXT = """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    r = Relu (c)
    p = GlobalAveragePool (r)
    f = Flatten (p)
    y = MatMul (f, fw)
}"""

X = np.random.default_rng(1).normal(size=(4, 3, 8, 8)).astype(np.float32)


def _arrays():
    rng = np.random.default_rng(2)
    shapes = {"w": (16, 3, 3, 3), "b": (16,), "fw": (16, 5)}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def _model(**declared):
    model = tiny_model(TEXT, _arrays())
    for name, shape in declared.items():
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    return model


STALE = {
    "channels of a pruned layer": _model(c=["N", 24, 8, 8]),
    "a batch of one": _model(c=[1, 16, 8, 8], r=[1, 16, 8, 8], p=[1, 16, 1, 1], f=[1, 16]),
    "another rank": _model(p=["N", 16]),
    "one wrong size among right ones": _model(c=["N", 16, 8, 8], f=["N", 9], r=["N", 16, 8, 8]),
}


def _declared(model):
    return {name: value.shape for name, value in ((v.name, v) for node in model.graph for v in node.outputs)}


@pytest.mark.parametrize("kind", STALE)
def test_all_are_forgotten_where_one_is_stale(kind):
    model = load_model(STALE[kind])
    assert drop_stale_shapes(model)
    shapes = _declared(model)
    assert [str(size) for size in shapes.pop("y")] == ["N", "5"]
    assert set(shapes.values()) == {None}
    assert not drop_stale_shapes(model)


@pytest.mark.parametrize(
    "declared",
    [{}, {"c": ["N", 16, 8, 8]}, {"c": ["M", 16, "H", "W"]}, {"c": [None, None, 8, 8], "f": ["N", 16]}],
    ids=["none", "right", "other names", "open"],
)
def test_shapes_that_may_be_right_stay(declared):
    model = load_model(_model(**declared))
    before = _declared(model)
    assert not drop_stale_shapes(model)
    assert _declared(model) == before


def test_a_size_stays_that_nothing_but_the_file_tells():
    """Behind a Reshape to computed sizes onnx knows none."""
    text = "g (float[N, 8] x, int64[2] s) => (float[A, B] y) { r = Reshape (x, s) y = Relu (r) }"
    model = tiny_model(text)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [4, 2]))
    loaded = load_model(model)
    assert not drop_stale_shapes(loaded)
    assert list(_declared(loaded)["r"]) == [4, 2]


def test_shapes_in_bodies_are_looked_at_too():
    text = """g (float[N, 8] x, bool c) => (float[N, 8] y) { y = If (c) <
        then_branch = one () => (float[N, 8] o) { a = Relu (x) o = Neg (a) },
        else_branch = other () => (float[N, 8] o) { o = Neg (x) }> }"""
    model = tiny_model(text)
    body = model.graph.node[0].attribute[0].g
    body.value_info.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["N", 9]))
    assert drop_stale_shapes(load_model(model))


@pytest.mark.parametrize(
    ("preset", "kind"), [(preset, [*STALE][index % len(STALE)]) for index, preset in enumerate(PRESETS)]
)
def test_every_verb_takes_a_model_with_stale_shapes(preset, kind, tmp_path):
    result = run_every_verb(STALE[kind], preset, {"x": X}, tmp_path)
    assert len(run_everywhere(result.model_bytes, {"x": X})[0]) == 1


@pytest.mark.parametrize("preset", PRESETS)
def test_what_outputs_declare_is_never_narrowed(preset):
    """A batch of any size is what the caller of the float model relies on, whatever shapes between say."""
    result = quarkfast.quantize(STALE["a batch of one"], preset=preset, calibration_data={"x": X})
    (output,) = result.proto.graph.output
    assert [size.dim_param or size.dim_value for size in output.type.tensor_type.shape.dim] == ["N", 5]


def test_an_open_output_stays_open_behind_fixed_inputs(tmp_path):
    model = tiny_model(TEXT.replace("float[N, 3, 8, 8] x", "float[1, 3, 8, 8] x"), _arrays())
    result = quarkfast.quantize(model, preset="BF16")
    assert result.proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"
    tools.fix_input_shapes(_model(), tmp_path / "fixed.onnx", {"x": [1, 3, 8, 8]})
    fixed = onnx.load(tmp_path / "fixed.onnx").graph.output[0].type.tensor_type.shape
    assert [size.dim_value for size in fixed.dim] == [1, 5]


@pytest.mark.parametrize("opset", [11, 12])
def test_an_older_operator_set_is_converted_all_the_same(opset):
    """onnx's converter begins with its shape inference, which stale shapes stop."""
    model = tiny_model(TEXT, _arrays(), opset=opset)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, ["N", 24, 8, 8]))
    result = quarkfast.quantize(model, preset="A8W8", calibration_data={"x": X})
    run_everywhere(result.model_bytes, {"x": X})
