"""Pairs as one node: which are joined, which stay, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.joined_pairs import join_pairs

PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
NUMBERS = "float s = {0.5}, float t = {0.25}, float[1] s1 = {0.5}, int8 z = {3}, int8[1] z1 = {3}, float zero = {0.0}"


def model_of(nodes: str, outputs: str = "float[N] y", numbers: str = NUMBERS, opset: int = 17) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[N] x) => ({outputs}) <{numbers}> {{ {nodes} }}'
    return onnx.parser.parse_model(text)


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def assert_same_outputs(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    feed = {"x": np.float32([-99, -0.25, 0.25, 0.3, 0.75, 31, 99])}
    options = ort.session_options(optimize=False)
    outputs = [ort.inference_session(each.SerializeToString(), options).run(None, feed) for each in (before, after)]
    assert [each.tobytes() for each in outputs[0]] == [each.tobytes() for each in outputs[1]]


JOINED = ["QuantizeDequantizeLinear"]
CASES = {
    "pair": (PAIR, "float[N] y", JOINED),
    "vectors of one": ("q = QuantizeLinear(x, s1, z1) y = DequantizeLinear(q, s1, z1)", "float[N] y", JOINED),
    "two readers": (
        f"{PAIR} w = DequantizeLinear(q, s, z)",
        "float[N] y, float[N] w",
        [*JOINED, *JOINED],
    ),
    "codes that are an output": (PAIR, "float[N] y, int8[N] q", ["QuantizeLinear", *JOINED]),
    "codes that another node reads": (
        f"{PAIR} i = Cast<to = 6>(q)",
        "float[N] y, int32[N] i",
        ["QuantizeLinear", *JOINED, "Cast"],
    ),
    "codes that a body reads": (
        f"""{PAIR} c = IsNaN(t) w = If (c) <
            then_branch = a () => (int8[N] p) {{ p = Identity(q) }},
            else_branch = b () => (int8[N] r) {{ r = Neg(q) }}
        >""",
        "float[N] y, int8[N] w",
        ["QuantizeLinear", *JOINED, "IsNaN", "If"],
    ),
    "another scale": (
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z)",
        "float[N] y",
        ["QuantizeLinear", "DequantizeLinear"],
    ),
    "no zero point": (
        "q = QuantizeLinear(x, s) y = DequantizeLinear(q, s)",
        "float[N] y",
        ["QuantizeLinear", "DequantizeLinear"],
    ),
    "no scale": (
        "q = QuantizeLinear(x, zero, z) y = DequantizeLinear(q, zero, z)",
        "float[N] y",
        ["QuantizeLinear", "DequantizeLinear"],
    ),
    "a scale that is computed": (
        "u = Abs(s) q = QuantizeLinear(x, u, z) y = DequantizeLinear(q, u, z)",
        "float[N] y",
        ["Abs", "QuantizeLinear", "DequantizeLinear"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_pairs_that_can_be_joined_are_and_outputs_stay(case: str) -> None:
    nodes, outputs, expected = CASES[case]
    model = model_of(nodes, outputs)
    before = onnx.ModelProto.FromString(model.SerializeToString())
    assert join_pairs(model) == (kinds(before) != expected)
    assert kinds(model) == expected
    assert_same_outputs(before, model)


def test_scales_of_channels_stay() -> None:
    model = model_of(PAIR, numbers="float[2] s = {0.5, 1}, int8[2] z = {0, 0}")
    assert not join_pairs(model)


def test_operator_sets_with_mixed_types_stay() -> None:
    assert not join_pairs(model_of(PAIR, opset=23))


def test_scales_that_are_inputs_are_joined() -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, float[1] s, int8[1] z) => (float[N] y)'
    model = onnx.parser.parse_model(f"{head} {{ {PAIR} }}")
    assert join_pairs(model)
    assert kinds(model) == JOINED


def test_a_session_on_bytes_joins_and_an_object_stays_as_it_is() -> None:
    model = model_of(PAIR)
    held = model.SerializeToString()
    x = np.float32([-99, 0.25, 0.3, 99])
    outputs = [exact_session(each).run(None, {"x": x})[0].tolist() for each in (model, held)]
    assert outputs[0] == outputs[1]
    assert model.SerializeToString() == held


@pytest.mark.parametrize("kind", ["STRING", "BFLOAT16", "INT4", "FLOAT8E4M3FN"])
def test_single_constants_of_any_type_are_passed_over(kind: str) -> None:
    model = model_of(PAIR)
    values = ["label"] if kind == "STRING" else [1]
    model.graph.initializer.append(onnx.helper.make_tensor("other", getattr(onnx.TensorProto, kind), [1], values))
    assert join_pairs(model)
    assert kinds(model) == JOINED
