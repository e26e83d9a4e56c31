"""Names that scripts import from ``quark.onnx``: entry points and readers, and what becomes of the others."""

from __future__ import annotations

import importlib
import re

import numpy as np
import onnx
import pytest

from quarkfast.compat.quark import onnx as quark
from quarkfast.errors import CalibrationError, ConfigError, UnsupportedError
from support.tiny_models import conv_relu_model, samples

# `quark.onnx.__all__` of Quark 0.13; VitisExtendedQuantizer is not there in Quark either.
_EXPORTED = """
CalibraterBase CalibrationDataReader CalibrationMethod MinMaxCalibrater QuantizationMode QuantFormat QuantType
write_calibration_table Int16Method PowerOfTwoMethod LayerWiseMethod ExtendedCalibrationMethod CachedDataReader
RandomDataReader PathDataReader create_calibrator_power_of_two create_calibrator_float_scale ExtendedQuantType
ExtendedQuantFormat VitisQuantType VitisQuantFormat quantize_static quantize_dynamic AutoSearch AutoSearchPro
generate_all_configs get_auto_search_config SearchSpace ModelQuantizer QConfig Config QuantizationConfig CalibMethod
ScaleType QuantGranularity QTensorConfig Int8Spec UInt8Spec XInt8Spec Int16Spec UInt16Spec Int32Spec UInt32Spec
BFloat16Spec BFP16Spec Float16Spec QLayerConfig DataType Int8 UInt8 Int16 UInt16 Int32 UInt32 Float16 BFloat16 BFP16
MX4Spec MX6Spec MX9Spec MXFP4E2M1Spec MXFP6E2M3Spec MXFP6E3M2Spec MXFP8E4M3Spec MXFP8E5M2Spec MXInt8Spec AlgoConfig
SmoothQuantConfig CLEConfig BiasCorrectionConfig GPTQConfig AutoMixprecisionConfig AdaRoundConfig AdaQuantConfig
QuarotConfig XINT8_QCONFIG XINT8_ADAROUND_QCONFIG XINT8_ADAQUANT_QCONFIG VINT8_QCONFIG A8W8_QCONFIG
A8W8_ADAROUND_QCONFIG A8W8_ADAQUANT_QCONFIG A16W8_QCONFIG A16W8_ADAROUND_QCONFIG A16W8_ADAQUANT_QCONFIG BF16_QCONFIG
BFP16_QCONFIG dump_model VitisExtendedQuantizer _COP_DOMAIN _COP_VERSION get_library_path"""
EXPORTED = re.findall(r"\w+", _EXPORTED)
READERS = ["CachedDataReader", "CalibrationDataReader", "PathDataReader", "RandomDataReader"]
FUNCTIONS = ["ModelQuantizer", "get_library_path", "quantize_dynamic", "quantize_static"]
OTHERS = ["AutoSearch", "CalibraterBase", "create_calibrator_float_scale", "dump_model", "write_calibration_table"]


class Reader(quark.CalibrationDataReader):
    def __init__(self):
        self.left = iter(samples())

    def get_next(self):
        image = next(self.left, None)
        return None if image is None else {"x": image[None]}


@pytest.mark.parametrize("name", [*READERS, *FUNCTIONS, "QuantizationMode", "VINT8_QCONFIG", "XINT8_QCONFIG"])
def test_a_name_is_there(name):
    assert getattr(quark, name) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_what_there_is_not_says_what_does_the_same(name):
    with pytest.raises(UnsupportedError, match=f"expected a name that quarkfast has, got '{name}'; quarkfast"):
        getattr(quark, name)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_name_that_quark_exports_is_there_or_says_what_does_the_same(name):
    if name in quark._OTHERS:
        with pytest.raises(UnsupportedError, match=f"got '{name}'; quarkfast."):
            getattr(quark, name)
    else:
        assert getattr(quark, name) is not None


def test_the_names_are_those_of_quark():
    assert len(EXPORTED) == len(set(EXPORTED)) == 92
    assert (quark._COP_DOMAIN, quark._COP_VERSION) == ("com.amd.quark", 1)


def test_a_star_imports_what_scripts_use():
    names = {}
    exec("from quarkfast.compat.quark.onnx import *", names)
    assert {"QConfig", "QLayerConfig", "Int8Spec", "Int8", "CalibMethod", "QuantType", "AdaRoundConfig"} <= set(names)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        quark.quantise_static  # noqa: B018


def test_the_mapping_of_older_configurations_is_where_scripts_look():
    found = importlib.import_module("quarkfast.compat.quark.onnx.quantization.config")
    assert set(found.DefaultConfigMapping) == set(found.get_default_config_mapping())


def test_quantize_static_writes_what_the_configuration_would(tmp_path):
    path = tmp_path / "out.onnx"
    settings = {"calibrate_method": quark.CalibrationMethod.MinMax, "include_cle": False, "per_channel": True}
    assert quark.quantize_static(conv_relu_model(), path, Reader(), **settings) is None
    config = quark.Config(quark.QuantizationConfig(**settings))
    same = quark.ModelQuantizer(config).quantize_model(conv_relu_model(), None, Reader())
    assert path.read_bytes() == same.SerializeToString()


def test_quantize_static_takes_the_older_name_of_the_npu():
    found = quark.quantize_static(
        conv_relu_model(), None, Reader(), enable_dpu=True, calibrate_method=quark.PowerOfTwoMethod.MinMSE,
        activation_type=quark.QuantType.QUInt8, include_cle=False, extra_options={"ActivationSymmetric": True},
    )  # fmt: skip
    scales = [onnx.numpy_helper.to_array(each) for each in found.graph.initializer if each.name.endswith("_scale")]
    assert all((np.frexp(each)[0] == 0.5).all() for each in scales)


@pytest.mark.parametrize("function", [quark.quantize_static, quark.quantize_dynamic])
def test_an_argument_that_there_is_not_is_refused(function):
    with pytest.raises(ConfigError, match="expected a known argument, got 'per_chanel'; did you mean 'per_channel'"):
        function(conv_relu_model(), per_chanel=True)


def test_quantize_dynamic_needs_no_data():
    found = quark.quantize_dynamic(conv_relu_model())
    assert {"DynamicQuantizeLinear", "ConvInteger"} <= {node.op_type for node in found.graph.node}


def test_a_cached_reader_may_be_read_again_and_cut():
    reader = quark.CachedDataReader(Reader(), data_size=3)
    first = list(reader)
    assert (len(reader), len(first), reader.get_next()) == (3, 3, None)
    reader.reset_iter()
    np.testing.assert_array_equal(reader.get_next()["x"], first[0]["x"])
    assert quark.CachedDataReader(Reader(), quantize_fp16=True).get_next()["x"].dtype == np.float16
    with pytest.raises(CalibrationError, match="CachedDataReader: expected a sample, got none"):
        quark.CachedDataReader([])
    with pytest.raises(ConfigError, match="data_size: expected an integer greater than 0 or None, got 'x'"):
        quark.CachedDataReader(Reader(), data_size="x")
    with pytest.raises(UnsupportedError, match="convert_nchw_to_nhwc: expected False, got True"):
        quark.CachedDataReader(Reader(), convert_nchw_to_nhwc=True)


def test_readers_of_folders_and_of_random_numbers(tmp_path):
    for index, image in enumerate(samples()[:4]):
        np.save(tmp_path / f"{index}.npy", image[None])
    reader = quark.PathDataReader(conv_relu_model(), str(tmp_path))
    assert [feed["x"].shape for feed in reader] == [(1, 3, 8, 8)] * 4
    assert quark.quantize_static(conv_relu_model(), None, calibration_data_path=tmp_path, include_cle=False)
    with pytest.raises(UnsupportedError, match=r"input_shape: expected none, got \[1, 3\]"):
        quark.PathDataReader(conv_relu_model(), str(tmp_path), [1, 3])
    given = quark.RandomDataReader(conv_relu_model(), {"x": [1, 3, 8, 8]}, {"x": [-3, -1]})
    (feed,) = list(given)
    assert -3 <= feed["x"].min() < feed["x"].max() < -1
    given.reset_iter()
    np.testing.assert_array_equal(given.get_next()["x"], feed["x"])


def test_vint8_is_a_newer_configuration_too():
    found = quark.ModelQuantizer(quark.VINT8_QCONFIG).quantize_model(conv_relu_model())
    assert "quarkfast.calibration" in {each.key for each in found.metadata_props}
