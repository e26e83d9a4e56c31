from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.scalar_functions import SCALAR_FUNCTIONS, find_scalar_functions
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import tiny_model

CONSTANTS = {
    **{name: np.float32(value) for name, value in {"c0": 0, "c1": 1, "c3": 3, "c6": 6, "half": 0.5}.items()},
    **{name: np.float32(value) for name, value in {"sixth": 1 / 6, "about": 0.1666667, "fifth": 0.2}.items()},
    **{name: np.float32(value) for name, value in {"root": math.sqrt(2), "steep": 1.702, "cube": 0.044715}.items()},
    **{"inner": np.float32(math.sqrt(2 / math.pi)), "power": np.float32(3), "shaped": np.full((1, 1), 6, np.float32)},
    "w": np.eye(8, dtype=np.float32),
}

# `a` goes in and `z` comes out.
SPELLINGS = {
    "HardSigmoid": (
        "z = HardSigmoid<alpha = 0.16666667, beta = 0.5>(a)",
        "s = Add(a, c3) t = Clip(s, c0, c6) z = Div(t, c6)",
        "s = Add(c3, a) t = Relu(s) u = Min(t, c6) z = Mul(sixth, u)",
        "s = Mul(a, about) t = Add(s, half) z = Clip(t, c0, c1)",
    ),
    "Sigmoid of -x": ("e = Exp(a) s = Add(e, c1) z = Div(c1, s)",),
    "HardSigmoid of slope 0.2": ("z = HardSigmoid(a)", "s = Mul(a, fifth) t = Add(s, half) z = Clip(t, c0, c1)"),
    "HardSwish": (
        "z = HardSwish(a)",
        "s = Add(a, c3) t = Clip(s, c0, c6) m = Mul(a, t) z = Div(m, c6)",
        "s = Add(a, c3) t = Clip(s, c0, c6) d = Div(t, shaped) z = Mul(d, a)",
        "s = Add(c3, a) t = Max(s, c0) u = Min(c6, t) v = Mul(u, about) z = Mul(a, v)",
        "s = Add(a, c3) t = Relu(s) u = Min(t, c6) v = Mul(a, sixth) z = Mul(v, u)",
        "s = HardSigmoid<alpha = 0.16666667>(a) z = Mul(s, a)",
        "s = Add(a, c3) t = Clip(s, c0, c6) z = Mul(a, t)",
    ),
    "Sigmoid": ("z = Sigmoid(a)", "n = Neg(a) e = Exp(n) p = Add(e, c1) z = Reciprocal(p)"),
    "SiLU": ("s = Sigmoid(a) z = Mul(a, s)", "s = Sigmoid(a) m = Mul(s, a) z = Mul(m, c6)"),
    "QuickGelu": ("s = Mul(steep, a) t = Sigmoid(s) z = Mul(a, t)",),
    "Mish": (
        "s = Softplus(a) t = Tanh(s) z = Mul(a, t)",
        "e = Exp(a) p = Add(e, c1) l = Log(p) t = Tanh(l) z = Mul(t, a)",
    ),
    "Tanh": ("z = Tanh(a)", "s = Max(a) z = Tanh(s)"),
    "Gelu": (
        "s = Div(a, root) e = Erf(s) p = Add(e, c1) m = Mul(a, p) z = Mul(m, half)",
        "s = Div(a, root) e = Erf(s) p = Add(c1, e) m = Mul(half, a) z = Mul(m, p)",
    ),
    "Gelu by Tanh": (
        "q = Pow(a, power) u = Mul(q, cube) v = Add(a, u) i = Mul(v, inner) t = Tanh(i) o = Add(t, c1) m = Mul(a, o)"
        " z = Mul(m, half)",
        "q = Mul(a, a) r = Mul(q, a) u = Mul(r, cube) v = Add(u, a) i = Mul(inner, v) t = Tanh(i) o = Add(c1, t)"
        " m = Mul(half, a) z = Mul(m, o)",
    ),
}  # fmt: skip

OTHERS = {
    "another slope": "z = HardSigmoid<alpha = 0.25>(a)",
    "another offset": "s = Add(a, c6) t = Clip(s, c0, c6) z = Mul(a, t)",
    "another bound": "s = Add(a, c3) t = Clip(s, c0, c3) z = Mul(a, t)",
    "something else reads a part": "s = Sigmoid(a) m = Mul(a, s) z = Add(m, s)",
    "something else reads the input": "s = Sigmoid(a) m = Mul(a, s) h = MatMul(a, w) z = Add(m, h)",
    "channels": "s = Mul(a, gamma) t = Sigmoid(s) z = Mul(a, t)",
    "no number": "s = Log(a) z = Mul(a, s)",
}


def _text(body):
    return f"g (float[N, 8] x) => (float[N, 8] y) {{ a = MatMul(x, w) {body} y = MatMul(z, w) }}"


def _found(body, opset=18, **constants):
    graph = load_model(tiny_model(_text(body), CONSTANTS | constants, opset)).graph
    for node in graph:
        node.outputs[0].type = node.outputs[0].type or graph.inputs[0].type
    return [each for each in find_scalar_functions(graph) if each.entry.name == "a"]


@pytest.mark.parametrize(("name", "body"), [(name, body) for name, bodies in SPELLINGS.items() for body in bodies])
def test_a_function_is_found_in_any_spelling(name, body):
    (found,) = _found(body)
    assert (found.function.name, found.nodes[-1].outputs[0].name) == (name, "z")


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_is_no_such_function_is_not_found(body):
    gamma = np.linspace(1, 2, 8, dtype=np.float32)
    assert not [each for each in _found(body, gamma=gamma) if each.nodes[-1].outputs[0].name == "z"]


def test_clip_may_have_bounds_in_attributes():
    (found,) = _found("s = Add(a, c3) t = Clip<min = 0.0, max = 6.0>(s) z = Mul(a, t)", opset=10)
    assert found.function.name == "HardSwish"


def test_a_clip_whose_bound_is_computed_is_no_function_of_one_number():
    text = """g (float x, float[N] v) => (float[N] y) {
        a = Neg (x)  s = Neg (a)  z = Clip (a, s)  y = Mul (v, z)
    }"""
    assert not find_scalar_functions(load_model(tiny_model(text, {})).graph)


@pytest.mark.parametrize("name", SPELLINGS)
@given(x=st.lists(st.floats(-20, 20, width=32), min_size=8, max_size=8))
def test_rows_compute_what_onnxruntime_does(name, x):
    session = _sessions(name)
    rows = np.float32([x])
    (got,) = ort.run(session, {"x": rows})
    expected = SCALAR_FUNCTIONS[name].compute(rows.astype(np.float64))
    # float32 of numbers up to 20, whose terms are as large as the constants times these
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-5)


_SESSIONS: dict[str, object] = {}


def _sessions(name):
    if name not in _SESSIONS:
        _SESSIONS[name] = ort.inference_session(
            tiny_model(_text(SPELLINGS[name][0]), CONSTANTS, 18).SerializeToString()
        )
    return _SESSIONS[name]


def test_every_row_has_a_spelling():
    assert set(SPELLINGS) == set(SCALAR_FUNCTIONS)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("ppocr_rec", {"HardSwish": 28, "SiLU": 7, "HardSigmoid": 2}),
        ("ppocr_cls", {"HardSwish": 18, "HardSigmoid of slope 0.2": 9}),
        ("text_yolox", {"SiLU": 74, "Sigmoid": 6}),
        ("basic_pitch", {"Sigmoid": 3}),
        ("magika", {"Gelu by Tanh": 2, "Tanh": 2}),
    ],
)
def test_functions_of_real_models_are_found(shared, model, expected):
    graph = prepare(load_model(shared / "models" / f"{model}.onnx"), 13).graph
    assert Counter(each.function.name for each in find_scalar_functions(graph)) == expected
