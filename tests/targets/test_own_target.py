"""A target of one's own: the example of docs/extending.md, which needs no file of the package but the public names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array

import quarkfast

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
EXAMPLE = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def example():
    names = {"__name__": "__docs__"}
    exec(compile(EXAMPLE[1], str(PAGE), "exec"), names)
    return names


@pytest.fixture(scope="module")
def proto(example):
    return example["result"].proto


def test_the_example_is_short_and_needs_public_names_alone():
    assert len(EXAMPLE[1].splitlines()) < 60
    assert set(re.findall(r"^(?:from|import) (\S+)", EXAMPLE[1], re.MULTILINE)) == {"numpy", "onnx", "quarkfast"}


def test_the_result_is_a_valid_model_near_the_float_one(example, proto):
    onnx.checker.check_model(proto, full_check=True)
    assert dict(example["result"].summary.outputs)["y"] > 30


def test_every_scale_is_a_power_of_two_and_weights_have_one_for_each_channel(proto):
    scales = {each.name: to_array(each) for each in proto.graph.initializer if each.name.endswith("_scale")}
    assert all((np.frexp(scale)[0] == 0.5).all() for scale in scales.values())
    sizes = {name: scale.size for name, scale in scales.items()}
    assert sizes == {"w_scale": 4, "b_quantized_scale": 4, "v_scale": 10, "x_scale": 1, "r_scale": 1, "g_scale": 1}


def test_the_softmax_reads_and_writes_floats(example, proto):
    (softmax,) = (node for node in proto.graph.node if node.op_type == "Softmax")
    writers = {name: node.op_type for node in proto.graph.node for name in node.output}
    assert writers[softmax.input[0]] == "DequantizeLinear"
    assert softmax.output[0] == "y"
    assert example["result"].summary.preflight == (
        f"Softmax {softmax.name!r} runs on the host; put it at the end of the model",
    )


def test_no_registry_changes(example):
    model, target = example["model"], example["accelerator"]
    assert target.name not in quarkfast.TARGETS
    scheme = quarkfast.Scheme.from_dict(quarkfast.plan(model, "XINT8", target=target).scheme.to_dict())
    with pytest.raises(quarkfast.ConfigError, match=r"target: expected one of ryzenai-a8w8, .*, got 'shift-acc"):
        quarkfast.plan(model, scheme)
    assert quarkfast.plan(model, scheme, target=target).scheme == scheme


def test_a_calibration_sees_what_the_target_quantizes(example):
    options = {"preset": "XINT8", "target": example["accelerator"]}
    calibration = quarkfast.calibrate(example["model"], example["samples"], **options)
    assert set(calibration.tensors) == {"x", "r", "g"}
    quantized = quarkfast.quantize(example["model"], calibration=calibration, per_channel=True, **options)
    assert quantized.model_bytes == example["result"].model_bytes
