"""Rules that move scales, over random models: floats stay the same bits, biases are half a step off."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast import tools
from support.tiny_models import conv_relu_model, run_exactly, samples, tiny_model

# Lines over [N, 4, 8, 8] that may follow each other in any order; {0} is what is read, {1} what is written.
LINES = (
    "{1} = Relu ({0})",
    "{1}p = Pad ({0}, pads) {1} = Slice ({1}p, starts, ends)",
    "{1}c = Concat <axis = 1> ({0}, x) {1} = Slice ({1}c, first, fourth, channels)",
    "{1} = Transpose <perm = [0, 1, 3, 2]> ({0})",
    "{1}r = Reshape ({0}, flat) {1} = Reshape ({1}r, whole)",
    "{1} = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({0})",
    "{1} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({0})",
    "{1}h = HardSigmoid <alpha = 0.16666667> ({0}) {1} = Mul ({0}, {1}h)",
    "{1} = Add ({0}, x)",
)
CONSTANTS = {
    "pads": [0, 0, 1, 1, 0, 0, 1, 1],
    "starts": [0, 0, 1, 1],
    "ends": [99, 99, 9, 9],
    "first": [0],
    "fourth": [4],
    "channels": [1],
    "flat": [0, 4, 16, 4],
    "whole": [0, 4, 8, 8],
}
# What aligns scales, and nothing that the accelerator computes otherwise than ONNX.
RULES = {
    "A8W8": {"concat": True, "pool": True},
    "A16W8": {"concat": True, "pool": True},
    "XINT8": {"dpu_average_pool": False, "dpu_hard_sigmoid": False},
}


@pytest.mark.parametrize("preset", RULES)
@settings(max_examples=15, deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=6))
def test_what_is_aligned_computes_the_same_on_floats(preset, lines, tmp_path_factory):
    names = ["x", *(f"t{place}" for place in range(len(lines) - 1)), "y"]
    body = " ".join(line.format(*pair) for line, pair in zip(lines, itertools.pairwise(names), strict=True))
    arrays = {name: np.array(value) for name, value in CONSTANTS.items() if f" {name}" in body}
    proto = tiny_model(f"g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {{ {body} }}", arrays, opset=17)
    x = samples(3, (4, 8, 8))
    # The operator set stays: onnxruntime 1.32 sums the pools of operator set 19 in another order.
    contrib = {"contrib_pairs": True} if preset == "A16W8" else {}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=x, constraints=RULES[preset], **contrib)
    assert not quarkfast.check_model(result.proto, quarkfast.PRESETS[preset].target).errors
    bare = tmp_path_factory.mktemp("bare") / "bare.onnx"
    tools.remove_qdq(result.proto, bare)
    found = onnx.load(bare)
    assert not [node for node in found.graph.node if node.op_type.endswith("QuantizeLinear")]
    np.testing.assert_array_equal(run_exactly(found, {"x": x})[0], run_exactly(proto, {"x": x})[0])


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-4, 1e3), st.integers(0, 2**31))
def test_a_bias_of_16_bits_is_half_a_step_off(size, seed):
    bias = (np.random.default_rng(seed).normal(size=3) * size).astype(np.float32)
    proto = quarkfast.quantize(
        conv_relu_model(b1=bias), preset="A8W8", calibration_data=samples(), bias="int16", bias_correction=False,
        equalize=False,
    ).proto  # fmt: skip
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    codes, scale = stored["b1_quantized"].astype(np.float64), stored["b1_quantized_scale"].astype(np.float64)
    # A step of float32 beside half a step of codes.
    assert (np.abs(codes * scale - bias) <= scale / 2 * (1 + 2.0**-20)).all()
