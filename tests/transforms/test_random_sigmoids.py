"""Sigmoid as HardSigmoid over random models: off by no more than the formula is, whatever stands around it."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from quarkfast.graph.load import load_model
from quarkfast.targets.conversions import SIMULATIONS, simulate
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.simulate_dpu import SIGMOID_ERROR
from support.tiny_models import run_exactly, tiny_model

# A line of a random model: {0} is what is read, {1} what is written, x the input, m and s constants.
SIGMOID = "{1} = Sigmoid ({0})"
LINES = (
    SIGMOID,
    "{1} = Mul ({0}, x)",
    "{1} = Add ({0}, x)",
    "{1} = Mul ({0}, m)",
    "{1} = Neg ({0})",
    "{1} = Relu ({0})",
    "{1} = MatMul ({0}, s)",
)
CHAINS = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).filter(lambda lines: SIGMOID in lines)
NUMBERS = arrays(np.float32, array_shapes(min_dims=1, max_dims=5, max_side=5), elements=st.floats(-30, 30, width=32))
SLOPE = 1 / 6
# Each operator rounds to a half of 2^-23 of the magnitudes that it adds up, of which there are 5 at most; a Sigmoid is
# computed to a few of these.
EPSILON = 16 * 2.0**-23


class Followed(NamedTuple):
    """What is known of a tensor: how large its numbers are and how far both models' are apart."""

    magnitude: np.ndarray
    error: np.ndarray


def follow(line: str, now: Followed, x: np.ndarray, m: np.ndarray, s: np.ndarray) -> Followed:
    """Returns what a line makes of a tensor: HardSigmoid enlarges no error by more than its slope."""
    size = np.abs(x).astype(np.float64)
    magnitude, error = {
        LINES[0]: lambda: (np.ones_like(size), SIGMOID_ERROR + SLOPE * now.error),
        LINES[1]: lambda: (now.magnitude * size, now.error * size),
        LINES[2]: lambda: (now.magnitude + size, now.error),
        LINES[3]: lambda: (now.magnitude * abs(m), now.error * abs(m)),
        LINES[4]: lambda: now,
        LINES[5]: lambda: now,
        LINES[6]: lambda: (now.magnitude @ np.abs(s), now.error @ np.abs(s)),
    }[line]()
    return Followed(magnitude, error + EPSILON * magnitude)


def chain(lines: list[str], shape: tuple[int, ...], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    names = ["x", *(f"t{index}" for index in range(1, len(lines))), "y"]
    body = " ".join(line.format(*pair) for line, pair in zip(lines, itertools.pairwise(names), strict=True))
    used = {name: array for name, array in constants.items() if f", {name})" in body}
    sizes = ", ".join(map(str, shape))
    return tiny_model(f"g (float[{sizes}] x) => (float[{sizes}] y) {{ {body} }}", used)


def converted(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with each Sigmoid as the accelerator has it, and nothing else changed."""
    model = load_model(proto)
    infer_types(model)
    names = [node.name for node in proto.graph.node]
    assert simulate(model, names, [SIMULATIONS["dpu_sigmoid"]])
    result = ir.serde.serialize_model(model)
    onnx.checker.check_model(result)
    for before, after in zip(proto.graph.node, result.graph.node, strict=True):
        same = ("Sigmoid", "HardSigmoid") if before.op_type == "Sigmoid" else (before.op_type, before.op_type)
        assert (before.op_type, after.op_type) == same
        assert (before.name, before.input, before.output) == (after.name, after.input, after.output)
    assert [each.name for each in result.graph.initializer] == [each.name for each in proto.graph.initializer]
    return result


@settings(max_examples=100, deadline=None)
@given(CHAINS, NUMBERS, st.integers(0, 99))
def test_a_model_is_off_by_what_each_sigmoid_is(lines, x, seed):
    rng, width = np.random.default_rng(seed), x.shape[-1]
    constants = {
        "m": rng.normal(0, 2, x.shape).astype(np.float32),
        "s": rng.normal(0, 1, (width, width)).astype(np.float32),
    }
    proto = chain(lines, x.shape, constants)
    known = Followed(np.abs(x).astype(np.float64), np.zeros(x.shape))
    for line in lines:
        known = follow(line, known, x, constants["m"], constants["s"])
    (before,), (after,) = (run_exactly(each, {"x": x}) for each in (proto, converted(proto)))
    assert before.shape == after.shape == x.shape
    assert (np.abs(before.astype(np.float64) - after) <= known.error).all()


def test_the_bound_is_reached_where_both_have_one_slope():
    """The sigmoid's derivative s (1 - s) is 1/6 at s = (1 + 1 / sqrt(3)) / 2, which is at ln(2 + sqrt(3))."""
    farthest = math.log(2 + math.sqrt(3))
    x = np.array([farthest, -farthest, 0, 3, -3, 100, -100], np.float32)
    proto = chain([SIGMOID], x.shape, {})
    (before,), (after,) = (run_exactly(each, {"x": x})[0:1] for each in (proto, converted(proto)))
    difference = np.abs(before.astype(np.float64) - after)
    assert difference[:2] == pytest.approx(1 / (2 * math.sqrt(3)) - farthest / 6, abs=EPSILON)
    assert difference[:2] == pytest.approx(SIGMOID_ERROR, abs=EPSILON)
    assert (difference[2:] < 0.05).all()


def test_every_sigmoid_of_the_detector_is_a_hard_one(shared):
    """Each of the 80, on what it reads for a scene of noise: the least of the bounds that a model can have."""
    model = load_model(shared / "models" / "text_yolox.onnx")
    infer_types(model)
    names = [node.name for node in model.graph if node.op_type == "Sigmoid"]
    assert len(names) == 80
    read = {node.name: node.inputs[0].name for node in model.graph if node.op_type == "Sigmoid"}
    proto = ir.serde.serialize_model(model)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in read.values())
    x = np.random.default_rng(3).uniform(0, 255, (1, 3, 416, 416)).astype(np.float32)
    values = run_exactly(proto, {"images": x})[-len(names) :]
    small = chain([SIGMOID], ("N",), {})
    hard = converted(small)
    for value in values:
        (before,), (after,) = (run_exactly(each, {"x": value.reshape(-1)})[0:1] for each in (small, hard))
        assert np.abs(before.astype(np.float64) - after).max() <= SIGMOID_ERROR + EPSILON
    assert simulate(model, names, [SIMULATIONS["dpu_sigmoid"]]) == ("computed as the accelerator does: 80 Sigmoid",)
