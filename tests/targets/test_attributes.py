"""Attributes of Conv that models for the NPU have written out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import tiny_model

NAMES = {"kernel_shape", "strides", "dilations", "group", "pads"}


def _model(attributes, size="9, 10"):
    text = f"g (float[1, 4, {size}] x) => (float[A, B, C, D] y) {{ y = Conv{attributes}(x, w) }}"
    groups = 2 if "group = 2" in attributes else 1
    weight = np.random.default_rng(3).normal(0, 0.2, (6, 4 // groups, 3, 2)).astype(np.float32)
    return tiny_model(text, {"w": weight})


def _quantized(proto, preset):
    x = np.random.default_rng(4).standard_normal((1, 4, 9, 10)).astype(np.float32)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[{"x": x}])
    onnx.checker.check_model(result.proto, full_check=True)
    (conv,) = (node for node in result.proto.graph.node if node.op_type == "Conv")
    found = {each.name: onnx.helper.get_attribute_value(each) for each in conv.attribute}
    return found, run_exact(result.model_bytes, {"x": x})[0]


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BF16"])
@pytest.mark.parametrize(
    ("left_out", "written"),
    [
        ("", "kernel_shape = [3, 2], strides = [1, 1], dilations = [1, 1], group = 1, pads = [0, 0, 0, 0]"),
        (
            '<auto_pad = "VALID", strides = [2, 1]>',
            "kernel_shape = [3, 2], strides = [2, 1], dilations = [1, 1], group = 1, pads = [0, 0, 0, 0]",
        ),
        (
            '<auto_pad = "SAME_UPPER", strides = [2, 2]>',
            "kernel_shape = [3, 2], strides = [2, 2], dilations = [1, 1], group = 1, pads = [1, 0, 1, 0]",
        ),
        (
            '<auto_pad = "SAME_LOWER", strides = [3, 1]>',
            "kernel_shape = [3, 2], strides = [3, 1], dilations = [1, 1], group = 1, pads = [0, 1, 0, 0]",
        ),
        (
            '<auto_pad = "SAME_LOWER", group = 2>',
            "kernel_shape = [3, 2], strides = [1, 1], dilations = [1, 1], group = 2, pads = [1, 1, 1, 0]",
        ),
    ],
)
def test_they_are_those_that_onnx_means(preset, left_out, written):
    found, got = _quantized(_model(left_out), preset)
    same, expected = _quantized(_model(f"<{written}>"), preset)
    assert set(found) == NAMES
    assert found == same
    assert np.array_equal(got, expected)


def test_padding_that_depends_on_an_open_size_stays():
    found, _ = _quantized(_model('<auto_pad = "SAME_UPPER">', "H, W"), "A8W8")
    assert set(found) == NAMES - {"pads"} | {"auto_pad"}


def test_models_for_other_targets_stay_as_they_were_written():
    assert _quantized(_model(""), "U8S8")[0] == {}
