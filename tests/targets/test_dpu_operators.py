"""Every operator of the accelerator in the integers that the specification has for it: the same codes out of ONNX."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.reference import dpu
from support.dpu_models import Written, equal

SPANS = (0.3, 4, 30)


def numbers(shape, size: float, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, size, shape).astype(np.float32)


def layer_places(written: Written) -> tuple[int, int, int, int]:
    return tuple(written.position(name) for name in ("x", "w", "b", "y"))


def integers(written: Written, name: str) -> np.ndarray:
    return written.arrays[f"{name}_quantized"].astype(np.int64)


def convolution(codes, weight, groups: int = 1, strides: int = 1) -> np.ndarray:
    """The sums of a convolution without pads, in integers."""
    windows = np.lib.stride_tricks.sliding_window_view(codes, weight.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::strides, ::strides]
    parts = zip(np.split(windows, groups, axis=1), np.split(weight, groups), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", data, kernel) for data, kernel in parts], axis=1)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize(("groups", "strides"), [(1, 2), (2, 1), (4, 1), (4, 2)])
def test_convolutions_in_groups_shift_their_sums(span, groups, strides):
    arrays = {"w": numbers((8, 4 // groups, 3, 3), 0.2), "b": numbers(8, 2)}
    node = f"Conv <group = {groups}, strides = [{strides}, {strides}]> (x, w, b)"
    written = Written(f"g (float[8, 4, 8, 8] x) => (float y) {{ y = {node} }}", arrays, span=span)
    codes = written.codes()
    sums = convolution(codes, integers(written, "w"), groups, strides)
    bias = integers(written, "b").reshape(1, -1, 1, 1)
    equal(written.out(codes), dpu.weighted_total(sums, bias, *layer_places(written)))


@pytest.mark.parametrize(("node", "slope"), [("Relu", 0), ("LeakyRelu <alpha = 0.1>", 26), ("PRelu", None)])
@pytest.mark.parametrize("span", SPANS)
def test_an_activation_behind_a_layer_comes_before_the_shift(node, slope, span):
    arrays = {"w": numbers((4, 3, 1, 1), 0.2), "b": numbers(4, 1), "s": np.float32([[[0.25]]])}
    inner = "PRelu (h, s)" if slope is None else f"{node} (h)"
    text = f"g (float[8, 3, 8, 8] x) => (float y) {{ h = Conv (x, w, b) y = {inner} }}"
    written = Written(text, arrays, span=span)
    codes = written.codes()
    sums = convolution(codes, integers(written, "w"))
    bias = integers(written, "b").reshape(1, -1, 1, 1)
    equal(written.out(codes), dpu.weighted_total(sums, bias, *layer_places(written), 64 if slope is None else slope))


@pytest.mark.parametrize("high", [1, 6])
def test_a_clip_behind_a_layer_bounds_its_totals(high):
    arrays = {"w": numbers((4, 3, 1, 1), 0.5), "b": numbers(4, 1), "low": np.float32(0), "high": np.float32(high)}
    text = "g (float[8, 3, 8, 8] x) => (float y) { h = Conv (x, w, b) y = Clip (h, low, high) }"
    written = Written(text, arrays)
    codes, places = written.codes(), layer_places(written)
    bias = integers(written, "b").reshape(1, -1, 1, 1)
    total = dpu.weighted_total(convolution(codes, integers(written, "w")), bias, *places, 0)
    equal(written.out(codes), np.minimum(total, high << places[3]))


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("span", SPANS)
def test_transposed_convolutions_shift_their_sums(groups, span):
    arrays = {"w": numbers((4, 4 // groups, 2, 2), 0.2), "b": numbers(4, 1)}
    node = f"ConvTranspose <strides = [2, 2], group = {groups}> (x, w, b)"
    written = Written(f"g (float[8, 4, 4, 4] x) => (float y) {{ y = {node} }}", arrays, span=span)
    codes, weight = written.codes(), integers(written, "w")
    parts = zip(np.split(codes, groups, axis=1), np.split(weight, groups), strict=True)
    sums = np.concatenate([np.einsum("nchw,coij->nohiwj", data, each) for data, each in parts], axis=1)
    bias = integers(written, "b").reshape(1, -1, 1, 1)
    equal(written.out(codes), dpu.weighted_total(sums.reshape(8, 4, 8, 8), bias, *layer_places(written)))


@pytest.mark.parametrize("span", SPANS)
def test_a_matrix_product_without_a_bias_shifts_its_sums(span):
    written = Written("g (float[64, 12] x) => (float y) { y = MatMul (x, w) }", {"w": numbers((12, 5), 0.2)}, span=span)
    codes = written.codes()
    places = (written.position("x"), written.position("w"), 0, written.position("y"))
    equal(written.out(codes), dpu.weighted_total(codes @ integers(written, "w"), None, *places))


@pytest.mark.parametrize("size", [0.02, 1, 50])
def test_a_difference_is_a_sum(size):
    written = Written("g (float[64, 16] x) => (float y) { y = Sub (x, c) }", {"c": numbers((1, 16), size)})
    codes = written.codes()
    places = (written.position("x"), written.position("c"))
    equal(written.out(codes), dpu.total(codes, -integers(written, "c"), places, written.position("y")))


@pytest.mark.parametrize(("node", "of"), [("Add", dpu.total), ("Mul", dpu.product)])
def test_both_inputs_may_be_activations(node, of):
    written = Written(f"g (float[64, 16] x) => (float y) {{ y = {node} (x, x) }}")
    codes, place = written.codes(), written.position("x")
    equal(written.out(codes), of(codes, codes, (place, place), written.position("y")))


@pytest.mark.parametrize(("node", "of"), [("Max", np.maximum), ("Min", np.minimum)])
def test_extremes_compare_at_one_position(node, of):
    written = Written(f"g (float[64, 16] x) => (float y) {{ y = {node} (x, c) }}", {"c": numbers((1, 16), 1)})
    codes, places = written.codes(), (written.position("x"), written.position("c"))
    common = max(places)
    found = of(codes << (common - places[0]), integers(written, "c") << (common - places[1]))
    equal(written.out(codes), dpu.shifted(found, common - written.position("y")))


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-1, 1), (-3, 2)])
def test_a_clip_between_whole_numbers_compares_codes(low, high):
    arrays = {"low": np.float32(low), "high": np.float32(high)}
    written = Written("g (float[64, 16] x) => (float y) { y = Clip (x, low, high) }", arrays, force_pass_through=True)
    codes = written.codes()
    equal(written.out(codes), dpu.clipped(codes, low, high, written.position("x"), written.position("y")))


def test_a_swish_multiplies_the_input_by_its_gate():
    text = """g (float[64, 16] x) => (float y) {
        h = HardSigmoid <alpha = 0.16666667> (x)
        y = Mul (x, h)
    }"""
    written = Written(text)
    codes, places = written.codes(), (written.position("x"), written.position("h"))
    gate = dpu.hard_sigmoid(codes, *places)
    equal(written.out(codes), dpu.product(codes, gate, places, written.position("y")))
    assert 0 <= sum(places) - written.position("y") <= 15


def test_parts_of_a_concat_have_one_position():
    text = "g (float[64, 4] x) => (float y) { d = Mul (x, c) y = Concat <axis = 1> (x, d) }"
    written = Written(text, {"c": np.float32([7])})
    codes, places = written.codes(), (written.position("x"), written.position("c"))
    other = dpu.product(codes, integers(written, "c"), places, written.position("d"))
    equal(written.out(codes), np.concatenate([codes, other], axis=1))


MOVED = {
    "Reshape (x, shape)": lambda codes: codes.reshape(8, 6, 8),
    "Squeeze (u, one)": lambda codes: codes,
    "Slice (x, starts, ends, axes)": lambda codes: codes[:, 1:3],
    "Pad (x, pads)": lambda codes: np.pad(codes, ((0, 0), (0, 0), (1, 1), (1, 1))),
    "DepthToSpace <blocksize = 2> (x)": lambda codes: (
        codes.reshape(8, 2, 2, 1, 4, 4).transpose(0, 3, 4, 1, 5, 2).reshape(8, 1, 8, 8)
    ),
    "SpaceToDepth <blocksize = 2> (x)": lambda codes: (
        codes.reshape(8, 4, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(8, 16, 2, 2)
    ),
    'Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , scales)': lambda codes: (
        codes.repeat(2, axis=2).repeat(2, axis=3)
    ),
    "MaxPool <kernel_shape = [3, 3], strides = [1, 1]> (x)": lambda codes: np.lib.stride_tricks.sliding_window_view(
        codes, (3, 3), axis=(2, 3)
    ).max(axis=(4, 5)),
}
SHAPES = {
    "shape": np.array([8, -1, 8]),
    "one": np.array([1]),
    "starts": np.array([1]),
    "ends": np.array([3]),
    "axes": np.array([1]),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "scales": np.float32([1, 1, 2, 2]),
}


@pytest.mark.parametrize("node", MOVED)
def test_what_moves_codes_changes_none(node):
    arrays = {name: array for name, array in SHAPES.items() if name in node}
    inner = "u = Unsqueeze (x, one) " if "Squeeze (u" in node else ""
    channels = 3 if "Reshape" in node else 4
    text = f"g (float[8, {channels}, 4, 4] x) => (float y) {{ {inner}y = {node} }}"
    written = Written(text, arrays, force_pass_through=True)
    codes = written.codes()
    equal(written.out(codes), MOVED[node](codes))


def test_resizing_by_two_between_pixels_is_a_sum_of_sixteenths():
    text = 'g (float[8, 4, 4, 4] x) => (float y) { y = Resize <mode = "linear"> (x, , scales) }'
    written = Written(text, {"scales": SHAPES["scales"]}, force_pass_through=True)
    codes = written.codes()
    padded = np.pad(codes, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    for axis in (2, 3):  # quarters: 1 of the neighbour before, 3 of the pixel, then 3 and 1 of the one behind
        size = padded.shape[axis] - 2
        before, here, behind = (padded.take(np.arange(size) + step, axis) for step in range(3))
        padded = np.stack([before + 3 * here, 3 * here + behind], axis + 1).reshape(
            *(2 * size if each == axis else length for each, length in enumerate(padded.shape))
        )
    equal(written.out(codes), dpu.shifted(padded, 4 + written.position("x") - written.position("y")))
