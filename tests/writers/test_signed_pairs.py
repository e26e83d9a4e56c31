"""Pairs of int8 codes that onnxruntime adds to in operator set 21 and later, and then cannot load."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.writers.runtime_forms import keep_signed
from support.tiny_models import tiny_model

SIGNED = ["A8W8", "XINT8"]
LINEAR = "g (float[1, 7, 16] x) => (float[1, 7, 16] y) { m = MatMul(x, w) a = Add(m, b) y = Relu(a) }"

# What onnxruntime moves a DequantizeLinear behind, over an input of [2, 4, 8, 8].
MOVES = {
    "MaxPool": "MaxPool<kernel_shape = [2, 2]>(a)", "Reshape": "Reshape(a, flat)", "Slice": "Slice(a, one, two)",
    "Squeeze": "Squeeze(a)", "Transpose": "Transpose<perm = [0, 2, 3, 1]>(a)", "Unsqueeze": "Unsqueeze(a, one)",
}  # fmt: skip


@pytest.fixture
def arrays(rng):
    return {"w": (rng.standard_normal((16, 16)) / 4).astype(np.float32), "b": np.float32(rng.standard_normal(16) / 10)}


def _feed(proto):
    shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in proto.graph.input}
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _check(proto, preset, **options):
    """Quantizes, opens default sessions at every level, and returns the result."""
    feed = _feed(proto)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed], **options)
    onnx.checker.check_model(result.proto, full_check=True)
    exact = exact_session(result.model_bytes).run(None, feed)
    for level in onnxruntime.GraphOptimizationLevel.__members__.values():
        chosen = ort.session_options()
        chosen.graph_optimization_level = level
        found = ort.inference_session(result.model_bytes, chosen).run(None, feed)
        assert [each.shape for each in found] == [each.shape for each in exact]
    return result


def _operators(proto):
    return [node.op_type for node in proto.graph.node]


@pytest.mark.parametrize("opset", [20, 21, 22, 23])
@pytest.mark.parametrize("preset", SIGNED)
def test_a_linear_layer_of_rank_3_loads_at_every_level(preset, opset, arrays):
    result = _check(tiny_model(LINEAR, arrays, opset, 10), preset)
    biases = [each.dims for each in result.proto.graph.initializer if each.name.startswith("b")]
    assert biases == [[16] if opset < 21 else [1, 16]]
    assert "Add" in _operators(result.proto)


@pytest.mark.parametrize("shape", ["16", "8, 16", "2, 3, 4, 16"])
@pytest.mark.parametrize("preset", SIGNED)
def test_linear_layers_of_other_ranks_load_at_every_level(preset, shape, arrays):
    text = LINEAR.replace("1, 7, 16", shape)
    result = _check(tiny_model(text, arrays, 21, 10), preset)
    added = {"16": "Sum"}.get(shape, "Add")
    assert added in _operators(result.proto)


def test_a_vector_that_is_computed_is_added_otherwise(arrays):
    text = """g (float[1, 7, 16] x, float[16] v) => (float[1, 7, 16] y) <float s = {0.1}, int8 z = {3}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) m = MatMul(d, w) y = Add(v, m)
    }"""
    proto = tiny_model(text, {"w": arrays["w"]}, 21, 10)
    model, feed = load_model(proto), _feed(proto)
    keep_signed(model)
    assert _operators(onnx.load_model_from_string(serialize(model)))[-1] == "Sum"
    before, after = (exact_session(data).run(None, feed)[0] for data in (proto.SerializeToString(), serialize(model)))
    assert np.array_equal(before, after)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("preset", SIGNED)
def test_a_node_that_moves_data_and_was_to_have_no_pair_gets_the_one_of_what_it_moves(preset, move):
    text = f"g (float[2, 1, 8, 8] x) => (float[A] y) {{ a = Relu(x) r = {MOVES[move]} y = Softplus(r) }}"
    found = {"flat": np.int64([2, 64]), "one": np.int64([1]), "two": np.int64([2])}
    found = {name: array for name, array in found.items() if name in MOVES[move]}
    proto = tiny_model(text, found, 21, 10)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    name = proto.graph.node[1].name
    result = _check(proto, preset, exclude_outputs=[name])
    (moved,) = [node for node in result.proto.graph.node if node.op_type == move]
    (quantize,) = [node for node in result.proto.graph.node if moved.output[0] in node.input]
    (before,) = [node for node in result.proto.graph.node if moved.input[0] in node.output]
    assert quantize.op_type == "QuantizeLinear"
    assert quantize.input[1:] == before.input[1:]


@pytest.mark.parametrize("preset", SIGNED)
def test_moves_behind_one_another_up_to_an_output_keep_its_name(preset, arrays):
    text = """g (float[4, 16] x) => (float[1, 8, 8] y) {
        m = MatMul(x, w) a = Add(m, b) r = Reshape(a, flat) y = Unsqueeze(r, first)
    }"""
    proto = tiny_model(text, arrays | {"flat": np.int64([8, 8]), "first": np.int64([0])}, 21, 10)
    result = _check(proto, preset, exclude_outputs=["reshape_2", "unsqueeze_3"])
    assert [each.name for each in result.proto.graph.output] == ["y"]


def test_the_added_pairs_change_no_bit(arrays):
    text = """g (float[2, 32] x) => (float[4, 16] y) <float s = {0.1}, int8 z = {3}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = Reshape(d, flat) m = MatMul(r, w) y = Add(m, b)
    }"""
    proto = tiny_model(text, arrays | {"flat": np.int64([4, 16])}, 21, 10)
    model, feed = load_model(proto), _feed(proto)
    keep_signed(model)
    assert _operators(onnx.load_model_from_string(serialize(model))).count("QuantizeLinear") == 2
    before, after = (exact_session(data).run(None, feed)[0] for data in (proto.SerializeToString(), serialize(model)))
    assert np.array_equal(before, after)


@pytest.mark.parametrize("preset", ["INT8_WO", "DYNAMIC"])
def test_rows_of_a_table_with_one_scale_are_moved_in_any_encoding(preset, rng):
    text = "g (int64[4, 8] t) => (float[4, 16, 8] y) { e = Gather(table, t) y = Transpose<perm = [0, 2, 1]>(e) }"
    proto = tiny_model(text, {"table": rng.standard_normal((50, 16)).astype(np.float32)}, 21, 10)
    result = quarkfast.quantize(proto, preset=preset, per_channel=False, weight_symmetric=False)
    found = ort.inference_session(result.model_bytes).run(None, {"t": np.zeros((4, 8), np.int64)})[0]
    assert np.array_equal(found, exact_session(result.model_bytes).run(None, {"t": np.zeros((4, 8), np.int64)})[0])


def test_layers_in_the_body_of_an_if_are_kept_too(rng):
    text = """g (bool c, int64[4, 8] t) => (float[4, 16, 8] y) {
        y = If (c) <
            then_branch = one () => (float[4, 16, 8] p) { e = Gather(table, t) p = Transpose<perm = [0, 2, 1]>(e) },
            else_branch = two () => (float[4, 16, 8] q) { f = Gather(table, t) q = Reshape(f, whole) }
        >
    }"""
    arrays = {"table": rng.standard_normal((50, 16)).astype(np.float32), "whole": np.int64([4, 16, 8])}
    proto = tiny_model(text, arrays, 21, 10)
    result = quarkfast.quantize(proto, preset="INT8_WO", per_channel=False, weight_symmetric=False)
    feed = {"c": np.array(True), "t": np.zeros((4, 8), np.int64)}
    found = ort.inference_session(result.model_bytes).run(None, feed)[0]
    assert b"DequantizeLinear" in result.model_bytes
    assert np.array_equal(found, exact_session(result.model_bytes).run(None, feed)[0])


def test_what_has_other_codes_stays(arrays):
    for preset in ("U8S8", "A16W8"):
        result = _check(tiny_model(LINEAR, arrays, 21, 10), preset)
        assert [each.dims for each in result.proto.graph.initializer if each.name == "b"] == [[16]]


def test_pairs_of_onnxruntimes_own_domain_stay(arrays):
    """Its QuantizeLinear there has no such attribute."""
    result = _check(tiny_model(LINEAR, arrays, 21, 10), "A8W8", contrib_pairs=True)
    assert [each.dims for each in result.proto.graph.initializer if each.name == "b"] == [[16]]
