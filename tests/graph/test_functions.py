from __future__ import annotations

import numpy as np
import pytest

from quarkfast.graph.functions import inner_tensors, nodes_within_functions
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import tiny_model

CONSTANTS = {
    "w": np.eye(16, dtype=np.float32),
    "c": np.float32(0.5),
    "d": np.float32(1.5),
    "axes": np.array([-1], np.int64),
    "gamma": np.full(16, 2, np.float32),
}

# Between two layers each, so that a function has an end: `a` goes in and `z` comes out.
FUNCTIONS = {
    "Gelu by Erf": "s = Div(a, d) e = Erf(s) p = Add(e, c) m = Mul(a, p) z = Mul(m, c)",
    "Gelu by Tanh": "s = Mul(a, a) t = Mul(s, a) u = Mul(t, c) v = Add(a, u) w1 = Tanh(v) o = Add(w1, d) z = Mul(a, o)",
    "layer normalization": "m = ReduceMean<axes = [-1]>(a) s = Sub(a, m) q = Mul(s, s) v = ReduceMean<axes = [-1]>(q)"
    " e = Add(v, c) r = Sqrt(e) n = Div(s, r) z = Mul(n, gamma)",
    "its variance from two means": "q = Mul(a, a) s = ReduceMean<axes = [-1]>(q) m = ReduceMean<axes = [-1]>(a)"
    " k = Mul(m, m) v = Sub(s, k) e = Add(v, c) r = Sqrt(e) i = Sub(a, m) z = Div(i, r)",
    "Softmax": "m = ReduceMax<axes = [-1]>(a) s = Sub(a, m) e = Exp(s) t = ReduceSum(e, axes) z = Div(e, t)",
    "L2 normalization": "n = ReduceL2<axes = [-1]>(a) b = Clip(n, c) z = Div(a, b)",
    "Mish": "s = Softplus(a) t = Tanh(s) z = Mul(a, t)",
}

OTHERS = {
    "a chain": "z = Erf(a)",
    "SiLU": "s = Sigmoid(a) z = Mul(a, s)",
    "HardSwish": "s = Add(a, d) t = Clip(s, c) z = Mul(a, t)",
    "a residual": "m = MatMul(a, w) r = Tanh(m) z = Add(a, r)",
    "arithmetic": "s = Mul(a, c) z = Add(a, s)",
}


def _names(body: str) -> tuple[set[str], set[str]]:
    """Returns the outputs of the nodes found and those of all nodes between the layers."""
    text = f"g (float[N, 16] x) => (float[N, 16] y) {{ a = MatMul(x, w) {body} y = MatMul(z, w) }}"
    graph = prepare(load_model(tiny_model(text, CONSTANTS)), 13).graph
    between = {node.outputs[0].name for node in graph} - {"a", "y"}
    return {node.outputs[0].name for node in nodes_within_functions(graph)}, between


@pytest.mark.parametrize("body", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_written_out_is_found_whole(body):
    found, between = _names(body)
    assert found == between


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_such_function_is_left_alone(body):
    assert _names(body)[0] == set()


def test_a_function_ends_where_something_else_reads_an_inner_tensor():
    body = "s = Softplus(a) t = Tanh(s) h = MatMul(t, w) m = Mul(a, t) z = Add(h, m)"
    assert _names(body)[0] == set()


def test_inner_tensors_are_all_but_what_leaves_a_function():
    body = "a = MatMul(x, w) s = Softplus(a) t = Tanh(s) z = Mul(a, t) y = MatMul(z, w)"
    model = tiny_model(f"g (float[N, 16] x) => (float[N, 16] y) {{ {body} }}", CONSTANTS)
    assert inner_tensors(prepare(load_model(model), 13).graph) == {"s", "t"}
