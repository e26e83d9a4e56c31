"""Quark's options for data: random samples, a file of ranges, and the presets that need them."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.data_source import data_source_of
from quarkfast.errors import CalibrationError, ConfigError
from support.tiny_models import conv_relu_model, run_as_written, samples


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
