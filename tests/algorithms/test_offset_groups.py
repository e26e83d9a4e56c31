from __future__ import annotations

import numpy as np
import pytest

from quarkfast.algorithms.offset_groups import find_offset_groups
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import prepared_between_layers, tiny_model

WEIGHTS = {"w0": (4, 3, 1, 1), "w1": (4, 4, 3, 3), "w2": (4, 4, 1, 1), "b0": (4,)}
PADDED = "<pads = [1, 1, 1, 1]>"


def _groups(body, **arrays):
    model, values = prepared_between_layers(body, WEIGHTS, "float[N, 4, H, W]", **arrays)
    return find_offset_groups(model.graph), values


@pytest.mark.parametrize(
    "body",
    [
        "z = Relu (a)",
        "z = Clip (a, low, high)",
        "z = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (a)",
        "z = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (a)",
        "z = GlobalAveragePool (a)",
        "z = Transpose <perm = [0, 1, 3, 2]> (a)",
        "z = Add (a, one)",
        "r = Relu (a) z = Concat <axis = 2> (a, r)",
        "r = Relu (a) z = Pad (r, sizes)",
        'z = Resize <mode = "linear"> (a, , scales)',
    ],
)
def test_an_offset_passes_from_one_layer_to_the_next(body):
    constants = {
        "low": np.float32(0),
        "high": np.float32(6),
        "one": np.arange(256, dtype=np.float32).reshape(4, 8, 8),  # no number for each channel, which would be folded
        "sizes": np.int64([0, 0, 1, 1, 0, 0, 1, 1]),
        "scales": np.float32([1, 1, 2, 2]),
    }
    groups, values = _groups(body, **{name: each for name, each in constants.items() if name in body})
    assert groups.of(values["a"]) is groups.of(values["z"])
    assert not groups.is_pinned(values["a"])


@pytest.mark.parametrize(
    "body",
    [
        "z = Sigmoid (a)",
        "z = LeakyRelu (a)",
        "z = Mul (a, a)",
        "z = Add (a, a)",
        "z = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1> (a)",
        "s = Softmax (a) z = Concat <axis = 2> (a, s)",
        "c = Cast <to = 11> (a) z = Cast <to = 1> (c)",
        "z = Pad (a, sizes)",
    ],
)
def test_everything_else_keeps_the_offset_0(body):
    constants = {"sizes": np.int64([0, 0, 1, 1, 0, 0, 1, 1])} if "sizes" in body else {}
    groups, values = _groups(body, **constants)
    assert groups.is_pinned(values["a"])
    assert groups.is_pinned(values["z"])


def test_a_padded_layer_reads_an_offset_only_where_its_zeros_are_a_limit():
    for body, pinned in ((f"c = Conv {PADDED} (a, w1) z = Relu (c)", True), ("r = Relu (a) z = Relu (r)", False)):
        groups, values = _groups(body)
        assert groups.is_pinned(values["a"]) is pinned
    groups, values = _groups(f"r = Relu (a) c = Conv {PADDED} (r, w1) z = Relu (c)")
    assert not groups.is_pinned(values["r"])
    assert groups.of(values["r"]) is not groups.of(values["c"])


def test_a_sum_ties_three_offsets_and_joins_none():
    groups, values = _groups("r = Relu (a) b = Conv (r, w2) s = Add (b, r) z = Relu (s)")
    ((first, second, result),) = groups.sums
    assert [first, second, result] == [values[name] for name in "brs"]
    assert len({groups.of(values[name]) for name in "brs"}) == 3


def test_inputs_and_outputs_of_the_graph_keep_the_offset_0():
    groups, values = _groups("z = Relu (a)")
    assert groups.is_pinned(values["y"])
    assert groups.is_pinned(groups.layers[0].node.inputs[0])


def test_layers_whose_bias_cannot_make_up_for_rounded_weights_read_no_offset():
    text = """g (float[N, 4] x) => (float[N, 4] y) {
        h = Gemm (x, v) r = Relu (h) p = MatMul (r, w) s = Add (p, b) t = Relu (s) k = Gemm (t, u)
        z = Relu (k) y = Gemm (z, u)
    }"""
    rng = np.random.default_rng(1)
    shapes = {"v": (4, 4), "w": (4, 4), "u": (4, 4), "b": (4,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = prepare(load_model(tiny_model(text, arrays)), 13)
    values = {value.name: value for node in model.graph for value in node.outputs}
    groups = find_offset_groups(model.graph)
    # A MatMul, and two layers with one weight.
    assert all(groups.is_pinned(values[name]) for name in ("r", "p", "s", "t", "z"))
