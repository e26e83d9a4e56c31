"""Sums of pairs that saturate, beside the slow telling."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

from quarkfast.evaluate.saturation import excess


def _lost(activations, weights):
    """Adds up what saturation takes from products in this order, in Python's integers."""
    products = [int(a) * int(w) for a, w in zip(activations, weights, strict=True)]
    pairs = [products[i] + products[i + 1] for i in range(0, len(products) - 1, 2)]
    return sum(max(-32768, min(32767, pair)) - pair for pair in pairs)


def _codes(rng, shape):
    return rng.integers(100, 256, shape).astype(np.uint8)


def _weights(rng, shape):
    return rng.integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize(
    ("op_type", "attributes", "shape"),
    [
        ("MatMul", {}, (4, 9)),
        ("MatMul", {}, (2, 4, 9)),
        ("Gemm", {}, (4, 9)),
        ("Gemm", {"transA": 1, "transB": 1}, (4, 9)),
    ],
    ids=str,
)
def test_products_lose_what_their_pairs_lose(op_type, attributes, shape, rng):
    node = onnx.helper.make_node(op_type, ["x", "w"], ["y"], **attributes)
    x, w = _codes(rng, shape), _weights(rng, (9, 3))
    expected = np.apply_along_axis(lambda row: [_lost(row, column) for column in w.T], -1, x)
    assert expected.any()
    given = (x.T, w.T) if attributes else (x, w)
    np.testing.assert_array_equal(excess(node, given[1], given[0], 0), expected)


def _slow_convolution(x, w, pads, strides, dilations, group, fill):
    """Adds up over the kernel's places and, at each, over channels."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=fill)
    reach = [(size - 1) * step for size, step in zip(w.shape[2:], dilations, strict=True)]
    space = [(size - far - 1) // step + 1 for size, far, step in zip(x.shape[2:], reach, strides, strict=True)]
    found, inner = np.zeros((len(x), len(w), *space), np.int64), w.shape[1]
    for n, m, i, j in np.ndindex(found.shape):
        first = m // (len(w) // group) * inner
        activations, weights = [], []
        for a, b in itertools.product(*map(range, w.shape[2:])):
            row, column = i * strides[0] + a * dilations[0], j * strides[1] + b * dilations[1]
            activations += x[n, first : first + inner, row, column].tolist()
            weights += w[m, :, a, b].tolist()
        found[n, m, i, j] = _lost(activations, weights)
    return found


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ({}, [0, 0, 0, 0]),
        ({"pads": [1, 0, 2, 1]}, [1, 0, 2, 1]),
        ({"strides": [2, 1], "dilations": [1, 2]}, [0, 0, 0, 0]),
        ({"group": 2}, [0, 0, 0, 0]),
        ({"auto_pad": "VALID"}, [0, 0, 0, 0]),
        # 7 rows in steps of 2 are 4 places, which reach 1 beyond; 6 columns in steps of 1 reach 2 beyond.
        ({"auto_pad": "SAME_UPPER", "strides": [2, 1]}, [1, 1, 1, 1]),
        ({"auto_pad": "SAME_UPPER", "strides": [1, 2]}, [1, 0, 1, 1]),
        ({"auto_pad": "SAME_LOWER", "strides": [1, 2]}, [1, 1, 1, 0]),
    ],
    ids=str,
)
def test_convolutions_lose_what_their_pairs_lose(attributes, pads, rng):
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    group = attributes.get("group", 1)
    x, w = _codes(rng, (2, 4, 7, 6)), _weights(rng, (4, 4 // group, 3, 3))
    strides, dilations = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    expected = _slow_convolution(x, w, pads, strides, dilations, group, 200)
    assert expected.any()
    np.testing.assert_array_equal(excess(node, w, x, 200), expected)


def test_weights_of_seven_bits_lose_nothing(rng):
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    w = rng.integers(-64, 65, (9, 3)).astype(np.int8)
    assert not excess(node, w, np.full((4, 9), 255, np.uint8), 0).any()
