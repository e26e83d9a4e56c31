"""Operators of onnxruntime that exporters write, and bodies of control flow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import quarkfast
from quarkfast.graph.block_axes import constant_axis
from quarkfast.graph.load import load_model
from quarkfast.graph.schemas import key_of
from quarkfast.pipeline.prepare import prepare
from support.processors import run_exact

MS = "com.microsoft"
WIDTH = 16


def _constant(rng, name, *shape, spread=0.3):
    return onnx.numpy_helper.from_array((rng.standard_normal(shape) * spread).astype(np.float32), name)


@pytest.fixture
def encoder(rng) -> onnx.ModelProto:
    """A layer of an encoder as onnxruntime's transformer optimizer writes it."""
    nodes = [
        helper.make_node("Attention", ["x", "wqkv", "bqkv"], ["a"], "attention", domain=MS, num_heads=4),
        helper.make_node("MatMul", ["a", "wo"], ["o"], "project"),
        helper.make_node("SkipLayerNormalization", ["o", "x", "g1", "b1", "bo"], ["s"], "norm1", domain=MS),
        helper.make_node("MatMul", ["s", "w1"], ["m1"], "up"),
        helper.make_node("BiasGelu", ["m1", "bb1"], ["e"], "gelu", domain=MS),
        helper.make_node("FusedMatMul", ["e", "w2"], ["m2"], "down", domain=MS, transB=1, alpha=0.5),
        helper.make_node("SkipLayerNormalization", ["m2", "s", "g2", "b2"], ["y"], "norm2", domain=MS),
    ]
    shapes = {
        "wqkv": (WIDTH, 3 * WIDTH), "bqkv": (3 * WIDTH,), "wo": (WIDTH, WIDTH), "bo": (WIDTH,), "g1": (WIDTH,),
        "b1": (WIDTH,), "w1": (WIDTH, 4 * WIDTH), "bb1": (4 * WIDTH,), "w2": (WIDTH, 4 * WIDTH), "g2": (WIDTH,),
        "b2": (WIDTH,),
    }  # fmt: skip
    constants = [_constant(rng, name, *shape, spread=1 if name[0] == "g" else 0.3) for name, shape in shapes.items()]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 6, WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _sqnr(proto, result, feed):
    expected, got = (run_exact(m, feed)[0] for m in (proto, result))
    return 10 * np.log10(np.square(expected).sum() / np.square(expected - got).sum())


@pytest.mark.parametrize(
    ("preset", "options"),
    [(preset, {}) for preset in ("A8W8", "A16W8", "U8S8", "DYNAMIC", "BF16", "MX9", "XINT8")]
    + [(preset, {"per_channel": True}) for preset in ("A8W8", "A16W8", "U8S8", "DYNAMIC")],
)
def test_an_encoder_of_fused_operators_is_quantized_and_stays_close(encoder, rng, preset, options):
    x = rng.standard_normal((16, 6, WIDTH)).astype(np.float32)
    result = quarkfast.quantize(encoder, preset=preset, calibration_data={"x": x}, **options)
    onnx.checker.check_model(result.proto)
    # 8 bits give 48 dB for a full-scale uniform signal; normal values use a third of the range (-10 dB), powers of two
    # up to half of that (-6 dB), and a dozen roundings follow each other (-11 dB, of which XINT8 leaves half).
    assert _sqnr(encoder, result.model_bytes, {"x": x}) > 24
    # Nodes that split channels are not counted.
    names = {node.name for node in encoder.graph.node}
    left_float = [node for node in result.summary.left_float if node.name in names]
    assert sum(result.summary.quantized.values()) + len(left_float) == len(names) == 7
    if preset in ("U8S8", "DYNAMIC"):
        assert f"ort-{'cpu' if preset == 'U8S8' else 'dynamic'} has no rule for com.microsoft::Attention" in [
            node.reason for node in result.summary.left_float
        ]
    else:
        kept = {node.op_type for node in left_float}
        normalization = {"SkipLayerNormalization"}
        assert kept == {"A8W8": normalization, "XINT8": normalization, "MX9": normalization | {"BiasGelu"}}.get(
            preset, set()
        )


def test_types_behind_operators_that_onnx_does_not_know_are_known(encoder):
    model = prepare(load_model(encoder), 13)
    assert all(node.outputs[0].dtype is not None for node in model.graph)


def test_blocks_of_fused_operators_lie_along_what_they_sum_over(encoder):
    model = prepare(load_model(encoder), 13)
    axes = {key_of(node): constant_axis(node, 1) for node in model.graph if "MatMul" in node.op_type}
    assert axes == {"MatMul": 0, "com.microsoft::FusedMatMul": 1}


def _branch(name):
    nodes = [
        helper.make_node("MatMul", ["r", "w"], [f"{name}_m"], f"{name}_matmul"),
        helper.make_node("Relu", [f"{name}_m"], [f"{name}_out"], f"{name}_relu"),
    ]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)])


@pytest.fixture
def branches(rng) -> onnx.ModelProto:
    """MatMul -> Relu -> If -> MatMul, both branches reading an outer tensor and the outer weight."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "matmul"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("If", ["c"], ["b"], "if", then_branch=_branch("then"), else_branch=_branch("else")),
        helper.make_node("MatMul", ["b", "w"], ["y"], "last"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [_constant(rng, "w", 4, 4, spread=1)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("choice", [True, False])
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "BF16", "MX9", "XINT8"])
def test_bodies_of_control_flow_stay_float_and_the_summary_says_so(branches, rng, preset, choice):
    feed = {"x": rng.standard_normal((16, 4)).astype(np.float32), "c": np.array(choice)}
    result = quarkfast.quantize(branches, preset=preset, calibration_data=[feed])
    onnx.checker.check_model(result.proto, full_check=True)
    assert _sqnr(branches, result.model_bytes, feed) > 24
    reasons = {node.name: node.reason for node in result.summary.left_float}
    assert reasons["then_matmul"] == reasons["else_relu"] == "it lies in a body of If 'if'"
    assert result.summary.quantized["MatMul"] == 2


def test_a_node_in_a_body_can_be_named_without_an_error(branches, rng):
    feed = {"x": rng.standard_normal((16, 4)).astype(np.float32), "c": np.array(True)}
    result = quarkfast.quantize(branches, calibration_data=[feed], exclude=["then_matmul", "else_*"])
    assert result.summary.quantized["MatMul"] == 2
