"""Means of what weights multiply."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.reconstruction import InputMeans, linear_layers
from quarkfast.reconstruction.input_means import count_rows, rows_at
from support.tiny_models import tiny_model

LAYERS = {
    "Conv": ("y = Conv <pads = [2, 0], strides = [2], group = 2> (x, w)", (8, 7), (6, 4, 3)),
    "dilated Conv": ("y = Conv <pads = [1, 1, 2, 2], dilations = [2, 1]> (x, w)", (4, 6, 5), (6, 4, 3, 3)),
    "ConvTranspose": ("y = ConvTranspose <strides = [2], pads = [1, 1]> (x, w)", (8, 7), (8, 6, 3)),
    "Gemm": ("y = Gemm <transB = 1> (x, w)", (8,), (6, 8)),
    "MatMul": ("y = MatMul (x, w)", (5, 8), (8, 6)),
}


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("name", LAYERS)
def test_means_of_inputs_that_vary_by_channel_are_exact(name, opset, rng):
    node, dimensions, shape = LAYERS[name]
    inputs = ", ".join(map(str, ("N", *dimensions)))
    text = f"g (float[{inputs}] x) => (float y) {{ {node} }}"
    proto = tiny_model(text, {"w": rng.standard_normal(shape).astype(np.float32)}, opset)
    model = load_model(proto)
    (layer,) = linear_layers(model)
    # Integers, whose sums float32 holds. One value a channel, so that its mean at borders is that of the middle.
    varied = rng.integers(-8, 8, (4, *dimensions)).astype(np.float32)
    x = varied if layer.window is None else varied[..., :1].repeat(dimensions[-1], -1)
    if len(dimensions) == 3:
        x = x[:, :, :1].repeat(dimensions[1], 2)
    (rows,) = rows_at(layer, [x], np.arange(count_rows(layer, x)))
    found, outputs = InputMeans(proto, None, [layer]).run([{"x": each[None]} for each in x])
    assert [len(each) for each in outputs] == [1, 1, 1, 1]
    # The graph's means are of at most 64 numbers in float32: 6 roundings of a sum, and one of the quotient.
    expected = rows.mean(axis=1, dtype=np.float64)
    np.testing.assert_allclose(found[layer.node].mean(axis=0), expected, rtol=0, atol=8 * 7 * 2**-24)


def test_a_matrix_product_and_a_convolution_of_one_tensor(rng):
    text = "g (float[N, 4, 8] x) => (float c, float m) { c = Conv (x, w) m = MatMul (x, v) }"
    weights = {"w": rng.standard_normal((3, 4, 1)), "v": rng.standard_normal((8, 5))}
    proto = tiny_model(text, {name: value.astype(np.float32) for name, value in weights.items()})
    conv, product = linear_layers(load_model(proto))
    x = rng.integers(-8, 8, (1, 4, 8)).astype(np.float32)  # sums of integers are exact, and so is an eighth of them
    found, _ = InputMeans(proto, None, [conv, product]).run([{"x": x}])
    np.testing.assert_array_equal(found[conv.node][0], x.mean(axis=(0, 2))[None])
    np.testing.assert_array_equal(found[product.node][0], x.mean(axis=(0, 1))[None])


def test_a_model_in_float16(rng):
    proto = tiny_model(
        "g (float16[N, 4, 8] x) => (float16 c) { c = Conv (x, w) }",
        {"w": rng.standard_normal((3, 4, 1)).astype(np.float16)},
    )
    (conv,) = linear_layers(load_model(proto))
    x = rng.integers(-8, 8, (1, 4, 8)).astype(np.float16)
    found, _ = InputMeans(proto, None, [conv]).run([{"x": x}])
    np.testing.assert_array_equal(found[conv.node][0], x.mean(axis=(0, 2), dtype=np.float64)[None])
