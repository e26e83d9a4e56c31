"""What is told about types and shapes beyond what onnx tells."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError
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


def _custom(text, constants, **domains):
    model = tiny_model(text, constants, opset=21, ir_version=10)
    model.opset_import.extend(
        onnx.helper.make_opsetid(name.replace("_", "."), version) for name, version in domains.items()
    )
    return model


W = np.random.default_rng(4).normal(0, 0.3, (8, 8)).astype(np.float32)
K = np.random.default_rng(5).normal(0, 0.3, (8, 8, 3, 3)).astype(np.float32)

# Operators whose types onnx does not infer, between two layers.
BETWEEN = {
    "GroupNormalization": _custom(
        """g (float[N, 8, 6, 6] x) => (float[N, 8, 6, 6] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, k) n = GroupNormalization <num_groups = 2> (a, g, b)
            s = Sigmoid (n) m = Mul (n, s) y = Conv <pads = [1, 1, 1, 1]> (m, k) }""",
        {"k": K, "g": np.ones(8, np.float32), "b": np.zeros(8, np.float32)},
    ),
    "Scaler": _custom(
        """g (float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w) n = ai.onnx.ml.Scaler <offset = [0.1], scale = [2.0]> (a) y = MatMul (n, w) }""",
        {"w": W},
        ai_onnx_ml=3,
    ),
    "Normalizer": _custom(
        """g (float[N, 8] x) => (float[N, 8] y) {
            a = MatMul (x, w) n = ai.onnx.ml.Normalizer <norm = "L2"> (a) y = MatMul (n, w) }""",
        {"w": W},
        ai_onnx_ml=3,
    ),
    "contrib": _custom(
        """g (float[8, 8] x) => (float[8, 8] y) {
            a = MatMul (x, w) n = com.microsoft.Trilu (a) y = MatMul (n, w) }""",
        {"w": W},
        com_microsoft=1,
    ),
}


@pytest.mark.parametrize("kind", BETWEEN)
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "BF16", "FP16", "DYNAMIC", "BFP16", "A16W8"])
def test_layers_behind_what_onnx_does_not_infer_are_quantized(kind, preset):
    x = (
        np.random.default_rng(6)
        .normal(size=(8, 8, 6, 6) if kind == "GroupNormalization" else (8, 8))
        .astype(np.float32)
    )
    result = quarkfast.quantize(BETWEEN[kind], preset=preset, calibration_data={"x": x})
    layer = "Conv" if kind == "GroupNormalization" else "MatMul"
    assert result.summary.quantized[layer] == 2
    named = {*result.summary.quantized, *(left.op_type for left in result.summary.left_float)}
    assert {node.op_type for node in BETWEEN[kind].graph.node} == {name.split("::")[-1] for name in named}
    ort.inference_session(result.model_bytes)


def test_large_constants_and_bodies_are_no_hindrance():
    """The model that is asked for types has large constants as inputs, which bodies read too."""
    model = tiny_model(
        """g (float[N, 64] x, bool c) => (float[N, 64] y) {
            n = ai.onnx.ml.Normalizer (x)
            i = If (c) <then_branch = one () => (float[N, 64] o) { o = MatMul (n, w) },
                        else_branch = other () => (float[N, 64] o) { o = Neg (n) }>
            y = MatMul (i, w) }""",
        {"w": np.ones((64, 64), np.float32)},
    )
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    loaded = load_model(model)
    infer_types(loaded)
    types = {value.name: value.dtype for node in loaded.graph for value in node.outputs}
    assert types == dict.fromkeys("niy", ir.DataType.FLOAT)
    assert list(loaded.graph.initializers) == ["w"]


def test_a_model_that_onnxruntime_does_not_load_says_which_type_is_missing():
    model = tiny_model("g (float[8, 8] x) => (float[8, 8] y) { n = mine.Own (x) y = MatMul (n, w) }", {"w": W})
    model.opset_import.append(onnx.helper.make_opsetid("mine", 1))
    with pytest.warns(UserWarning, match="nothing in the model can be quantized"):
        result = quarkfast.quantize(model, preset="BF16")
    reasons = {left.op_type: left.reason for left in result.summary.left_float}
    assert reasons["Own"] == "ryzenai-bf16 has no rule for mine::Own"
    assert reasons["MatMul"] == "the type of 'n' is not known: onnx does not infer it, and onnxruntime does not tell it"


def test_onnxruntime_is_asked_once(monkeypatch):
    opened = []
    model = load_model(BETWEEN["Scaler"])
    monkeypatch.setattr(ort, "inference_session", _refuse(opened))
    for _ in range(3):
        infer_types(model)
    assert len(opened) == 1


def _refuse(opened):
    def session(*given, **named):
        opened.append(given)
        raise ModelError("no session")

    return session


def test_onnxruntime_is_asked_about_nodes_in_any_order():
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    g (float[N, 4] x) => (float[N, 4] y) { y = Relu (s)  s = ai.onnx.ml.Scaler <offset = [0.1], scale = [2.0]> (x) }"""
    model = load_model(onnx.parser.parse_model(text))
    infer_types(model)
    assert {value.name: value.dtype for node in model.graph for value in node.outputs}["s"] == ir.DataType.FLOAT
