"""Coordinates that offsets and a grid make stay float, behind the last layers alone."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

SIDE, SIZE = 16, 32.0
GRID = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE))).reshape(1, 2, -1).astype(np.float32) + np.float32(0.5)
WEIGHTS = np.random.default_rng(3).normal(0, 0.3, (7, 3, 1, 1)).astype(np.float32)

# Distances to the sides of a box from the point of each cell (FCOS, YOLOv8), and scores of three classes.
DISTANCES = """g (float[N, 3, 16, 16] x) => (float[N, 7, 256] y) {
    c = Conv(x, w)
    flat = Reshape(c, cells)
    before = Slice(flat, zero, two, one)
    after = Slice(flat, two, four, one)
    logits = Slice(flat, four, seven, one)
    low = Sub(grid, before)
    high = Add(grid, after)
    corners = Concat<axis = 1>(low, high)
    boxes = Mul(corners, size)
    scores = Sigmoid(logits)
    y = Concat<axis = 1>(boxes, scores)
}"""
CONSTANTS = {
    "w": WEIGHTS, "cells": np.int64([0, 7, 256]), "grid": GRID, "size": np.float32(SIZE),
    **{name: np.int64([value]) for name, value in (("zero", 0), ("one", 1), ("two", 2), ("four", 4), ("seven", 7))},
}  # fmt: skip


def _model(text, **changed):
    arrays = CONSTANTS | changed
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text}, 17)


def _images(count):
    return samples(count * 16, (3, 4, 4)).reshape(count, 3, 16, 16)


def _left_float(proto, preset, **options):
    plan = quarkfast.plan(proto, preset=preset, **options)
    return {node.rsplit("_", 1)[0] for node in plan.left_float}


# A Sigmoid of everything, twice of which is added to the grid, or squared and multiplied by anchors (YOLOv5).
ANCHORS = """g (float[N, 3, 16, 16] x) => (float[N, 7, 256] y) {
    c = Conv(x, w)
    flat = Reshape(c, cells)
    likely = Sigmoid(flat)
    near = Slice(likely, zero, two, one)
    wide = Slice(likely, two, four, one)
    scores = Slice(likely, four, seven, one)
    twice = Mul(near, size)
    points = Add(twice, grid)
    centres = Mul(points, size)
    double = Mul(wide, size)
    squares = Pow(double, size)
    sizes = Mul(squares, anchors)
    y = Concat<axis = 1>(centres, sizes, scores)
}"""

# Offsets to the grid, and logarithms of sizes (YOLOX, SSD).
LOGARITHMS = """g (float[N, 3, 16, 16] x) => (float[N, 7, 256] y) {
    c = Conv(x, w)
    flat = Reshape(c, cells)
    near = Slice(flat, zero, two, one)
    wide = Slice(flat, two, four, one)
    logits = Slice(flat, four, seven, one)
    points = Add(near, grid)
    centres = Mul(points, size)
    factors = Exp(wide)
    sizes = Mul(factors, size)
    scores = Sigmoid(logits)
    y = Concat<axis = 1>(centres, sizes, scores)
}"""


@pytest.mark.parametrize("text", [ANCHORS, LOGARITHMS])
def test_centres_and_sizes_are_decoded_in_float(text):
    proto = _model(text, anchors=np.float32([[[30], [60]]]))
    left = {node.op_type for node in proto.graph.node if node.name in quarkfast.plan(proto, preset="A8W8").left_float}
    assert {"Add", "Mul", "Concat", "Slice"} <= left
    assert "Sigmoid" not in left


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "BFP16"])
def test_arithmetic_with_a_grid_is_float_and_scores_are_not(preset):
    assert {"sub", "add", "mul"} <= _left_float(_model(DISTANCES), preset)
    assert "sigmoid" not in _left_float(_model(DISTANCES), preset)


def test_coordinates_are_as_fine_as_the_codes_of_offsets():
    given = {
        "preset": "A8W8",
        "calibration_data": {"x": _images(8)},
        "method": "minmax",
    }  # nothing beyond the last code
    result = quarkfast.quantize(_model(DISTANCES), **given)
    feed = {"x": _images(4)}
    wanted, got = (
        run_exact(model, feed)[0][:, :4] for model in (_model(DISTANCES).SerializeToString(), result.model_bytes)
    )
    offsets = np.abs(wanted.reshape(-1, 2, 2, 256) / SIZE - GRID[:, None]).max()
    # Codes of the offsets, and those of the image and of the weights in front of them; one code of the coordinates
    # would be 16 * 32 / 127 = 4 pixels, and three of them are rounded so.
    assert np.abs(wanted - got).max() < 3 * SIZE * offsets / 127
    assert any("positions on a grid" in node.reason for node in result.summary.left_float)


def test_boxes_that_are_chosen_in_the_model_are_decoded_in_float():
    text = DISTANCES.replace("float[N, 7, 256] y", "float[N, 7, 9] y, float[N, 9] kinds").replace(
        "y = Concat<axis = 1>(boxes, scores)",
        """all = Concat<axis = 1>(boxes, scores)
    best = ReduceMax<axes = [1], keepdims = 0>(scores)
    top, places = TopK(best, nine)
    cells_of = Mod(places, period)
    kinds = Cast<to = 1>(cells_of)
    rows = Unsqueeze(places, one)
    tiled = Tile(rows, repeats)
    y = GatherElements<axis = 2>(all, tiled)""",
    )
    arrays = {"nine": np.int64([9]), "period": np.int64(16), "repeats": np.int64([1, 7, 1])}
    assert {"sub", "add", "mul"} <= _left_float(_model(text, **arrays), "A8W8")


def test_more_than_eight_bits_carry_coordinates():
    assert not {"sub", "add", "mul"} & _left_float(_model(DISTANCES), "A16W8")


def test_who_asks_for_it_has_it_quantized():
    asked = {"extra_op_types": ["Add", "Sub", "Mul", "Concat", "Slice", "Reshape"]}
    assert not {"sub", "add", "mul"} & _left_float(_model(DISTANCES), "A8W8", **asked)


def test_a_grid_that_follows_from_the_shape_is_one_too():
    text = """g (float[N, 3, H, W] x) => (float[N, 1, H, W] y) {
        c = Conv(x, w1)
        s = Shape(c)
        ones = ConstantOfShape<value = float[1] {1}>(s)
        points = CumSum(ones, axis)
        a = Add(c, points)
        y = Mul(a, size)
    }"""
    assert {"add", "mul"} <= _left_float(_model(text, w1=WEIGHTS[:1], axis=np.int64(3)), "A8W8")


BIASED = """g (float[N, 3, 16, 16] x) => (float[N, 7, 16, 16] y) {
    c = Conv(x, w)
    r = Sigmoid(c)
    a = Add(r, shift)
    y = Mul(a, size)
}"""


def test_a_shift_of_channels_is_no_grid():
    shift = np.arange(7, dtype=np.float32).reshape(1, 7, 1, 1)
    assert "add" not in _left_float(_model(BIASED, shift=shift), "A8W8")


def test_positions_in_front_of_a_layer_are_no_coordinates():
    text = BIASED.replace("y = Mul(a, size)", "y = Conv(a, v)")
    positions = np.arange(7 * 256, dtype=np.float32).reshape(1, 7, 16, 16)
    arrays = {"shift": positions, "v": np.ones((7, 7, 1, 1), np.float32)}
    assert "add" not in _left_float(_model(text, **arrays), "A8W8")


def test_a_mask_in_front_of_a_softmax_is_no_grid():
    text = BIASED.replace("y = Mul(a, size)", "y = Softmax(a)")
    mask = np.where(np.tri(16, dtype=bool), 0, -1e4).astype(np.float32).reshape(1, 1, 16, 16)
    assert "add" not in _left_float(_model(text, shift=mask), "A8W8")
