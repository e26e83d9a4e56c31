"""Conversions over random models: the same bits, or another number by no more than is said of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.load import load_model
from quarkfast.graph.opset import convert_opset_exactly
from quarkfast.transforms.constants import unshare_constants
from quarkfast.transforms.fix_shapes import fix_shapes
from quarkfast.transforms.half_precision import widen_half
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.simulate_dpu import (
    average_factor,
    clip_to_relu,
    round_clip_bounds,
    round_leaky_slope,
    scale_average_pool,
    scale_hard_sigmoid,
    scale_reduce_mean,
)
from support.tiny_models import operators_of, run_exactly, tiny_model

# Lines of a model of [N, 3, 6, 6] that may follow each other in any order; {0} is what is read, {1} what is written.
LINES = (
    "{1} = Conv <pads = [1, 1, 1, 1]> ({0}, w, b)",
    "{1} = Conv ({0}, v, b)",
    "{1} = Relu ({0})",
    "{1} = LeakyRelu <alpha = 0.2> ({0})",
    "{1} = Mul ({0}, m)",
    "{1} = Add ({0}, x)",
    "{1} = Clip ({0}, low, high)",
    "{1} = HardSigmoid <alpha = 0.16666667> ({0})",
    "{1} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({0})",
    "{1} = BatchNormalization ({0}, g, b, u, g)",
    "{1} = Softmax <axis = 1> ({0})",
    "{1} = Transpose <perm = [0, 1, 3, 2]> ({0})",
)
CHAINS = st.lists(st.sampled_from(LINES), min_size=1, max_size=7)
# Constants and results in float16 are off by half of 2^-10; a line enlarges what its input is off by no more than the
# sum of a Conv's 27 weights does, 27 * 0.3 * sqrt(2 / pi) on average.
HALF, GROWTH = 2.0**-11, 8
EVERY = settings(max_examples=30, deadline=None)


def chain(lines: list[str], opset: int = 17, dtype: type = np.float32) -> onnx.ModelProto:
    """Returns a model of lines one behind the other, whose weights several may share."""
    rng = np.random.default_rng(3)
    arrays = {
        "w": rng.normal(0, 0.3, (3, 3, 3, 3)),
        "v": rng.normal(0, 0.5, (3, 3, 1, 1)),
        "b": rng.normal(0, 0.3, 3),
        "g": rng.uniform(0.5, 2, 3),
        "u": rng.normal(0, 0.3, 3),
        "m": rng.normal(0, 1, (3, 1, 1)),
        "low": np.array(-0.5),
        "high": np.array(1.5),
    }
    names = ["x", *(f"t{index}" for index in range(1, len(lines))), "y"]
    body = " ".join(line.format(*pair) for line, pair in zip(lines, itertools.pairwise(names), strict=True))
    used = {name: array.astype(dtype) for name, array in arrays.items() if f"{name})" in body or f"{name}," in body}
    kind = "float" if dtype is np.float32 else "float16"
    return tiny_model(f"g ({kind}[N, 3, 6, 6] x) => ({kind}[N, 3, 6, 6] y) {{ {body} }}", used, opset)


def images(dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(2, 3, 6, 6)).astype(dtype)


def same_bits(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    onnx.checker.check_model(after)
    first, second = (run_exactly(each, {"x": images()})[0] for each in (before, after))
    assert first.tobytes() == second.tobytes()


@EVERY
@given(CHAINS, st.sampled_from([["*"], ["Conv"], ["Conv", "BatchNormalization"]]))
def test_copies_of_constants_are_read_once(lines, types):
    proto = chain(lines)
    model = load_model(proto)
    changed = unshare_constants(model, types)
    result = ir.serde.serialize_model(model)
    same_bits(proto, result)
    large = {each.name for each in result.graph.initializer if math.prod(each.dims) > 1}
    layers = [
        {each for each in node.input if each in large} for node in result.graph.node if {node.op_type, "*"} & {*types}
    ]
    assert all(not first & second for index, first in enumerate(layers) for second in layers[:index])
    assert changed == (len(result.graph.initializer) > len(proto.graph.initializer))


@EVERY
@given(CHAINS, st.sampled_from([13, 15, 18, 20, 21]), st.sampled_from([14, 17, 19, 21]))
def test_another_operator_set_computes_the_same(lines, before, after):
    proto = chain(lines, before)
    if after >= before:  # onnx has no way back for some
        model = convert_opset_exactly(load_model(proto), after)
        same_bits(proto, ir.serde.serialize_model(model))
        assert model.opset_imports[""] == after


@EVERY
@given(CHAINS)
def test_fixed_shapes_compute_the_same(lines):
    proto = chain(lines)
    model = load_model(proto)
    assert fix_shapes(model, {"x": [2, 3, 6, 6]})
    result = ir.serde.serialize_model(model)
    same_bits(proto, result)
    assert [each.dim_value for each in result.graph.output[0].type.tensor_type.shape.dim] == [2, 3, 6, 6]


@EVERY
@given(CHAINS)
def test_a_half_precision_model_computes_the_same_in_float32(lines):
    narrow = chain(lines, dtype=np.float16)
    model = load_model(narrow)
    infer_types(model)
    widen_half(model)
    expected = run_exactly(chain(lines), {"x": images(np.float16).astype(np.float32)})[0]
    found = run_exactly(ir.serde.serialize_model(model), {"x": images(np.float16)})[0].astype(np.float64)
    assert np.abs(found - expected).max() <= HALF * GROWTH ** len(lines) * max(1.0, np.abs(expected).max())


@EVERY
@given(CHAINS)
def test_pairs_of_either_domain_give_the_same_bits(lines):
    results = [
        quarkfast.quantize(chain(lines), preset="A16W8", calibration_data=images(), contrib_pairs=contrib).proto
        for contrib in (False, True)
    ]
    assert {each.version for proto in results for each in proto.opset_import if each.domain == ""} == {17, 21}
    first, second = (run_exactly(each, {"x": images()})[0] for each in results)
    assert first.tobytes() == second.tobytes()


# What the accelerator computes otherwise, and by how much.


def changed_by(transform, proto: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what a model computes before and after its last node is rewritten."""
    model = load_model(proto)
    infer_types(model)
    transform(GraphBuilder(model), list(model.graph)[-1])
    feed = {"x": x}
    first, second = (run_exactly(each, feed)[0] for each in (proto, ir.serde.serialize_model(model)))
    return first.astype(np.float64), second.astype(np.float64)


NUMBERS = np.linspace(-20, 20, 4001, dtype=np.float32)
EPSILON = 2.0**-22


@EVERY
@given(st.floats(-2, 2, width=32))
def test_a_slope_is_off_by_half_a_256th(slope):
    proto = tiny_model(f"g (float[N] x) => (float[N] y) {{ y = LeakyRelu <alpha = {slope:.9f}> (x) }}")
    before, after = changed_by(round_leaky_slope, proto, NUMBERS)
    assert (np.abs(before - after) <= (1 / 512 + EPSILON) * np.abs(np.minimum(NUMBERS, 0))).all()


def test_a_hard_sigmoid_is_as_much_larger_as_its_slope_in_14_bits():
    proto = tiny_model("g (float[N] x) => (float[N] y) { y = HardSigmoid <alpha = 0.16666667> (x) }")
    before, after = changed_by(scale_hard_sigmoid, proto, NUMBERS)
    assert (np.abs(after - before * (2731 / 16384 * 6)) <= EPSILON).all()


@EVERY
@given(st.floats(0, 100, width=32), st.floats(-200, 200, width=32), st.floats(-200, 200, width=32))
def test_bounds_of_a_clip_are_whole_numbers_and_a_relu_has_none(high, low, other):
    text = "g (float[N] x) => (float[N] y) { y = Clip (x, low, high) }"
    proto = tiny_model(text, {"low": np.float32(0), "high": np.float32(high)})
    before, after = changed_by(clip_to_relu, proto, NUMBERS)
    np.testing.assert_array_equal(np.minimum(after, high), before)
    low, other = sorted((low, other))
    proto = tiny_model(text, {"low": np.float32(low), "high": np.float32(other)})
    _, after = changed_by(round_clip_bounds, proto, NUMBERS)
    ends = [min(max(round(bound), -128), 127) for bound in (low, other)]
    np.testing.assert_array_equal(after, np.minimum(np.maximum(NUMBERS, ends[0]), ends[1]))


@pytest.mark.parametrize("side", [*range(1, 65), 100, 200, 255, 300])
def test_an_average_is_off_by_a_40th_at_most(side):
    assert abs(average_factor(side * side, side) - 1) <= 1 / 40


@EVERY
@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_an_average_is_a_multiple_of_what_onnx_computes(height, width, pool):
    x = np.random.default_rng(5).normal(size=(1, 2, height, width)).astype(np.float32)
    node = "GlobalAveragePool (x)" if pool else "ReduceMean <axes = [2, 3]> (x)"
    proto = tiny_model(f"g (float[1, 2, {height}, {width}] x) => (float y) {{ y = {node} }}")
    before, after = changed_by(scale_average_pool if pool else scale_reduce_mean, proto, x)
    square = average_factor(height * width, height) if height == width else 1.0
    factor = square if pool else average_factor(height * width)
    assert (np.abs(after - before * factor) <= EPSILON * np.abs(before) + 1e-30).all()


def test_every_line_is_tried():
    assert {line.split("= ")[1].split()[0] for line in LINES} <= set(operators_of(load_model(chain(list(LINES)))))
