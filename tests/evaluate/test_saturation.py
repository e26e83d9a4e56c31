"""Sums of 8-bit products that do not fit into 16 bits, where a processor has nothing better."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate.saturation import may_saturate
from quarkfast.evaluate.verification import verify
from support.graph_text import parse_graph
from support.tiny_models import samples, tiny_model

CONV = "g (float[N, 4, 6, 6] x) => (float[N, 8, 6, 6] y) { c = Conv<pads = [1, 1, 1, 1]>(x, w) y = Relu(c) }"
MATMUL = "g (float[N, 8] x) => (float[N, 4] y) { m = MatMul(x, w) y = Relu(m) }"
CHAIN = """g (uint8[1, 2, 1, 1] x) => (float[1, 2, 1, 1] y)
    <float s = {1}, uint8 z = {0}, int8 n = {0},
     int8[2, 2, 1, 1] u = {99, 99, 0, 0}, int8[2, 2, 1, 1] v = {0, 0, 99, 99}> {
    a = DequantizeLinear(x, s, z)
    k = DequantizeLinear(u, s, n)
    [first] b = Conv(a, k)
    c = QuantizeLinear(b, s, z)
    d = DequantizeLinear(c, s, z)
    m = DequantizeLinear(v, s, n)
    [second] y = Conv(d, m)
}"""


def _verify(text, weights, shape, preset="U8S8", **options):
    proto = tiny_model(text, {"w": weights.astype(np.float32)})
    options = {"portable": False, "strict": True, **options}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=samples(8, shape), **options)
    return verify(result.model_bytes)


def _one_pair(shape, axis, distance):
    """Weights of nothing but for two of 1, which become codes of 0 and 127, `distance` apart along `axis`."""
    weights = np.full(shape, 1e-4)
    for place in (0, distance):
        weights[tuple(place if index == axis else 0 for index in range(len(shape)))] = 1
    return weights


def test_two_large_neighbours_of_one_sign_may_saturate():
    found = _verify(CONV, _one_pair((8, 4, 3, 3), axis=1, distance=1), (4, 6, 6))
    assert len(found.may_saturate) == 1
    assert found.rows()[-1] == (
        "may saturate",
        "1 layer on x86 processors without VNNI; portable avoids it in models for CPUs, and no graph optimizations in "
        "all",
    )
    assert found.to_dict()["may_saturate"] == list(found.may_saturate)
    assert len(_verify(MATMUL, _one_pair((8, 4), axis=0, distance=1), (8,)).may_saturate) == 1


def test_large_weights_that_are_no_neighbours_do_not():
    assert _verify(CONV, _one_pair((8, 4, 3, 3), axis=1, distance=2), (4, 6, 6)).may_saturate == ()
    assert _verify(MATMUL, _one_pair((8, 4), axis=0, distance=2), (8,)).may_saturate == ()
    assert _verify(MATMUL, _one_pair((8, 4), axis=1, distance=1), (8,)).may_saturate == ()


def test_neighbours_of_both_signs_do_not():
    weights = _one_pair((8, 4), axis=0, distance=1)
    weights[1, 0] = -1
    assert _verify(MATMUL, weights, (8,)).may_saturate == ()


def test_weights_of_seven_bits_leave_room(rng):
    weights = rng.standard_normal((8, 4, 3, 3))
    assert len(_verify(CONV, weights, (4, 6, 6)).may_saturate) == 1
    assert _verify(CONV, weights, (4, 6, 6), reduce_range=True).may_saturate == ()


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "BF16"])
def test_other_types_of_codes_do_not(preset):
    assert _verify(CONV, np.ones((8, 4, 3, 3)), (4, 6, 6), preset).may_saturate == ()


def test_depthwise_convolutions_do_not():
    text = CONV.replace("Conv<", "Conv<group = 4, ").replace("[N, 8, 6, 6] y", "[N, 4, 6, 6] y")
    assert _verify(text, np.ones((4, 1, 3, 3)), (4, 6, 6)).may_saturate == ()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(["first", "second"], id="as they were"),
        pytest.param(["first_token_1", "second_token_3"], id="a token behind"),
        pytest.param(["QLinearConv", "QLinearConv_token_3"], id="onnxruntime 1.18"),
    ],
)
def test_layers_are_told_by_their_own_names_whatever_onnxruntime_calls_them(given):
    source = parse_graph(CHAIN)
    optimized = onnx.GraphProto(initializer=source.initializer)
    for name, operands in zip(given, (["x", "s", "z", "u"], ["c", "s", "z", "v"]), strict=True):
        optimized.node.append(onnx.helper.make_node("QLinearConv", [*operands, "s", "n", "s", "z"], ["q"], name))
    assert list(may_saturate(optimized, source)) == ["first", "second"]
