"""Weights that several layers read."""

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.reconstruct import reconstruct
from quarkfast.reconstruction.shared_weights import shared_weights
from quarkfast.reconstruction.walk import Models
from support.tiny_models import tiny_model

# Two levels of a pyramid, of which the second is computed from the first, and one head for both.
HEAD = """g (float[N, 3, 8, 8] x) => (float[N, 2, 8, 8] y, float[N, 2, 4, 4] z) {
    near = Conv <pads = [1, 1, 1, 1]> (x, u)
    y = Conv (near, w, b)
    far = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (near, v)
    z = Conv (far, w, b)
}"""
SHAPES = {"u": (4, 3, 3, 3), "v": (4, 4, 3, 3), "w": (2, 4, 1, 1), "b": (2,)}


def _head(rng):
    return tiny_model(HEAD, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def test_heads_on_two_levels_share_their_weight(rng):
    model = load_model(_head(rng))
    assert shared_weights(model) == {"w"}
    layers = list(linear_layers(model, shared={"w"}))
    assert [(layer.node, layer.weight, layer.bias) for layer in layers] == [
        ("conv_0", "u", None), ("conv_1", "w", None), ("conv_2", "v", None), ("conv_3", "w", None),
    ]  # fmt: skip
    assert [layer.weight for layer in linear_layers(model)] == ["u", "v"]


TEXTS = {
    # The same step twice, as of a recurrent network that is written out.
    "recurrent": "a = MatMul (x, w) t = Tanh (a) y = MatMul (t, w)",
    # Each comes behind the other once.
    "crossed": "a = MatMul (x, w) b = MatMul (a, v) c = MatMul (x, v) d = MatMul (c, w) y = Add (b, d)",
    # What is added is no layer's weight.
    "read by others": "a = MatMul (x, w) b = Neg (x) c = MatMul (b, w) d = Add (a, w) y = Add (c, d)",
    "multiplied by itself": "y = MatMul (w, w)",
    "transposed once": "a = MatMul (x, w) b = Neg (x) c = Gemm <transB = 1> (b, w) y = Add (a, c)",
    "in a body": """a = MatMul (x, w) b = Neg (x) c = MatMul (b, w)
        y = If (p) <then_branch = t () => (float[4, 4] o) { o = MatMul (a, w) },
                    else_branch = e () => (float[4, 4] q) { q = Add (a, c) }>""",
}


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS)
def test_weights_are_left_out_whose_inputs_depend_on_them_or_that_mean_something_else_too(body, rng):
    text = f"g (float[4, 4] x, bool p) => (float[4, 4] y) {{ {body} }}"
    arrays = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "wv" if f"{name})" in body}
    assert not shared_weights(load_model(tiny_model(text, arrays)))


def test_what_a_body_reads_counts_as_in_front(rng):
    text = """g (float[4, 4] x, bool p) => (float[4, 4] y) {
        a = MatMul (x, w)
        s = If (p) <then_branch = t () => (float[4, 4] o) { o = Neg (a) },
                    else_branch = e () => (float[4, 4] q) { q = Identity (x) }>
        y = MatMul (s, w)
    }"""
    assert not shared_weights(load_model(tiny_model(text, {"w": rng.normal(size=(4, 4)).astype(np.float32)})))


def test_gram_matrices_have_rows_of_all_readers_as_many_as_each_has_places(rng):
    proto, seen = _head(rng), []
    feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(3)]
    layers = list(linear_layers(load_model(proto), shared={"w"}))
    reconstruct(Models(proto, proto), layers, feeds, lambda each: seen.append(each) or {}, both=True)
    assert [each.layer.weight for each in seen] == ["u", "v", "w"]
    assert [each.rows for each in seen] == [3 * 64, 3 * 16, 3 * (64 + 16)]
    alone = []
    for node in ("conv_1", "conv_3"):
        chosen = [layer for layer in layers if layer.node == node]
        reconstruct(Models(proto, proto), chosen, feeds, lambda each: alone.append(each.take()) or {}, both=True)
    near, far = (each.gram * each.count for each in alone)
    # Inputs are rounded to 15 bits of the largest of both, and of each: by at most half a step of either. No input is
    # above the root of the sum of squares.
    largest = max(np.sqrt(np.diagonal(each.gram[0]).max() * each.count) for each in alone)
    np.testing.assert_allclose(seen[2].take().gram * 240, near + far, atol=240 * 2 * largest * largest * 2.0**-14)


def test_few_of_many_places_are_taken_in_proportion(rng):
    text = """g (float[N, 3, 96, 96] x) => (float[N, 2, 96, 96] y, float[N, 2, 48, 48] z) {
        y = Conv (x, w)
        half = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        z = Conv (half, w)
    }"""
    proto, seen = tiny_model(text, {"w": rng.normal(size=(2, 3, 1, 1)).astype(np.float32)}), []
    feeds = [{"x": rng.normal(size=(1, 3, 96, 96)).astype(np.float32)} for _ in range(4)]
    layers = list(linear_layers(load_model(proto), shared={"w"}))
    reconstruct(Models(proto, proto), layers, feeds, lambda each: seen.append(each) or {}, both=False)
    # 2,048 rows are wanted, 512 of each sample: four fifths of the larger level, the last one rounded up.
    assert [each.rows for each in seen] == [4 * (410 + 103)]
