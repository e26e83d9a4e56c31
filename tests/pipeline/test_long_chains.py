"""Chains of more nodes than Python nests calls, and operands that are read twice at each step."""

import itertools

import numpy as np
import onnx
import pytest

import quarkfast
from support.tiny_models import tiny_model

_LENGTH = 1500
_W = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)


def _chained(text, node, length=_LENGTH, **arrays):
    """A model in which `a` becomes `z` by `length` nodes."""
    model = tiny_model(text, {"w": _W, **arrays})
    (place,) = [index for index, each in enumerate(model.graph.node) if each.op_type == "Chain"]
    names = ["a", *(f"chain_{index}" for index in range(length - 1)), "z"]
    rest = list(model.graph.node)
    nodes = [node(one, other) for one, other in itertools.pairwise(names)]
    made = onnx.helper.make_graph(
        [*rest[:place], *nodes, *rest[place + 1 :]], "g", model.graph.input, model.graph.output, model.graph.initializer
    )
    return onnx.helper.make_model(made, opset_imports=model.opset_import, ir_version=8)


def _unary(op_type, **attributes):
    return lambda one, other: onnx.helper.make_node(op_type, [one], [other], **attributes)


CHAINS = {
    "behind a layer": ("a = MatMul (x, w) z = Chain (a) y = MatMul (z, w)", _unary("Relu")),
    "behind a factor": ("a = Mul (x, f) z = Chain (a) y = MatMul (z, w)", _unary("Relu")),
    "in front of a factor": ("a = MatMul (x, w) z = Chain (a) y = Mul (z, f)", _unary("Relu")),
    "turned": ("a = MatMul (x, w) z = Chain (a) y = Neg (z)", _unary("Transpose", perm=[1, 0])),
    "at the end": ("a = MatMul (x, w) z = Chain (a) y = Softmax (z)", _unary("Reshape")),
    "behind a Softmax": ("s = MatMul (x, w) a = Softmax (s) z = Chain (a) y = MatMul (z, w)", _unary("Abs")),
    "of a constant": ("a = Abs (w) z = Chain (a) y = MatMul (x, z)", _unary("Transpose", perm=[1, 0])),
}


@pytest.mark.parametrize("preset", ["A8W8", "DYNAMIC", "INT8_WO"])
@pytest.mark.parametrize("place", CHAINS)
def test_a_long_chain_is_planned(place, preset):
    text, node = CHAINS[place]
    if place == "at the end":
        node = lambda one, other: onnx.helper.make_node("Reshape", [one, "shape"], [other])  # noqa: E731
    arrays = {"f": np.float32(0.5), "shape": np.int64([-1, 8])}
    model = _chained(f"g (float[8, 8] x) => (float[8, 8] y) {{ {text} }}", node, **arrays)
    assert quarkfast.plan(model, preset=preset)


def test_operands_that_are_read_twice_at_each_step_are_looked_at_once():
    text = "g (float[8, 8] x) => (float[A, B] y) { a = MatMul (x, w) z = Chain (a) y = Concat <axis = 0> (z, x) }"
    model = _chained(text, lambda one, other: onnx.helper.make_node("Add", [one, one], [other]), 60)
    assert quarkfast.plan(model, preset="A8W8")
