"""Weights that take much from the outputs get a scale for each channel or 16 bits, where the target takes that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.compat.onnxruntime import quantize_static
from quarkfast.config.quark import QConfig
from quarkfast.demo.data import MODEL, load_images
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.targets import TARGETS

CHANNELS = 16
SOUND = 25.0
"""What weights leave the outputs at least; activations of 8 bits with a range of their own take some of it."""


def model(weights: np.ndarray, opset: int = 17) -> onnx.ModelProto:
    """Returns a product whose first half of channels is one output and whose second half is another."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[N, {CHANNELS}] x) => (float[N, {CHANNELS}] large, float[N, {CHANNELS // 2}] a, float[N, {CHANNELS // 2}] b)
    {{
        large = MatMul(x, v)
        y = MatMul(x, w)
        a, b = Split(y{", halves" if opset >= 13 else ""})
    }}"""
    text = text.replace("Split(y)", "Split <axis = 1> (y)").replace("Split(y, ", "Split <axis = 1> (y, ")
    proto = onnx.parser.parse_model(text)
    values = np.sign(np.random.default_rng(3).normal(size=(CHANNELS, CHANNELS))).astype(np.float32)
    halves = np.int64([CHANNELS // 2] * 2)
    constants = {"v": values, "w": weights} | ({"halves": halves} if opset >= 13 else {})
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in constants.items())
    return proto


def uneven() -> np.ndarray:
    """Returns weights whose second half of channels is 1000 times smaller: one step is larger than all of them."""
    weights = np.random.default_rng(0).normal(size=(CHANNELS, CHANNELS)).astype(np.float32)
    weights[:, CHANNELS // 2 :] /= 1000
    return weights


def outlying() -> np.ndarray:
    """Returns weights that read the first feature, which is zero, 1000 times as strongly as all others."""
    weights = np.random.default_rng(1).normal(size=(CHANNELS, CHANNELS)).astype(np.float32)
    weights[0] *= 1000
    return weights


def samples() -> np.ndarray:
    rows = np.random.default_rng(2).normal(size=(32, CHANNELS)).astype(np.float32)
    rows[:, 0] = 0
    return rows


def quantized(weights: np.ndarray, preset: str = "A8W8", opset: int = 17, **options):
    return quarkfast.quantize(
        model(weights, opset), preset=preset, calibration_data={"x": samples()}, samples=32, **options
    )


def scale_of(result, tensor: str = "w") -> np.ndarray:
    found = {each.name: each for each in result.proto.graph.initializer}
    return onnx.numpy_helper.to_array(found[f"{tensor}_scale"])


def type_of(result, tensor: str = "w") -> int:
    return {each.name: each for each in result.proto.graph.initializer}[f"{tensor}_quantized"].data_type


def notes_of(result) -> list[str]:
    return [note for note in result.summary.notes if note.startswith("weights: ")]


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "U8S8"])
def test_channels_that_one_scale_rounds_to_zero_get_their_own(preset):
    result = quantized(uneven(), preset)
    assert scale_of(result).size == CHANNELS
    assert scale_of(result, "v").ndim == 0, "it gains nothing"
    assert result.proto.opset_import[0].version >= 13
    (note,) = notes_of(result)
    assert "of 2, 1 ('w'; 50 % of their bytes) has a scale for each channel" in note
    assert f"strict=True keeps {preset} as its name says" in note


def test_weights_that_lose_nothing_then_leave_infinitely_many_decibels():
    rows = np.ones((CHANNELS, CHANNELS), np.float32)
    rows[:, CHANNELS // 2 :] /= 1024
    (note,) = notes_of(quantized(rows))
    assert "with which they leave inf dB" in note


def test_the_outputs_are_sound_then():
    rows = samples()
    (_, _, expected) = exact_session(model(uneven())).run(None, {"x": rows})
    found = {}
    for strict in (False, True):
        result = quantized(uneven(), "A16W8", strict=strict)
        found[strict] = sqnr(expected, exact_session(result.model_bytes).run(None, {"x": rows})[2])
    assert found[False] > SOUND
    assert found[True] < 6


@pytest.mark.parametrize(("outliers", "left"), [(5, "2.5 dB"), (7, "1.2 dB"), (8, None)])
def test_scales_of_channels_cost_no_bytes_and_need_to_gain_a_decibel(outliers, left):
    """Of the eight channels of the worst output those with an outlier lose everything in either form."""
    weights = outlying()
    weights[0] = 1000 * (np.arange(CHANNELS) >= CHANNELS - outliers)
    result = quantized(weights)
    (note,) = notes_of(result)
    assert "leave the outputs 0.0 dB on the first 6 samples" in note
    assert (scale_of(result).size == CHANNELS) == (left is not None)
    assert f"with which they leave {left}" in note or left is None


def _hidden() -> tuple[np.ndarray, np.ndarray]:
    """Returns weights whose small channels show nothing of the first sample, and samples."""
    weights, rows = uneven(), samples()
    weights[0, CHANNELS // 2 :] = 0
    rows[0] = np.eye(CHANNELS)[0]
    return weights, rows


def test_samples_behind_the_first_tell_where_outputs_have_few_numbers():
    weights, rows = _hidden()
    result = quarkfast.quantize(model(weights), preset="A8W8", calibration_data={"x": rows})
    assert scale_of(result).size == CHANNELS
    (note,) = notes_of(result)
    assert "leave the outputs 0.0 dB on the first 6 samples; " in note
    few = {"alone_outputs": 1}
    result = quarkfast.quantize(model(weights), preset="A8W8", calibration_data={"x": rows}, policy=few)
    assert scale_of(result).ndim == 0


def test_a_strict_preset_is_kept_as_its_name_says():
    result = quantized(uneven(), strict=True)
    assert scale_of(result).ndim == 0
    assert not notes_of(result)


def test_an_old_operator_set_is_converted_to_one_that_has_channels():
    assert quantized(uneven(), "U8S8", 11, strict=True).proto.opset_import[0].version == 11
    result = quantized(uneven(), "U8S8", 11)
    assert result.proto.opset_import[0].version == 13
    assert scale_of(result).size == CHANNELS


def test_nothing_is_tried_where_the_target_takes_one_form_alone():
    result = quantized(uneven(), "XINT8")
    assert scale_of(result).ndim == 0
    assert not notes_of(result)


def test_what_a_channel_cannot_carry_gets_16_bits_within_a_quarter_of_the_bytes():
    narrow = outlying()[:, : CHANNELS // 4]
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, {CHANNELS}] x) => (float[N, {CHANNELS}] large, float[N, {CHANNELS // 4}] y)
    {{ large = MatMul(x, v)  y = MatMul(x, w) }}"""
    proto = onnx.parser.parse_model(text)
    values = np.random.default_rng(3).normal(size=(CHANNELS, CHANNELS)).astype(np.float32)
    constants = {"v": values, "w": narrow}.items()
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in constants)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data={"x": samples()})
    assert type_of(result) == onnx.TensorProto.INT16
    assert type_of(result, "v") == onnx.TensorProto.INT8
    (note,) = notes_of(result)
    assert "1 ('w'; 20 % of their bytes) has 16 bits" in note
    too_large = quantized(outlying())
    assert type_of(too_large) == onnx.TensorProto.INT8, "it holds half of the bytes"
    only = replace(TARGETS["ryzenai-a8w8"], weight_types=("int8",))
    refused = quarkfast.quantize(proto, preset="A8W8", calibration_data={"x": samples()}, target=only)
    assert type_of(refused) == onnx.TensorProto.INT8
    old = replace(TARGETS["ryzenai-a8w8"], highest_opset=17)
    widened = quarkfast.quantize(proto, preset="A8W8", calibration_data={"x": samples()}, target=old)
    assert type_of(widened) == onnx.TensorProto.INT16, "no newer operator set is needed"
    assert widened.proto.opset_import[0].version == 17


def test_a_form_of_the_users_own_is_kept():
    result = quantized(uneven(), tensors={"w": {"symmetric": True}})
    assert scale_of(result).ndim == 0


def test_a_sound_model_has_the_weights_of_a_strict_one():
    found = set()
    for strict in (False, True):
        proto = quarkfast.quantize(
            MODEL, preset="A8W8", calibration_data=load_images().calibration, strict=strict
        ).proto
        weights = [each for each in proto.graph.initializer if len(each.dims) > 1]
        assert len(weights) > 1
        found.add(b"".join(each.SerializeToString(deterministic=True) for each in weights))
    assert len(found) == 1


@pytest.mark.parametrize("data", ["random", "calibration"])
def test_nothing_is_changed_without_samples(data):
    given = {"calibration_data": "random"}
    if data == "calibration":
        given = {"calibration": quarkfast.calibrate(model(uneven()), {"x": samples()}, preset="A8W8")}
    result = quarkfast.quantize(model(uneven()), preset="A8W8", **given)
    assert scale_of(result).ndim == 0
    assert not notes_of(result)


def test_a_model_that_draws_random_numbers_is_left_alone():
    proto = model(uneven())
    proto.graph.node.append(onnx.helper.make_node("RandomNormalLike", ["x"], ["r"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("r", 1, ["N", CHANNELS]))
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data={"x": samples()})
    assert scale_of(result).ndim == 0


def test_doors_of_other_tools_keep_what_they_are_told(tmp_path):
    quantize_static(model(uneven()), tmp_path / "static.onnx", [{"x": samples()}])
    found = {each.name: each for each in onnx.load(tmp_path / "static.onnx").graph.initializer}
    assert onnx.numpy_helper.to_array(found["w_scale"]).ndim == 0
    assert quarkfast.ModelQuantizer(QConfig.get_default_config("A8W8")).scheme.strict
    assert not quarkfast.ModelQuantizer("A8W8").scheme.strict


def test_an_operator_set_that_cannot_be_converted_leaves_the_preset_and_is_told(monkeypatch):
    def refuse(context):
        raise quarkfast.UnsupportedError("model: expected opset 13 or newer, got 11, which onnx cannot convert: Scan")

    monkeypatch.setattr("quarkfast.pipeline.placing_anew.convert_operator_set", refuse)
    result = quantized(uneven(), "U8S8", 11)
    assert scale_of(result).ndim == 0
    assert result.proto.opset_import[0].version == 11
    (note,) = notes_of(result)
    assert note.endswith(
        "and cannot have another: model: expected opset 13 or newer, got 11, which onnx cannot convert: Scan"
    )
