"""Layers in bodies of If, Loop and Scan: every preset, lever and verb takes their constants wherever they lie."""

from __future__ import annotations

import copy

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.evaluate.metrics import sqnr
from quarkfast.graph.fingerprint import fingerprint
from quarkfast.graph.load import load_model
from support.body_models import BODIES, body_model, body_samples
from support.every_verb import run_every_verb, run_everywhere

# What changes weights, scales, codes or types beyond a preset, each with presets that take it.
_LEVERS = {
    "descent": (("INT8_WO", "A8W8", "DYNAMIC"), {"rounding": "descent"}),
    "gptq": (("INT4_WO", "XINT8"), {"rounding": "gptq"}),
    "adaround": (("A8W8", "U8S8"), {"rounding": "adaround"}),
    "a goal": (("INT8_WO", "INT4_WO", "A8W8", "DYNAMIC", "BF16", "BFP16"), {"min_sqnr": 60.0}),
    "mixed precision": (("A8W8", "XINT8"), {"mixed_precision": {"weight": {"dtype": "int16"}, "share": 0.5}}),
    "equalization": (("A8W8", "XINT8"), {"equalize": True}),
    "smoothing": (("A8W8", "U8S8"), {"smooth_alpha": 0.5}),
    "bias correction": (("A8W8", "INT8_WO"), {"bias_correction": True}),
    "output bias correction": (("XINT8", "U8S8"), {"output_bias_correction": True}),
    "shifting": (("A8W8",), {"shift_activations": True}),
    "alignment": (("XINT8",), {"align_scales": True}),
    "range search": (("A8W8", "XINT8"), {"search_ranges": True}),
    "every operator": (("A8W8", "BFP16"), {"extra_op_types": ["*"]}),
    "rules of layers": (("INT8_WO", "INT4_WO"), {"layers": [{"op_types": ["MatMul"], "weight": {"dtype": "float16"}}]}),
    "fixed shapes": (("A8W8", "XINT8"), {"shapes": {"x0": [1, 16]}}),
    "another operator set": (("A8W8", "INT8_WO"), {"opset": 21}),
    "float weights with pairs": (("A8W8",), {"keep_float_weights": True}),
    "copies of shared constants": (("A8W8",), {"unshare_constants": ["*"]}),
}


@pytest.mark.parametrize(
    ("preset", "kind", "constant_nodes"),
    [(preset, [*BODIES][index % len(BODIES)], index % 2 == 1) for index, preset in enumerate(PRESETS)],
)
def test_every_verb_takes_bodies(preset, kind, constant_nodes, tmp_path):
    run_every_verb(body_model(kind, constant_nodes=constant_nodes), preset, {"x0": body_samples()}, tmp_path)


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("preset", ["INT8_WO", "INT4_WO", "MATMUL_NBITS"])
def test_weights_of_bodies_are_judged_by_samples(preset, kind):
    proto, x = body_model(kind), {"x0": body_samples()}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=x)
    run_everywhere(result.model_bytes, x)
    assert not any("not run" in note or "left out" in note for note in result.summary.notes)


@pytest.mark.parametrize(
    ("lever", "preset", "kind"),
    [
        (lever, preset, [*BODIES][index % len(BODIES)])
        for index, (lever, preset) in enumerate((lever, preset) for lever in _LEVERS for preset in _LEVERS[lever][0])
    ],
)
def test_every_lever_takes_bodies(lever, preset, kind):
    x = {"x0": body_samples()}
    result = quarkfast.quantize(body_model(kind), preset=preset, calibration_data=x, **_LEVERS[lever][1])
    run_everywhere(result.model_bytes, x)


def test_constants_and_nodes_that_two_bodies_call_the_same_are_told_apart():
    """Names of one branch may stand in the other: each constant keeps its own numbers, each layer is counted."""
    proto, x = body_model("if"), body_samples()
    for body in (attribute.g for node in proto.graph.node for attribute in node.attribute if attribute.HasField("g")):
        body.node[0].name = "product"
    for preset in ("INT8_WO", "INT4_WO", "BF16_WO"):
        result = quarkfast.quantize(proto, preset=preset, calibration_data=None if preset == "BF16_WO" else {"x0": x})
        assert result.summary.quantized["MatMul"] == result.summary.weights == 4
        for rows in (x[:1], -x[:1]):  # one for each branch
            wanted, got = (
                run_everywhere(each, {"x0": rows})[0] for each in (proto.SerializeToString(), result.model_bytes)
            )
            assert sqnr(wanted, got) > 15


@pytest.mark.parametrize("constant_nodes", [False, True])
def test_a_calibration_knows_a_model_by_the_constants_of_bodies_wherever_they_are_stored(constant_nodes, tmp_path):
    proto, names = body_model("nested", constant_nodes=constant_nodes), []
    for name, location in (("one.onnx", "weights"), ("another.onnx", "others")):
        files = {"save_as_external_data": True, "location": location, "size_threshold": 0, "convert_attribute": True}
        onnx.save(copy.deepcopy(proto), tmp_path / name, **files)
        names.append(fingerprint(load_model(tmp_path / name)))
    assert names[0] == names[1]
    weights = np.fromfile(tmp_path / "weights", np.float32)
    (-weights).tofile(tmp_path / "weights")
    assert fingerprint(load_model(tmp_path / "one.onnx")) != names[0]
