"""Codes that an algorithm chooses are those of the written model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from quarkfast.config import PRESETS, Scheme
from quarkfast.graph.chunked_io import Stream
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare, prepare_for_weights
from quarkfast.quantization import Plan, compute_qparams, make_plan, place
from quarkfast.quantization.weight_only import plan_weights
from quarkfast.targets import TARGETS
from quarkfast.writers import insert
from quarkfast.writers.weight_only import rewrite
from support.tiny_models import conv_relu_model, tiny_model


def _planned(scheme: Scheme) -> tuple[object, Plan]:
    model = prepare(load_model(conv_relu_model()), 21)
    target = TARGETS[scheme.target]
    placement = place(model, scheme, target)
    ranges = {name: Range(-1, 1, 1, 0, 0, 0) for name in placement.observed}
    return model, make_plan(model, placement, compute_qparams(model, placement, scheme, target, ranges), scheme)


def _constants(model: object) -> dict[str, np.ndarray]:
    return {each.name: onnx.numpy_helper.to_array(each) for each in to_proto(model).graph.initializer}


@pytest.mark.parametrize(("preset", "kept_float"), [("A8W8", False), ("A8W8", True), ("DYNAMIC", False)])
def test_changed_codes_appear_in_the_written_model(preset, kept_float):
    scheme = replace(PRESETS[preset], keep_float_weights=kept_float)
    model, plan = _planned(scheme)
    slot, weight = next((slot, each) for slot, each in plan.constants if slot.role == "weight")
    codes = weight.encoded().copy()
    codes.flat[0] += 1
    scale = np.float32(weight.quantizer.scale)
    insert(model, plan.with_constant(slot, replace(weight, codes=codes)), scheme, TARGETS[scheme.target])
    stored = _constants(model)[f"{slot.tensor}_quantized"]
    if kept_float:
        assert np.array_equal(np.rint(stored / scale), codes)
    else:
        shift = 128 if stored.dtype == np.uint8 else 0  # ConvInteger's codes are stored 128 higher
        assert np.array_equal(stored.astype(int) - shift, codes)


def test_changed_blocks_appear_in_the_written_model():
    scheme = PRESETS["MX6"]
    model, plan = _planned(scheme)
    slot, weight = plan.constants[0]
    floats = np.full(weight.values.shape.numpy(), 0.5, np.float32)
    insert(model, plan.with_constant(slot, replace(weight, codes=floats)), scheme, TARGETS[scheme.target])
    assert np.array_equal(_constants(model)[f"{slot.tensor}_quantized"], floats)


def test_a_changed_stream_appears_in_the_written_model():
    weight = np.ones((4, 64), np.float32)
    text = "g (float[N, 4] x) => (float[N, 64] y) { y = MatMul(x, w) }"
    scheme = PRESETS["INT8_WO"]
    model = prepare_for_weights(load_model(tiny_model(text, {"w": weight})), 13)
    plan = plan_weights(model, scheme)
    (stored,) = plan.weights
    outputs = stored.codes.outputs

    def run(append):
        for index, output in enumerate(outputs):
            append(index, np.full(output.nbytes, 7, np.uint8) if index == 0 else np.ones(output.shape, np.float32))

    changed = replace(plan, weights=(replace(stored, codes=Stream(outputs, run)),))
    rewrite(model, changed, scheme)
    assert (_constants(model)[outputs[0].name] == 7).all()
