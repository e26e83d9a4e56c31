"""The standard's test models, each operator in every preset: nothing fails but in a sentence or is silently wrong."""

from __future__ import annotations

import re

import onnx
import pytest

import quarkfast
from support.standard_models import has_type, operators_of, presets_of, quantize_all, standard_cases

# Why a model may be refused.
REFUSED = (
    r"model: expected operators of the ONNX standard, got an import of '.*' alone",
    r"model: expected opset 9 or newer for Scan, got 8, whose Scan has a batch; export it anew",
    r"model: expected operators of opset 27 or older, got \w+ '.*' of opset 28, which onnx cannot convert; .*",
    r"calibration data: sample 1: input '.*': expected at least one value, got shape \[.*\]",
)

# Less is poor, in dB: a quarter of the amplitude of the outputs is noise.
POOR = 12

# What is poor nevertheless: preset and name, and why.
KNOWN = {
    "MX4|MXFP4E2M1": (".*", "formats of 4 bits keep little more than the sign"),
    ".*": ("test_attention_.*_expanded", "masks in front of a Softmax that is written out"),
    "A8W8|U8S8|XINT8|FP16|BF16|BFP16": ("test_softmax_large_number", "differences of 1 between values of 10000"),
    "MX6|MXFP8E4M3|MXFP6E2M3": ("test_matmul_1d_3d", "two sums of four terms that cancel"),
}

# Share of the models that onnxruntime has to run in float, so that a test that runs none fails: 1.32 runs 84 % of those
# of onnx 1.23, the others being of types and operators that it lacks.
MOST = 0.6


@pytest.fixture(scope="module")
def cases():
    return standard_cases()


@pytest.fixture(scope="module")
def results(cases):
    return quantize_all(cases)


def _lacking():
    """Returns the presets whose results need a type that the installed onnxruntime does not have."""
    return set() if has_type(onnx.TensorProto.INT4) else {"INT4_WO"}


def _listed(results, kind):
    found = [result for result in results if result.kind == kind]
    return [f"{result.names[0]} in {result.preset}: {result.text}" for result in found]


def test_what_onnxruntime_does_not_run_in_float_is_counted_by_name(cases, results, record_property):
    left = [result for result in results if not result.preset]
    record_property("models", sum(len(case.names) for case in cases))
    record_property("not run in float", {name: result.text for result in left for name in result.names})
    assert all(result.text for result in left)
    assert len(left) < (1 - MOST) * len(cases)
    ran = {result.names for result in results if result.preset}
    assert {case.names for case in cases} == ran | {result.names for result in left}


def test_every_operator_meets_every_preset(cases):
    """And every model five of them at least: integers, floats and blocks, and weights alone as codes and as floats."""
    met, presets = {}, presets_of(cases)
    for case, few in zip(cases, presets, strict=True):
        met.setdefault(operators_of(case), set()).update(few)
    assert {operators: few for operators, few in met.items() if few != set(quarkfast.PRESETS)} == {}
    assert min(map(len, presets)) >= 5


def test_every_preset_is_here(results):
    assert {result.preset for result in results if result.preset} == set(quarkfast.PRESETS)
    close = {result.preset for result in results if result.kind == "close"}
    assert close == set(quarkfast.PRESETS) - _lacking()


def test_nothing_raises_but_a_sentence(results):
    assert _listed(results, "exception") == []


def test_what_is_refused_is_refused_for_a_known_reason(results):
    unknown = [
        text
        for text in _listed(results, "refused")
        if not any(re.fullmatch(rf"\S+ in \w+: {reason}", text) for reason in REFUSED)
    ]
    assert unknown == []


def test_every_result_runs_where_the_float_model_does(results):
    assert _listed(results, "rejected") == []


def test_what_needs_a_type_that_onnxruntime_does_not_have_says_so(results):
    lacking = [result for result in results if result.kind == "lacking"]
    assert {result.preset for result in lacking} == _lacking()
    assert all(any("has no types of 4 bits" in note for note in result.notes) for result in lacking)


def test_nothing_is_wrong_in_type_shape_or_number_and_what_is_not_quantized_is_the_same(results):
    assert _listed(results, "other") == []


def test_what_is_poor_is_known(results):
    poor = [result for result in results if result.sqnr < POOR]
    unknown = [
        f"{result.names[0]} in {result.preset}: {result.sqnr:.1f} dB"
        for result in poor
        if not any(
            re.fullmatch(presets, result.preset) and re.fullmatch(names, result.names[0])
            for presets, (names, _) in KNOWN.items()
        )
    ]
    assert unknown == []
