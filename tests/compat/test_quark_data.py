"""Quark's options for data: random samples, a file of ranges, and the presets that need them."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.plain import data_source_of
from quarkfast.errors import CalibrationError, ConfigError, ModelError
from support.tiny_models import conv_relu_model, run_as_written, samples, tiny_model


def quantizer(preset: str, **options) -> quarkfast.ModelQuantizer:
    config = get_default_config(preset)
    config.extra_options |= options
    return quarkfast.ModelQuantizer(Config(config))


def metadata_of(proto: onnx.ModelProto) -> dict[str, str]:
    return {each.key: each.value for each in proto.metadata_props}


def without_metadata(proto: onnx.ModelProto) -> bytes:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    del copy.metadata_props[:]
    return copy.SerializeToString()


def test_random_data_stands_for_a_reader_that_there_is_not():
    made = quantizer("A8W8", UseRandomData=True)
    proto = made.quantize_model(conv_relu_model())
    assert "random data" in metadata_of(proto)["quarkfast.calibration"]
    assert without_metadata(made.quantize_model(conv_relu_model())) == without_metadata(proto)
    given = made.quantize_model(conv_relu_model(), None, [{"x": each[None]} for each in samples()])
    assert "quarkfast.calibration" not in metadata_of(given)


def test_random_data_has_the_sizes_and_the_range_that_are_asked_for():
    ends = {"x": [-64, 64]}
    narrow, wide = (
        quantizer("A8W8", UseRandomData=True, RandomDataReaderInputShape={"x": (2, 3, 8, 8)}, **options)
        for options in ({}, {"RandomDataReaderInputDataRange": ends})
    )
    scales = [
        next(onnx.numpy_helper.to_array(each) for each in made.quantize_model(conv_relu_model()).graph.initializer
             if each.name == "x_scale")
        for made in (narrow, wide)
    ]  # fmt: skip
    assert scales[1] > 60 * scales[0]


def test_without_data_nothing_is_made_up():
    with pytest.raises(CalibrationError):
        quantizer("A8W8").quantize_model(conv_relu_model())


def test_statistics_are_written_once_and_read_again(tmp_path):
    saved = tmp_path / "ranges.json"
    made = quantizer("A8W8", SaveAndRestore=str(saved))
    first = made.quantize_model(conv_relu_model(), None, [{"x": each[None]} for each in samples()])
    written = saved.read_bytes()
    second = made.quantize_model(conv_relu_model())
    assert without_metadata(second) == without_metadata(first)
    assert saved.read_bytes() == written


def test_ranges_that_quark_saved_are_read(tmp_path):
    saved = tmp_path / "ranges.json"
    ranges = {name: [-2.0, 2.0] for name in ("x", "c1", "r1", "c2", "y")}
    saved.write_text(json.dumps({"quark_version": "0.13", "tensors_range": ranges}), encoding="utf-8")
    proto = quantizer("A8W8", SaveAndRestore=str(saved)).quantize_model(conv_relu_model())
    scales = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    assert float(scales["x_scale"]) == float(np.float32(2 / 127))


def test_a_preset_without_ranges_writes_no_file(tmp_path):
    saved = tmp_path / "ranges.json"
    quantizer("BF16", SaveAndRestore=str(saved)).quantize_model(conv_relu_model())
    assert not saved.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"RandomDataReaderInputShape": [1, 3]}, "RandomDataReaderInputShape: expected lists of numbers by the name"),
        ({"RandomDataReaderInputDataRange": {"x": "1"}}, "RandomDataReaderInputDataRange: expected lists of numbers"),
        (
            {"RandomDataReaderInputDataRange": {"x": [1]}},
            r"DataRange: expected \[low, high\] by input",
        ),
        ({"SaveAndRestore": 3}, "SaveAndRestore: expected the path of a file, got 3"),
    ],
)
def test_values_of_another_kind_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        quantizer("A8W8", **options)


def test_vint8_runs_with_its_random_data():
    assert data_source_of(get_default_config("VINT8")).random
    proto = quantizer("VINT8").quantize_model(conv_relu_model())
    assert np.isfinite(run_as_written(proto.SerializeToString(), samples())).all()
    scales = [onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name.endswith("_scale")]
    assert all((np.frexp(each)[0] == 0.5).all() for each in scales)


# The ends that samples enter


def halves() -> onnx.ModelProto:
    text = "g (float16[N, 3, 8, 8] x) => (float16[N, 4, 6, 6] y) { c = Conv (x, w) y = Relu (c) }"
    return tiny_model(text, {"w": np.random.default_rng(3).normal(size=(4, 3, 3, 3)).astype(np.float16)})


def ends(proto: onnx.ModelProto) -> list[tuple[int, int]]:
    """Type and last dimension of inputs and outputs."""
    kinds = [each.type.tensor_type for each in (*proto.graph.input, *proto.graph.output)]
    return [(each.elem_type, each.shape.dim[-1].dim_value) for each in kinds]


def test_ends_in_float16_may_become_float32():
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    data = [{"x": each[None].astype(np.float16)} for each in samples()]
    assert ends(quantizer("A8W8").quantize_model(halves(), None, data)) == [(half, 8), (half, 6)]
    made, data = quantizer("A8W8", ConvertFP16ToFP32=True), [{"x": each[None]} for each in samples()]
    proto = made.quantize_model(halves(), None, data)
    assert ends(proto) == [(single, 8), (single, 6)]
    assert not quarkfast.check_model(proto, "ryzenai-a8w8").errors


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BF16"])
def test_images_may_come_with_their_channels_last(preset, tmp_path):
    path, data = tmp_path / "out.onnx", [{"x": each[None]} for each in samples()]
    plain = quantizer(preset).quantize_model(conv_relu_model(), None, data)
    made = quantizer(preset, ConvertNCHWToNHWC=True)
    proto = made.quantize_model(conv_relu_model(), None, data)
    assert made.quantize_model(conv_relu_model(), path, data) is None
    assert onnx.load(path) == proto
    assert [size for _, size in ends(proto)] == [3, 3]
    assert [each.name for each in proto.graph.output] == ["y_transpose"]
    expected = run_as_written(plain.SerializeToString(), samples())
    found = run_as_written(proto.SerializeToString(), samples().transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), expected)
    assert not quarkfast.check_model(proto, made.scheme.target).errors


def test_fields_of_the_older_configuration_say_the_same():
    for field in ("convert_fp16_to_fp32", "convert_nchw_to_nhwc"):
        config = get_default_config("A8W8")
        setattr(config, field, True)
        source = data_source_of(config)
        assert (source.float32, source.channels_last) == (
            field == "convert_fp16_to_fp32",
            field == "convert_nchw_to_nhwc",
        )


def test_a_model_without_images_has_no_channels_to_move():
    model = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }")
    with pytest.raises(ModelError, match="expected an input or output of 4 dimensions, got none"):
        quantizer("BF16", ConvertNCHWToNHWC=True).quantize_model(model)


def test_data_in_files_is_read_along(tmp_path):
    onnx.save(halves(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    data = [{"x": each[None]} for each in samples()]
    made = quantizer("A8W8", ConvertFP16ToFP32=True, ConvertNCHWToNHWC=True)
    found = made.quantize_model(tmp_path / "m.onnx", None, data)
    assert without_metadata(found) == without_metadata(made.quantize_model(halves(), None, data))
