"""Each layer is the product of its weight's rows with rows of its input."""

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.input_means import count_rows, rows_at, spread_places
from support.tiny_models import run_exactly, tiny_model

# Text of a node, shape of its input and of its weight.
LAYERS = {
    "conv": ("Conv <pads = [1, 2, 0, 1], strides = [2, 1], dilations = [1, 2]> (x, w)", (2, 3, 7, 8), (4, 3, 3, 2)),
    "grouped conv": ("Conv <group = 2> (x, w)", (2, 4, 5, 5), (6, 2, 3, 3)),
    "depthwise conv": ("Conv <group = 4, pads = [1, 1, 1, 1]> (x, w)", (2, 4, 5, 5), (4, 1, 3, 3)),
    "conv of one axis": ("Conv <pads = [2, 0]> (x, w)", (2, 3, 9), (4, 3, 3)),
    "conv of three axes": ("Conv (x, w)", (1, 2, 4, 4, 3), (3, 2, 2, 2, 2)),
    "valid conv": ('Conv <auto_pad = "VALID"> (x, w)', (1, 2, 4, 4), (3, 2, 2, 2)),
    "transposed conv": (
        "ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 0]> (x, w)",
        (2, 3, 4, 3),
        (3, 4, 3, 2),
    ),
    "grouped transposed conv": (
        "ConvTranspose <group = 2, strides = [2, 2], dilations = [1, 2]> (x, w)",
        (2, 4, 3, 3),
        (4, 3, 2, 2),
    ),
    "matmul": ("MatMul (x, w)", (2, 3, 5), (5, 4)),
    "gemm": ("Gemm (x, w)", (6, 5), (5, 4)),
    "transposed gemm": ("Gemm <transB = 1> (x, w)", (6, 5), (4, 5)),
}
OTHERS = {
    "a weight with a batch": ("MatMul (x, w)", (2, 3, 5), (2, 5, 4)),
    "a scaled product": ("Gemm <alpha = 2.0> (x, w)", (6, 5), (5, 4)),
    "a transposed input": ("Gemm <transA = 1> (x, w)", (5, 6), (5, 4)),
    "padding that depends on the size": ('Conv <auto_pad = "SAME_UPPER"> (x, w)', (1, 2, 4, 4), (3, 2, 2, 2)),
}


def _model(text, shape, weight):
    dims = ", ".join(map(str, shape))
    return tiny_model(f"g (float[{dims}] x) => (float y) {{ y = {text} }}", {"w": weight})


def _whole(rng, shape):
    """Small whole numbers: every order of their sums is exact."""
    return rng.integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("name", LAYERS)
def test_rows_times_weight_are_the_output(name, rng):
    text, shape, weight_shape = LAYERS[name]
    x, weight = _whole(rng, shape), _whole(rng, weight_shape)
    proto = _model(text, shape, weight)
    (layer,) = linear_layers(load_model(proto))
    (expected,) = run_exactly(proto, {"x": x})
    (rows,) = rows_at(layer, [x], np.arange(count_rows(layer, x)))
    got = np.einsum("gnk,gmk->ngm", rows, layer.to_rows(weight)).reshape(len(rows[0]), -1)
    last = expected if layer.window is None else np.moveaxis(expected, 1, -1)
    assert got.tolist() == last.reshape(-1, got.shape[1]).tolist()


@pytest.mark.parametrize("name", LAYERS)
def test_a_weight_comes_back_from_its_rows(name, rng):
    text, shape, weight_shape = LAYERS[name]
    weight = _whole(rng, weight_shape)
    (layer,) = linear_layers(load_model(_model(text, shape, weight)))
    again = layer.from_rows(layer.to_rows(weight))
    assert again.flags.c_contiguous
    assert again.tolist() == weight.tolist()


@pytest.mark.parametrize("name", OTHERS)
def test_other_shapes_are_left_out(name, rng):
    text, shape, weight_shape = OTHERS[name]
    assert not list(linear_layers(load_model(_model(text, shape, _whole(rng, weight_shape)))))


def test_a_weight_that_two_nodes_read_is_left_out(rng):
    text = "g (float[2, 4] x) => (float[2, 4] y) { a = MatMul (x, w) y = MatMul (a, w) }"
    assert not list(linear_layers(load_model(tiny_model(text, {"w": _whole(rng, (4, 4))}))))


def test_a_bias_that_two_layers_read_is_nobodys(rng):
    text = "g (float[2, 4] x) => (float[2, 4] y) { a = Gemm (x, w, b) y = Gemm (a, v, b) }"
    arrays = {"w": _whole(rng, (4, 4)), "v": _whole(rng, (4, 4)), "b": _whole(rng, (4,))}
    assert [layer.bias for layer in linear_layers(load_model(tiny_model(text, arrays)))] == [None, None]


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (7, 7), (7, 20), (1000, 37), (10**7, 1000)])
def test_places_are_inside_and_in_number(count, wanted):
    places = spread_places(count, wanted)
    assert len(places) == min(count, wanted)
    assert places.min() >= 0
    assert places.max() < count


def test_places_are_spread_evenly_and_differ_between_samples():
    places = spread_places(1000, 100)
    # Of 100 places of a golden sequence each tenth of the interval holds 9 to 11: its discrepancy is below 1.5 / 100.
    assert set(np.bincount(places // 100).tolist()) <= {9, 10, 11}
    assert not set(places) & set(spread_places(1000, 100, first=100)[:20])


ADDED = {
    "y = Add (p, b)": "b",
    "y = Add (b, p)": "b",
    "y = Add (p, s)": None,
    "y = Mul (p, b)": None,
    "q = Add (p, b) z = Relu (p) y = Add (q, z)": None,
    "q = Add (p, b) y = Mul (q, b)": None,
}


@pytest.mark.parametrize("text", ADDED)
def test_a_vector_is_a_bias_if_only_the_reader_of_a_product_adds_it(text):
    constants = {"w": np.ones((5, 4), np.float32), "b": np.ones(4, np.float32), "s": np.ones((1, 4), np.float32)}
    model = load_model(tiny_model(f"g (float[N, 5] x) => (float[N, 4] y) {{ p = MatMul (x, w) {text} }}", constants))
    assert [layer.bias for layer in linear_layers(model, added=True)] == [ADDED[text]]
    assert [layer.bias for layer in linear_layers(model)] == [None]


def test_a_product_that_is_an_output_has_no_bias():
    text = "g (float[N, 5] x) => (float[N, 4] p, float[N, 4] y) { p = MatMul (x, w) y = Add (p, b) }"
    model = load_model(tiny_model(text, {"w": np.ones((5, 4), np.float32), "b": np.ones(4, np.float32)}))
    assert [layer.bias for layer in linear_layers(model, added=True)] == [None]
