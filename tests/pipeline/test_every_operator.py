"""Every operator that a placement table has a rule for, by itself, in every kind of preset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.targets import TARGETS
from support.operator_models import OPERATORS, operator_model
from support.processors import run_exact
from support.tiny_models import samples

PRESETS = ("A8W8", "U8S8", "XINT8", "A16W8", "DYNAMIC", "BF16", "BFP16", "MX9", "MXINT8")


def test_every_operator_of_the_standard_with_a_rule_is_here():
    standard = {name for target in TARGETS.values() for name in target.rules if "::" not in name}
    assert standard == set(OPERATORS)


# Left float on purpose: with 8 bits and in blocks a normalization, and by dynamic quantization a Gather of no constant.
FLOAT = {(preset, "LayerNormalization") for preset in ("A8W8", "XINT8", "BFP16")} | {
    (preset, "Gather") for preset in ("DYNAMIC", "MX9", "MXINT8")
}
FLOAT |= {("XINT8", "HardSigmoid")}  # of this slope, 0.2: the accelerator has 1/6
CASES = [
    (op_type, preset)
    for op_type in OPERATORS
    for preset in PRESETS
    if op_type in TARGETS[quarkfast.PRESETS[preset].target].rules and (preset, op_type) not in FLOAT
]


@pytest.mark.parametrize(("op_type", "preset"), CASES, ids=lambda each: each)
def test_an_operator_by_itself_is_quantized_and_stays_close(op_type, preset):
    proto = operator_model(op_type)
    (wanted,) = proto.graph.input
    shape = tuple(size.dim_value for size in wanted.type.tensor_type.shape.dim[1:])
    feed = {wanted.name: samples(16, shape)}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed], force_pass_through=True)
    onnx.checker.check_model(result.proto)
    expected, got = (run_exact(m, feed, ["y"])[0] for m in (proto, result.model_bytes))
    conversions = TARGETS[quarkfast.PRESETS[preset].target].conversions
    becomes = {each.op_type: each.becomes for each in conversions if op_type in ("ReduceMean", "Split")}
    assert set(result.summary.quantized) == {becomes.get(op_type, op_type)}
    noise = np.square(expected.astype(np.float64) - got).sum()
    sqnr = 10 * np.log10(np.square(expected, dtype=np.float64).sum() / noise) if noise else np.inf
    # 8 bits give 48 dB for a full-scale uniform signal; normal values use a third of the range (-10 dB), powers of two
    # up to half of that (-6 dB), both ends are rounded (-3 dB), a mean of 64 values is small beside them (-6 dB).
    assert sqnr > 22
