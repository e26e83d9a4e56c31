"""XINT8 models beside the accelerator's integers: the same code for every operator, and what turns that on and off."""

from __future__ import annotations

import math

import numpy as np
import pytest

import quarkfast
from quarkfast.reference import dpu
from quarkfast.transforms.simulate_dpu import average_factor
from support.dpu_models import Written, equal

POOL = "g (float[64, 2, {0}, {0}] x) => (float y) {{ y = {1} (x) }}"
SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14)
MULTIPLIERS = {1: (1, 0), 2: (1, 2), 3: (7, 6), 4: (1, 4), 5: (10, 8), 6: (7, 8), 7: (21, 10), 8: (1, 6), 14: (21, 12)}


def fraction(count: int, side: int) -> tuple[int, int]:
    """Returns the multiplier and the shift nearest to 1 / count, as whole numbers."""
    if side in MULTIPLIERS:
        return MULTIPLIERS[side]
    shifts = range(7 + math.ceil(math.log2(count)))
    return min(((round(2**n / count), n) for n in shifts), key=lambda pair: abs(pair[0] / 2 ** pair[1] - 1 / count))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "AveragePool"])
def test_an_average_is_a_product_and_a_shift(side, op_type):
    node = op_type if op_type == "GlobalAveragePool" else f"AveragePool <kernel_shape = [{side}, {side}]>"
    written = Written(POOL.format(side, node))
    codes = written.codes()
    multiplier, bits = fraction(side * side, side)
    expected = dpu.average(
        codes.sum(axis=(2, 3), keepdims=True), multiplier, bits, written.position("x"), written.position("y")
    )
    equal(written.out(codes), expected)
    assert ("Mul" in written.operators) == (average_factor(side * side, side) != 1)


@pytest.mark.parametrize("size", [2, 3, 7, 10, 12, 49])
def test_a_mean_is_a_product_and_a_shift(size):
    written = Written(f"g (float[64, {size}] x) => (float y) {{ y = ReduceMean <axes = [1]> (x) }}")
    codes = written.codes()
    multiplier, bits = fraction(size, 0)
    equal(
        written.out(codes),
        dpu.average(codes.sum(axis=1, keepdims=True), multiplier, bits, written.position("x"), written.position("y")),
    )


@pytest.mark.parametrize("slope", [0.01, 0.1, 0.2, 0.25, 1 / 3])
def test_the_slope_of_a_leaky_relu_has_8_bits(slope):
    # Behind a MaxPool, whose scale is that of its input.
    written = Written(
        f"g (float[64, 4] x) => (float y) {{ y = LeakyRelu <alpha = {slope}> (x) }}", force_pass_through=True
    )
    codes = written.codes()
    equal(written.out(codes), dpu.leaky_relu(codes, round(slope * 256), written.position("x"), written.position("y")))


@pytest.mark.parametrize("span", [0.4, 4, 30])
@pytest.mark.parametrize("function", ["HardSigmoid <alpha = 0.16666667, beta = 0.5>", "Sigmoid"])
def test_a_sigmoid_has_a_slope_of_14_bits(function, span):
    on = {"constraints": {"dpu_sigmoid": True}} if function == "Sigmoid" else {}
    written = Written(f"g (float[64, 4] x) => (float y) {{ y = {function} (x) }}", span=span, **on)
    codes = written.codes()
    equal(written.out(codes), dpu.hard_sigmoid(codes, written.position("x"), written.position("y")))
    assert written.operators == ["HardSigmoid", "Mul"]
    assert written.position("y") >= 7


@pytest.mark.parametrize("span", [0.3, 4, 30])
def test_a_convolution_shifts_its_sums(span):
    rng = np.random.default_rng(3)
    arrays = {"w": rng.normal(0, 0.2, (5, 3, 3, 3)).astype(np.float32), "b": rng.normal(0, 2, 5).astype(np.float32)}
    written = Written("g (float[8, 3, 8, 8] x) => (float y) { y = Conv (x, w, b) }", arrays, span=span)
    codes, weight = written.codes(), written.arrays["w_quantized"].astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(codes, (3, 3), axis=(2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, weight)
    bias = written.arrays["b_quantized"].astype(np.int64).reshape(1, -1, 1, 1)
    places = (written.position(name) for name in ("x", "w", "b", "y"))
    equal(written.out(codes), dpu.weighted_total(sums, bias, *places))


@pytest.mark.parametrize("span", [0.3, 4, 30])
def test_a_matrix_product_shifts_its_sums(span):
    rng = np.random.default_rng(3)
    arrays = {"w": rng.normal(0, 0.2, (5, 12)).astype(np.float32), "b": rng.normal(0, 2, 5).astype(np.float32)}
    written = Written("g (float[64, 12] x) => (float y) { y = Gemm <transB = 1> (x, w, b) }", arrays, span=span)
    codes = written.codes()
    sums = codes @ written.arrays["w_quantized"].astype(np.int64).T
    places = (written.position(name) for name in ("x", "w", "b", "y"))
    equal(written.out(codes), dpu.weighted_total(sums, written.arrays["b_quantized"], *places))


@pytest.mark.parametrize(("op_type", "law"), [("Add", dpu.total), ("Mul", dpu.product)])
@pytest.mark.parametrize("size", [0.02, 1, 50])
def test_elementwise_operators_shift_their_inputs(op_type, law, size):
    c = np.random.default_rng(3).normal(0, size, (1, 16)).astype(np.float32)
    written = Written(f"g (float[64, 16] x) => (float y) {{ y = {op_type} (x, c) }}", {"c": c})
    codes, constant = written.codes(), written.arrays["c_quantized"].astype(np.int64)
    equal(
        written.out(codes), law(codes, constant, (written.position("x"), written.position("c")), written.position("y"))
    )


@pytest.mark.parametrize(
    "node", ["MaxPool <kernel_shape = [2, 2]>", "Relu", "Transpose <perm = [0, 2, 3, 1]>", "Flatten"]
)
def test_what_moves_codes_changes_none(node):
    written = Written(f"g (float[8, 3, 4, 4] x) => (float[] y) {{ y = {node} (x) }}", force_pass_through=True)
    codes = written.codes()
    moved = {
        "M": lambda: np.lib.stride_tricks.sliding_window_view(codes, (2, 2), axis=(2, 3)).max(axis=(4, 5)),
        "R": lambda: dpu.shifted(np.maximum(codes, 0), written.position("x") - written.position("y")),
        "T": lambda: codes.transpose(0, 2, 3, 1),
        "F": lambda: codes.reshape(8, -1),
    }[node[0]]()
    if node[0] != "R":
        written.arrays.setdefault("y_scale", written.arrays["x_scale"])
    equal(written.out(codes), moved)


def test_shifted_codes_are_those_of_requantization():
    sums = np.arange(-5000, 5000)
    for shift in (-2, 0, 1, 5, 9):
        np.testing.assert_array_equal(dpu.shifted(sums, shift), np.clip(np.rint(sums / 2.0**shift), -128, 127))


CLIPS = "g (float[64, 4] x) => (float y) { h = Mul (x, x) y = Clip (h, low, high) }"


def test_bounds_of_a_clip_may_be_whole_numbers():
    arrays = {"low": np.float32(-0.4), "high": np.float32(5.7)}
    plain, rounded = Written(CLIPS, arrays), Written(CLIPS, arrays, constraints={"dpu_clip": True})
    assert plain.arrays["high"] == np.float32(5.7)
    bounds = {node.input[1:][0]: node.input[2] for node in rounded.result.proto.graph.node if node.op_type == "Clip"}
    ((low, high),) = bounds.items()
    assert (float(rounded.arrays[low]), float(rounded.arrays[high])) == (0, 6)


def test_a_clip_from_zero_may_be_a_relu():
    arrays = {"low": np.float32(0), "high": np.float32(6)}
    assert Written(CLIPS, arrays, constraints={"clip_to_relu": True}).operators == ["Mul", "Relu"]
    arrays["low"] = np.float32(1)
    assert Written(CLIPS, arrays, constraints={"clip_to_relu": True}).operators == ["Mul", "Clip"]


def test_instance_normalization_may_be_that_of_the_accelerator():
    text = "g (float[8, 2, 4, 4] x) => (float y) { y = InstanceNormalization (x, s, b) }"
    arrays = {"s": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
    written = Written(text, arrays, constraints={"dpu_instance_norm": True})
    assert written.operators == ["ExtendedInstanceNormalization"]
    assert np.isfinite(written.out(written.codes())).all()


NAMED = ["dpu_leaky_relu", "dpu_hard_sigmoid", "dpu_average_pool", "dpu_reduce_mean"]
MIXED = """g (float[8, 2, 7, 7] x) => (float y, float z) {
    a = LeakyRelu <alpha = 0.1> (x)
    h = HardSigmoid <alpha = 0.16666667> (a)
    p = GlobalAveragePool (h)
    y = Relu (p)
    z = ReduceMean <axes = [1, 2, 3]> (h)
}"""


def test_each_may_be_turned_off():
    on = Written(MIXED, force_pass_through=True)
    off = Written(MIXED, force_pass_through=True, constraints=dict.fromkeys(NAMED, False))
    assert (on.operators.count("Mul"), off.operators.count("Mul")) == (3, 0)
    said = "1 GlobalAveragePool, 1 HardSigmoid, 1 LeakyRelu, 1 ReduceMean"
    assert f"computed as the accelerator does: {said}" in on.result.summary.notes
    (noted,) = [each.value for each in on.result.proto.metadata_props if each.key == "quarkfast.simulated"]
    assert noted == said
    assert not [each for each in off.result.proto.metadata_props if each.key == "quarkfast.simulated"]


def test_a_hard_sigmoid_of_another_slope_stays_float():
    text = "g (float[64, 4] x) => (float y) { h = Mul (x, x) y = HardSigmoid <alpha = 0.2> (h) }"
    (left,) = Written(text).result.summary.left_float
    assert left.reason == "the accelerator has a slope of 1/6 and an offset of 0.5, not 0.2 and 0.5"
    assert not Written(text, preset="A8W8").result.summary.left_float


def test_a_node_that_stays_float_computes_as_onnx_says():
    text = "g (float[8, 2, 7, 7] x) => (float y) { h = Mul (x, x) y = GlobalAveragePool (h) }"
    assert Written(text, exclude_op_types=["GlobalAveragePool"]).operators == ["Mul", "GlobalAveragePool"]


def test_processors_and_float_scales_compute_as_onnx_says():
    for preset in ("A8W8", "U8S8"):
        assert "Mul" not in Written(MIXED, preset=preset, force_pass_through=True).operators


def test_the_result_keeps_to_the_rules_of_the_target():
    on = Written(MIXED, force_pass_through=True, constraints={"dpu_sigmoid": True})
    assert not quarkfast.check_model(on.result.proto, "ryzenai-xint8").errors
