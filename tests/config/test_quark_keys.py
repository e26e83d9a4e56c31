"""Quark's option keys: what equals its default asks for nothing, and what cannot be honoured is refused."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.config.options.kinds import Kind
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.enums import QuantType
from quarkfast.config.quark.keys import KEYS, holds
from quarkfast.errors import ConfigError, UnsupportedError

# A preset of each family on which Quark's defaults depend.
FAMILIES = {
    "cnn": "XINT8",
    "transformer": "INT8_TRANSFORMER_DEFAULT",
    "dynamic": "UINT8_DYNAMIC_QUANT",
    "block": "MXINT8",
    "float": "FP16",
    "integer": "S8S8_AAWS",
}


def values_of(values):
    return (1, 3) if isinstance(values, Kind) else values


ACCEPTED = [
    (key, value, family)
    for key, row in KEYS.items()
    for family in FAMILIES
    for values in row.accepted(family)
    for value in values_of(values)
]
SWITCHED = ("True", "False", "True, False", "")
REFUSED = [(key, family) for key, row in KEYS.items() if row.honoured in SWITCHED for family in FAMILIES]


def scheme(preset: str, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


@pytest.mark.parametrize(("key", "value", "family"), ACCEPTED, ids=str)
def test_what_asks_for_nothing_is_as_if_it_were_left_out(key, value, family):
    assert scheme(FAMILIES[family], **{key: value}) == scheme(FAMILIES[family])


@pytest.mark.parametrize(("key", "family"), REFUSED)
def test_any_other_value_is_refused(key, family):
    algorithm = KEYS[key].algorithm or f"option {key}: expected .* got 'another'"
    with pytest.raises((ConfigError, UnsupportedError), match=algorithm):
        scheme(FAMILIES[family], **{key: "another"})


LAYER = quarkfast.QLayerConfig(quarkfast.MXInt8Spec(), weight=quarkfast.MXInt8Spec())

# Key -> a preset, a value that changes what it amounts to, and what has to be there beside it.
HONOURED = {
    "ActivationScaled": ("BF16", True, {}),
    "ActivationSymmetric": ("S8S8_AAWS", True, {}),
    "AddQDQPairToWeight": ("A8W8", True, {}),
    "AdjustHardSigmoid": ("XINT8", False, {}),
    "AdjustShiftSwish": ("XINT8", False, {}),
    "AdjustShiftBias": ("XINT8", False, {}),
    "AdjustShiftCut": ("XINT8", False, {}),
    "AdjustShiftRead": ("XINT8", False, {}),
    "AdjustShiftWrite": ("XINT8", False, {}),
    "AlignConcat": ("XINT8", False, {}),
    "AlignEltwiseQuantType": ("S16S8_ASWS", True, {}),
    "AlignPool": ("A8W8", True, {}),
    "AutoMixprecision": ("A8W8", {"TargetLayerConfig": LAYER}, {}),
    "BF16QDQToCast": ("BF16", True, {}),
    "BF16WithClip": ("BF16", True, {}),
    "BFPAttributes": ("MX4", {"bfp_method": "to_bfp", "bit_width": 16, "block_size": 8}, {}),
    "BiasCorrection": ("A8W8", False, {}),
    "CalibDataSize": ("A8W8", 7, {}),
    "CalibMovingAverage": ("A8W8", True, {}),
    "CalibTensorRangeSymmetric": ("U8S8_AAWS", True, {}),
    "CalibrateMethod": ("A8W8", "Entropy", {}),
    "ConvertAvgPoolToDPUVersion": ("XINT8", False, {}),
    "ConvertBNToConv": ("A8W8", False, {}),
    "ConvertClipToDPUVersion": ("XINT8", True, {}),
    "ConvertClipToRelu": ("A8W8", True, {}),
    "ConvertHardSigmoidToDPUVersion": ("A8W8", True, {}),
    "ConvertInstanceNormToDPUVersion": ("XINT8", True, {}),
    "ConvertLeakyReluToDPUVersion": ("XINT8", False, {}),
    "ConvertReduceMeanToDPUVersion": ("XINT8", False, {}),
    "ConvertReduceMeanToGlobalAvgPool": ("A8W8", False, {}),
    "ConvertSigmoidToHardSigmoid": ("XINT8", True, {}),
    "ConvertSplitToSlice": ("A8W8", False, {}),
    "ConvertOpsetVersion": ("A8W8", 20, {}),
    "CopySharedInit": ("A8W8", [], {}),
    "DedicateDQNode": ("A8W8", True, {}),
    "DedicatedQDQPair": ("A8W8", True, {}),
    "EnableNPUCnn": ("XINT8", False, {}),
    "EnableVaimlBF16": ("BF16", True, {}),
    "ExtraOpTypesToQuantize": ("A8W8", ["Exp"], {}),
    "FastFinetune": ("A8W8", {"OptimAlgorithm": "adaround"}, {}),
    "FixShapes": ("A8W8", "x:[1,3,8,8]", {}),
    "FoldBatchNorm": ("A8W8", False, {}),
    "ForceQuantizeNoInputCheck": ("A8W8", False, {}),
    "GPTQParams": ("A8W8", {"Bits": 4, "GroupSize": 32}, {"UseGPTQ": True}),
    "InputNodes": ("A8W8", ["head"], {}),
    "Int16Bias": ("A8W8", True, {}),
    "Int16Scale": ("A8W8", True, {}),
    "Int32Bias": ("A8W8", False, {}),
    "LWPMetric": ("A8W8", "mse", {}),
    "MXAttributes": ("MXINT8", {"element_dtype": "fp4_e2m1"}, {}),
    "MatMulConstBOnly": ("A8W8", True, {}),
    "MatMulNBitsParams": ("MATMUL_NBITS", {"GroupSize": 32}, {}),
    "MixedPrecisionTensor": ("A8W8", {QuantType.QUInt8: ["x"]}, {"SpecificTensorPrecision": True}),
    "NPULimitationCheck": ("XINT8", False, {}),
    "NodesToExclude": ("A8W8", ["head"], {}),
    "NodesToQuantize": ("A8W8", ["head"], {}),
    "NodesToExcludeOutputQuantization": ("A8W8", ["head"], {}),
    "NumBins": ("A8W8", 256, {"CalibrateMethod": "Entropy"}),
    "NumQuantizedBins": ("A8W8", 64, {}),
    "OpTypesToExclude": ("A8W8", ["Conv"], {}),
    "OpTypesToExcludeOutputQuantization": ("A8W8", ["Conv"], {}),
    "OpTypesToQuantize": ("A8W8", ["Conv"], {}),
    "OptimizeModel": ("A8W8", False, {"SimplifyModel": False}),
    "OutputNodes": ("A8W8", ["head"], {}),
    "PerChannel": ("A8W8", True, {}),
    "Percentile": ("S8S8_AAWS", 99.9, {}),
    "PercentileCandidates": ("A8W8", [99.9], {}),
    "QuantizeAllOpTypes": ("A8W8", True, {}),
    "QuantizeBias": ("A8W8", False, {}),
    "ReduceRange": ("A8W8", True, {}),
    "RemoveQDQBetweenOps": ("A8W8", [("Mul", "Add")], {}),
    "RemoveQDQConvClip": ("A8W8", False, {}),
    "RemoveQDQConvGelu": ("A8W8", True, {}),
    "RemoveQDQConvLeakyRelu": ("A8W8", False, {}),
    "RemoveQDQConvPRelu": ("A8W8", False, {}),
    "RemoveQDQConvRelu": ("A8W8", False, {}),
    "RemoveQDQInstanceNorm": ("A8W8", True, {}),
    "RemoveQDQMulAdd": ("A8W8", True, {}),
    "ReplaceClip6Relu": ("A8W8", True, {}),
    "Scenario": ("A8W8", "p3", {}),
    "SimplifyModel": ("A8W8", False, {"OptimizeModel": False}),
    "SimulateDPU": ("XINT8", False, {}),
    "SpecificTensorPrecision": ("A8W8", True, {"MixedPrecisionTensor": {QuantType.QUInt8: ["x"]}}),
    "SplitLargeKernelPool": ("S8S8_AAWS", True, {}),
    "TensorQuantOverrides": ("A8W8", {"x": [{"symmetric": False}]}, {}),
    "UseQDQContribOps": ("A16W8", True, {}),
    "UseGPTQ": ("A8W8", True, {}),
    "UseMatMulNBits": ("A8W8", True, {}),
    "WeightCalibrateMethod": ("A8W8", "MinMSE", {}),
    "WeightsOnly": ("A8W8", True, {}),
    "WeightScaled": ("BF16", True, {}),
    "WeightSymmetric": ("A8W8", False, {}),
}


# What `quarkfast.config.quark.data_source` reads for the quantizer: tests/compat/test_quark_data.py.
OF_DATA = {"RandomDataReaderInputDataRange", "RandomDataReaderInputShape", "SaveAndRestore", "UseRandomData"}


def test_every_honoured_key_has_a_value_that_shows_it():
    assert set(HONOURED) | OF_DATA == {key for key, row in KEYS.items() if holds(row) == "honoured"}


@pytest.mark.parametrize("key", HONOURED)
def test_a_value_that_is_honoured_changes_the_scheme(key):
    preset, value, beside = HONOURED[key]
    without = {} if key == "MixedPrecisionTensor" or "MixedPrecisionTensor" in beside else beside
    assert scheme(preset, **beside, **{key: value}) != scheme(preset, **without)


def test_true_is_no_number():
    with pytest.raises(UnsupportedError, match="option CalibWorkerNum: expected an integer greater than 0"):
        scheme("A8W8", CalibWorkerNum=True)


def test_a_newer_configuration_meets_the_same_checks():
    layer = quarkfast.QLayerConfig(quarkfast.XInt8Spec(), weight=quarkfast.XInt8Spec())
    assert scheme_of(quarkfast.QConfig(layer, AlignPad=True)) == scheme_of(quarkfast.QConfig(layer))
    with pytest.raises(UnsupportedError, match="option AlignPad: expected True in this version, got False; what only"):
        scheme_of(quarkfast.QConfig(layer, AlignPad=False))


def test_what_replaces_a_key_that_was_dropped_exists():
    with pytest.raises(ConfigError, match=r"give a saved calibration \(calibration=\) instead"):
        scheme("A8W8", TensorsRangeFile="ranges.json")
