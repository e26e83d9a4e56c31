"""Activation shifting: of small whole numbers every sum is exact, so that results are equal bit by bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.algorithms.activation_shifting import shift_tensors
from quarkfast.algorithms.offset_groups import find_offset_groups
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import operators_of, tiny_model

NETWORK = """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
    r = Relu (a)
    m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    c = Conv <pads = [1, 0, 1, 2]> (m, w1)
    d = Clip (c, low, high)
    e = Conv <group = 4> (d, w2, b0)
    t = Conv <pads = [1, 0, 1, 2]> (m, w3, b0)
    n = Relu (t)
    p = Pad (n, sizes)
    s = Add (e, p)
    u = Relu (s)
    q = Concat <axis = 1> (u, u)
    z = Resize <mode = "nearest"> (q, , scales)
    g = GlobalMaxPool (z)
    f = Flatten (g)
    h = Gemm <alpha = 2.0, beta = 3.0, transB = 1> (f, w4, b1)
    i = Relu (h)
    y = Gemm (i, w5, b2)
}"""
SHAPES = {
    **{"w0": (4, 3, 3, 3), "w1": (4, 4, 3, 3), "w2": (4, 1, 1, 1), "w3": (4, 4, 3, 3), "w4": (6, 8), "w5": (6, 5)},
    **{"b0": (4,), "b1": (6,), "b2": (5,)},
}
CONSTANTS = {
    **{"low": np.float32(-3), "high": np.float32(40), "scales": np.float32([1, 1, 2, 2])},
    "sizes": np.int64([0, 0, 0, 0, 0, 0, 0, 0]),
}
# By the tensor that stands first in each group, with that of a sum made of those of its terms.
OFFSETS = {"a": 5.0, "c": -2.0, "e": 3.0, "t": 4.0, "s": 7.0, "h": 6.0}


def _network():
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return prepare(load_model(tiny_model(NETWORK, arrays | CONSTANTS)), 13)


def _shift(model, offsets):
    groups = find_offset_groups(model.graph)
    values = {value.name: value for node in model.graph for value in node.outputs}
    return shift_tensors(model, groups, {groups.of(values[name]): each for name, each in offsets.items()})


def _run(model, names=("y",)):
    proto = onnx.load_model_from_string(serialize(model))
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name != "y")
    x = np.random.default_rng(1).integers(-3, 4, (6, 3, 8, 8)).astype(np.float32)
    return exact_session(proto).run(list(names), {"x": x})


def test_outputs_stay_and_every_tensor_loses_its_offset():
    model, plain = _network(), _network()
    names = ("y", "a", "r", "m", "d", "e", "n", "u", "g", "i")
    found = _shift(model, OFFSETS)
    wanted, got = _run(plain, names), _run(model, names)
    np.testing.assert_array_equal(got[0], wanted[0])
    assert wanted[0].any()
    lost = {**OFFSETS, "r": 5.0, "m": 5.0, "d": -2.0, "n": 4.0, "u": 7.0, "g": 7.0, "i": 6.0}
    for name, one, other in zip(names[1:], wanted[1:], got[1:], strict=True):
        np.testing.assert_array_equal(one - lost[name], other, name)
        assert found.offsets[name] == lost[name]
    assert operators_of(model).count("Relu") == 0
    assert [(node.outputs[0].name, len(node.inputs)) for node in found.limits] == [
        ("r", 2), ("d", 3), ("n", 2), ("u", 2), ("i", 2)
    ]  # fmt: skip


def test_convolutions_with_the_same_padding_share_a_pad():
    model = _network()
    found = _shift(model, OFFSETS)
    pads = [node for node in model.graph if node.op_type == "Pad" and node.inputs[0].name == "m"]
    assert [len(node.outputs[0].uses()) for node in pads] == [2]
    assert found.offsets[pads[0].outputs[0].name] == 5.0
    assert pads[0].outputs[0].shape.dims[1:] == (4, 6, 6)


def test_no_offset_changes_nothing():
    model, plain = _network(), _network()
    found = _shift(model, {})
    assert (dict(found.offsets), list(found.limits)) == ({}, [])
    assert serialize(model) == serialize(plain)


def test_a_bias_that_would_leave_float32_leaves_the_model_as_it_was():
    model, plain = _network(), _network()
    assert _shift(model, {"a": 3e38}) is None
    assert serialize(model) == serialize(plain)


@pytest.mark.parametrize("shared", [False, True])
def test_a_bias_that_others_read_stays_for_them(shared):
    text = """g (float[N, 4] x) => (float[N, 4] y, float[N, 4] o) {
        h = Gemm (x, w, b) r = Relu (h) y = Gemm (r, v, b) o = Gemm (x, w, c)
    }"""
    rng = np.random.default_rng(2)
    arrays = {
        name: rng.integers(-2, 3, shape).astype(np.float32)
        for name, shape in {"v": (4, 4), "w": (4, 4), "b": (4,), "c": (4,)}.items()
    }
    text = text.replace("w, c)", "w, b)") if shared else text
    model, plain = (prepare(load_model(tiny_model(text, arrays)), 13) for _ in range(2))
    _shift(model, {"h": 3.0})
    x = rng.integers(-3, 4, (5, 4)).astype(np.float32)
    for wanted, got in zip(
        *(exact_session(serialize(each)).run(None, {"x": x}) for each in (plain, model)), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_a_transposed_convolution_has_an_offset_behind_it_alone():
    text = """g (float[N, 4, 6, 6] x) => (float[N, 4, H, W] y) {
        c = Conv (x, w0) r = Relu (c) t = ConvTranspose <strides = [2, 2]> (r, w1, b) u = Relu (t) y = Conv (u, w2)
    }"""
    rng = np.random.default_rng(3)
    shapes = {"w0": (4, 4, 1, 1), "w1": (4, 4, 2, 2), "w2": (4, 4, 1, 1), "b": (4,)}
    arrays = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    model, plain = (prepare(load_model(tiny_model(text, arrays)), 13) for _ in range(2))
    groups = find_offset_groups(model.graph)
    values = {value.name: value for node in model.graph for value in node.outputs}
    assert groups.is_pinned(values["r"])
    _shift(model, {"t": 3.0})
    x = rng.integers(-3, 4, (5, 4, 6, 6)).astype(np.float32)
    (wanted,), (got,) = (exact_session(serialize(each)).run(None, {"x": x}) for each in (plain, model))
    np.testing.assert_array_equal(got, wanted)
