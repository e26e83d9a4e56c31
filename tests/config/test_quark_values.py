"""Values of Quark's keys, fields and arguments that change a scheme, each with what it changes."""

from __future__ import annotations

import json
from enum import Enum

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.config.quark import QuantizationConfig, get_default_config, scheme_of
from quarkfast.config.quark.enums import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    QuantFormat,
    QuantType,
    VitisQuantFormat,
)
from quarkfast.config.quark.translate import with_algorithms
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from support.tiny_models import samples, tiny_model


def legacy(preset, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


def newer(activation, weight=None, bias=None, **options):
    layer = quarkfast.QLayerConfig(activation, weight=weight or activation, bias=bias)
    return scheme_of(quarkfast.QConfig(layer, **options))


def test_a_bias_of_xint8_may_be_int32():
    assert legacy("XINT8", Int32Bias=True).bias == "int32"
    assert resolve(legacy("XINT8", Int32Bias=False), {})[0].bias == "weight"


def test_rows_of_presets_are_quarks():
    options = get_default_config("VINT8").extra_options
    assert options["ConvertReduceMeanToGlobalAvgPool"] is False
    assert (options["Int32Bias"], options["DedicatedQDQPair"], options["QuantizeAllOpTypes"]) == (False, True, True)
    assert get_default_config("S16S16_MIXED_S8S8").extra_options["Int16Bias"] is False


def test_a_bias_in_int32_needs_integers():
    message = "option Int32Bias: expected False beside bfloat16 and bfloat16, got True; leave it out"
    with pytest.raises(UnsupportedError, match=message):
        legacy("BF16", Int32Bias=True)


@pytest.mark.parametrize(
    ("bias", "kind"), [(None, "int32"), (quarkfast.Int32Spec(), "int32"), (quarkfast.Int8Spec(), "weight")]
)
def test_the_bias_of_a_layer_is_honoured(bias, kind):
    assert newer(quarkfast.Int8Spec(), bias=bias).bias == kind


def test_the_bias_of_single_layers_is_honoured():
    layer = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    other = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec(), bias=quarkfast.Int8Spec())
    scheme = scheme_of(quarkfast.QConfig(layer, specific_layer_config={other: ["conv_0"]}))
    assert [rule.bias for rule in scheme.layers] == ["weight"]


def test_a_key_of_biases_wins_over_the_layer():
    assert newer(quarkfast.Int8Spec(), bias=quarkfast.Int8Spec(), QuantizeBias=False).bias == "float"


def test_another_bias_is_refused():
    with pytest.raises(UnsupportedError, match="QLayerConfig: bias: expected Int32Spec or what the weight has, got"):
        newer(quarkfast.Int8Spec(), bias=quarkfast.Int16Spec())


def test_keys_of_symmetry_win_over_a_specs():
    scheme = newer(quarkfast.Int8Spec(), ActivationSymmetric=False)
    assert (scheme.activation.symmetric, scheme.weight.symmetric, scheme.target) == (False, True, "ort-cpu")
    assert newer(quarkfast.Int8Spec(), WeightSymmetric=False).weight.symmetric is False
    assert newer(quarkfast.UInt8Spec(), quarkfast.Int8Spec(), ActivationSymmetric=True).activation.symmetric is True


def test_attributes_of_blocks_win_over_a_specs():
    attributes = {"bfp_method": "to_bfp_prime", "bit_width": 13, "block_size": 16, "sub_block_size": 2}
    scheme = newer(quarkfast.BFP16Spec(), BFPAttributes={**attributes, "sub_block_shift_bits": 1})
    assert (scheme.activation.dtype, scheme.weight.dtype) == ("mx6", "mx6")
    scheme = newer(quarkfast.MXInt8Spec(), MXAttributes={"element_dtype": "fp4_e2m1"})
    assert scheme.activation.dtype == "mxfp4_e2m1"
    assert newer(quarkfast.MX4Spec(), BFPAttributes={"rounding_mode": 2}).block_rounding == "half_even"


@pytest.mark.parametrize("key", ["BFPAttributes", "MXAttributes"])
def test_attributes_of_blocks_that_are_not_there_are_refused(key):
    message = f"option {key}: expected a configuration with such a block format, got int8; leave it out"
    for make in (lambda **options: newer(quarkfast.Int8Spec(), **options), lambda **each: legacy("A8W8", **each)):
        with pytest.raises(ConfigError, match=message):
            make(**{key: {"axis": 1}})


@pytest.mark.parametrize("member", [QuantFormat.QDQ, ExtendedQuantFormat.QDQ, VitisQuantFormat.FixNeuron])
def test_formats_of_integers_are_one(member):
    config = get_default_config("A8W8")
    config.quant_format = member
    assert scheme_of(config) == legacy("A8W8")


def test_formats_of_blocks_force_their_types():
    for member, dtype in ((VitisQuantFormat.BFPFixNeuron, "bfp16"), (VitisQuantFormat.MXFixNeuron, "mxint8")):
        scheme = scheme_of(QuantizationConfig(quant_format=member))
        assert (scheme.activation.dtype, scheme.weight.dtype) == (dtype, dtype)


class Mine(Enum):
    """No format of Quark's."""

    Other = 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"quant_format": QuantFormat.QOperator},
            UnsupportedError,
            "quant_format: expected QDQ in this ver",
        ),
        ({"quant_format": Mine.Other}, ConfigError, "quant_format: expected QuantFormat.QDQ or Ext.*, got <Mine.Other"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        scheme_of(QuantizationConfig(**given))


def test_what_quark_prints_is_not_printed_anyway():
    assert scheme_of(QuantizationConfig(print_summary=False, ignore_warnings=False)) == scheme_of(QuantizationConfig())


def normalized():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c = Conv(x, w)
        y = BatchNormalization(c, s, b, m, v)
    }"""
    arrays = {"w": np.ones((3, 3, 1, 1), np.float32), "v": np.full(3, 2, np.float32)}
    return tiny_model(text, arrays | {name: np.ones(3, np.float32) for name in "sbm"})


@pytest.mark.parametrize("options", [{"FoldBatchNorm": False}, {"OptimizeModel": False, "SimplifyModel": False}])
def test_batch_normalization_stays_where_folding_is_off(options):
    scheme = legacy("A8W8", **options)
    assert (scheme.fold_batch_norm, legacy("A8W8").fold_batch_norm) == (False, True)
    assert [node.op_type for node in prepare(load_model(normalized()), 17, scheme).graph] == [
        "Conv",
        "BatchNormalization",
    ]
    scheme = legacy("A8W8", ConvertBNToConv=False, **options)
    result = quarkfast.quantize(normalized(), preset=scheme, calibration_data=samples())
    assert "BatchNormalization" in {node.op_type for node in result.proto.graph.node}
    onnx.checker.check_model(result.proto, full_check=True)


def test_dynamic_quantization_folds_where_channels_have_scales():
    assert legacy("UINT8_DYNAMIC_QUANT").fold_batch_norm is False
    assert legacy("UINT8_DYNAMIC_QUANT", FoldBatchNorm=True).fold_batch_norm is True
    assert scheme_of(QuantizationConfig(use_dynamic_quant=True, per_channel=True)).fold_batch_norm is True


def test_folding_may_be_off_in_a_field_and_on_by_its_key():
    simplified = {"SimplifyModel": False}
    assert scheme_of(QuantizationConfig(optimize_model=False)).fold_batch_norm is True
    assert scheme_of(QuantizationConfig(optimize_model=False, extra_options=simplified)).fold_batch_norm is False
    config = QuantizationConfig(optimize_model=False, extra_options={"FoldBatchNorm": True, **simplified})
    assert scheme_of(config).fold_batch_norm is True


@pytest.mark.parametrize("method", ["MinMSE", "Percentile", "Entropy", "MinMax"])
def test_ranges_are_symmetric_where_that_is_asked_for(method):
    x = np.abs(samples()) + 1
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Conv(x, w) }"
    proto = tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32)})
    layer = quarkfast.QLayerConfig(
        quarkfast.UInt8Spec(calibration_method=quarkfast.CalibMethod[method]), weight=quarkfast.Int8Spec()
    )
    points = {}
    for symmetric in (False, True):
        scheme = scheme_of(quarkfast.QConfig(layer, CalibTensorRangeSymmetric=symmetric))
        result = quarkfast.quantize(proto, preset=scheme, calibration_data=x).proto
        found = {each.name: onnx.numpy_helper.to_array(each) for each in result.graph.initializer}
        points[symmetric] = int(found["x_zero_point"])
    assert points[False] == 0
    assert points[True] in (127, 128)


@pytest.mark.parametrize("method", ["MinMSE", "Percentile"])
def test_other_numbers_of_bins_are_refused_where_nothing_reads_them(method):
    spec = quarkfast.Int8Spec(calibration_method=quarkfast.CalibMethod[method])
    assert newer(spec, NumBins=2048) == newer(spec)
    with pytest.raises(
        ConfigError, match=f"bins: expected 2048 beside {method.lower()}, which reads no other, got 512"
    ):
        newer(spec, NumBins=512)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: quarkfast.AdaRoundConfig(iterations=3), "AdaRoundConfig: expected known arguments, got 'iterations'"),
        (lambda: quarkfast.CLEConfig(cle_step=2), "CLEConfig: expected known .*; did you mean 'cle_steps'"),
        (lambda: quarkfast.Int8Spec(symetric=True), "Int8Spec: expected known .*; did you mean 'symmetric'"),
        (lambda: quarkfast.QTensorConfig(dtype=1), "QTensorConfig: expected known arguments, got 'dtype'"),
        (lambda: quarkfast.QLayerConfig(weights=1), "QLayerConfig: expected known .*; did you mean 'weight'"),
        (lambda: quarkfast.QConfig(), "QConfig: expected global_config, got none"),
        (lambda: quarkfast.Config(), "Config: expected global_quant_config, got none"),
        (lambda: quarkfast.Config(1, global_quant_config=1), "Config: expected global_quant_config once, got it by"),
        (lambda: QuantizationConfig(calibration=1), "QuantizationConfig: expected known arguments, got 'calibration'"),
        (lambda: quarkfast.CLEConfig(*range(7)), "CLEConfig: expected 6 arguments by position at most, got 7"),
    ],
)
def test_arguments_that_are_unknown_meet_a_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_arguments_of_quarks_algorithms_are_known():
    quarkfast.QuarotConfig(r_matrix_dim=4096, use_random_had=False, r_config_path=None)
    config = quarkfast.CLEConfig(cle_balance_method="max", cle_weight_threshold=0.5, cle_scale_append_bias=True)
    assert newer(quarkfast.Int8Spec(), algo_config=[config]).equalize
    assert not newer(quarkfast.Int8Spec(), algo_config=[config]).equalize_options
    config = quarkfast.CLEConfig("max", -1, 0.1, options={"CLEScaleAppendBias": False})
    expected = {"cle_steps": -1, "cle_weight_threshold": 0.1, "cle_scale_append_bias": False}
    assert dict(newer(quarkfast.Int8Spec(), algo_config=[config]).equalize_options) == expected
    assert dict(with_algorithms(PRESETS["A8W8"], [config]).equalize_options) == expected


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (
            quarkfast.CLEConfig(cle_balance_method="mean"),
            UnsupportedError,
            "CLEConfig: cle_balance_method: expected 'max', the one that Quark has, got 'mean'",
        ),
        (
            quarkfast.CLEConfig(options={"CLEStep": 2}),
            ConfigError,
            "CLEConfig: options: expected a known key, got 'CLEStep'; did you mean 'CLESteps'",
        ),
    ],
)
def test_settings_of_equalization_that_cannot_be_honoured_meet_a_sentence(config, error, message):
    with pytest.raises(error, match=message):
        newer(quarkfast.Int8Spec(), algo_config=[config])


def test_a_key_of_equalization_says_what_it_says_though_it_be_the_default_of_quark():
    given = {"CLEScaleAppendBias": True, "CLESteps": 1}
    found = newer(quarkfast.Int8Spec(), algo_config=[quarkfast.CLEConfig()], extra_options=given)
    assert dict(found.equalize_options) == {"cle_scale_append_bias": True, "cle_steps": 1}
    assert not newer(quarkfast.Int8Spec(), extra_options=given).equalize_options


def test_settings_of_equalization_want_it():
    with pytest.raises(
        ConfigError, match="option CLESteps: expected equalization beside it, got none for A8W8; leave it out"
    ):
        newer(quarkfast.Int8Spec(), extra_options={"CLESteps": 2})


def test_all_operators_are_quantized_where_a_key_says_so():
    assert legacy("A8W8", QuantizeAllOpTypes=True, ExtraOpTypesToQuantize=["Exp"]).extra_op_types == ("*",)
    assert legacy("A8W8", ExtraOpTypesToQuantize=["Exp"]).extra_op_types == ("Exp",)
    assert scheme_of(QuantizationConfig(extra_op_types_to_quantize=["Exp"])).extra_op_types == ("Exp",)
    assert legacy("BF16").extra_op_types == ("*",)


@pytest.mark.parametrize("chosen", [{"UseGPTQ": True}, {"UseMatMulNBits": True}])
def test_keys_beside_weights_alone_are_checked_too(chosen):
    assert legacy("S8S8_AAWS", **chosen, CalibDataSize=3).samples == 3
    with pytest.raises(UnsupportedError, match="option UsePowerOf2Scale: expected True in this version, got False"):
        legacy("S8S8_AAWS", **chosen, UsePowerOf2Scale=False)
    with pytest.raises(ConfigError, match="option: expected a known name, got 'UseMatMulNBit'; did you mean"):
        newer(quarkfast.Int8Spec(), **chosen, UseMatMulNBit=True)
    config = QuantizationConfig(nodes_to_exclude=["head"], extra_options=chosen)
    assert scheme_of(config).exclude == ("head",)


@pytest.mark.parametrize("chosen", ["UseGPTQ", "UseMatMulNBits", "WeightsOnly"])
def test_keys_beside_weights_alone_are_honoured_or_refused(chosen):
    given = {chosen: True, "ConvertOpsetVersion": 21, "FixShapes": "x:[1,3,8,8]", "NodesToQuantize": ["head"]}
    found = legacy("S8S8_AAWS", **given, WeightSymmetric=False)
    assert (found.opset, found.include, found.weight.symmetric) == (21, ("head",), False)
    # Activations stay float, and have no ranges.
    assert legacy("S8S8_AAWS", **{chosen: True}, Percentile=99.0) == legacy("S8S8_AAWS", **{chosen: True})
    refused = {
        "AutoMixprecision": {"ActTargetQuantType": QuantType.QInt8}, "BFPAttributes": {"bit_width": 13}, "CLESteps": 5,
        "ConvertLeakyReluToDPUVersion": True, "Int16Bias": True, "QuantizeAllOpTypes": True,
        "UseQDQContribOps": True,
    }  # fmt: skip
    for key, value in refused.items():
        with pytest.raises((ConfigError, UnsupportedError), match=r"expected .*, got .*"):
            legacy("S8S8_AAWS", **{chosen: True, key: value})


def test_layers_beside_weights_alone_are_excluded_or_refused():
    layer = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    options = {"UseGPTQ": True}
    config = quarkfast.QConfig(layer, layer_type_config={None: ["Gemm"]}, extra_options=options)
    assert scheme_of(config).exclude_op_types == ("Gemm",)
    message = "layers: expected weight alone in INT8_WO, which leaves the rest, got activation"
    with pytest.raises(ConfigError, match=message):
        scheme_of(quarkfast.QConfig(layer, specific_layer_config={layer: ["head"]}, extra_options=options))


def test_what_dynamic_quantization_has_not_is_refused():
    dynamic = "UINT8_DYNAMIC_QUANT"
    assert legacy(dynamic, BF16QDQToCast=False, NumBins=2048, CalibMovingAverage=False) == legacy(dynamic)
    for key, value in {"Percentile": 99.0, "CalibTensorRangeSymmetric": True}.items():
        with pytest.raises((ConfigError, UnsupportedError), match=r"expected .* got .*; leave"):
            legacy(dynamic, **{key: value})
    for key, value in {"Int16Bias": True, "Int32Bias": False}.items():
        with pytest.raises(UnsupportedError, match=f"option {key}: expected .* when the model runs, got {value}"):
            legacy(dynamic, **{key: value})


def test_settings_of_equalization_beside_floats_are_refused():
    with pytest.raises(ConfigError, match="option CLESteps: expected equalization beside it, got none for BF16"):
        legacy("BF16", CLESteps=5)
    assert legacy("BF16", CLESteps=1) == legacy("BF16")


@pytest.mark.parametrize(
    ("key", "value", "switch"),
    [
        ("MatMulNBitsParams", {"GroupSize": 32}, "UseMatMulNBits"),
        ("GPTQParams", {"Bits": 4}, "UseGPTQ"),
        ("MixedPrecisionTensor", {QuantType.QUInt8: ["x"]}, "SpecificTensorPrecision"),
    ],
)
def test_settings_of_what_is_not_on_are_refused(key, value, switch):
    with pytest.raises(ConfigError, match=f"option {key}: expected {switch} beside it, got none; leave it out"):
        legacy("A8W8", **{key: value})
    assert legacy("A8W8", **{key: value, switch: False}) == legacy("A8W8")


def test_activations_that_are_quantized_at_run_time_are_asymmetric():
    with pytest.raises(UnsupportedError, match="option ActivationSymmetric: expected False with use_dynamic_quant"):
        legacy("UINT8_DYNAMIC_QUANT", ActivationSymmetric=True)


def test_no_limit_of_the_npu_holds_where_the_check_is_off():
    off = {"concat", "pool", "shift_read", "shift_write", "shift_cut", "shift_bias", "hard_sigmoid", "shift_swish"}
    assert legacy("XINT8", NPULimitationCheck=False).constraints == tuple((name, False) for name in sorted(off))
    assert legacy("A8W8", NPULimitationCheck=False).constraints == ()


def test_tensors_get_the_types_that_quarks_older_key_names():
    named = {ExtendedQuantType.QInt16: ["x", "y"], QuantType.QUInt8: ["z"]}
    scheme = legacy(
        "A8W8",
        SpecificTensorPrecision=True,
        MixedPrecisionTensor=named,
        TensorQuantOverrides={"y": [{"quant_type": QuantType.QUInt8}]},
    )
    found = {rule.tensor: dict(rule.change.values)["dtype"] for rule in scheme.tensors}
    assert found == {"x": "int16", "y": "uint8", "z": "uint8"}
    config = QuantizationConfig(specific_tensor_precision=True, extra_options={"MixedPrecisionTensor": named})
    assert len(scheme_of(config).tensors) == 3
    with pytest.raises(ConfigError, match="option MixedPrecisionTensor: expected lists of names by their type"):
        legacy("A8W8", SpecificTensorPrecision=True, MixedPrecisionTensor={QuantType.QInt8: "x"})


def test_a_precision_without_tensors_is_refused():
    with pytest.raises(ConfigError, match="option SpecificTensorPrecision: expected MixedPrecisionTensor beside it"):
        legacy("A8W8", SpecificTensorPrecision=True)


def test_ends_of_what_is_quantized_are_options():
    config = QuantizationConfig(input_nodes=["conv_0"], extra_options={"OutputNodes": ["conv_2"]})
    scheme = scheme_of(config)
    assert (scheme.input_nodes, scheme.output_nodes) == (("conv_0",), ("conv_2",))


def test_pairs_of_operators_survive_plain_data():
    scheme = legacy("A8W8", RemoveQDQBetweenOps=[("Mul", "Add")])
    assert scheme.fuse == (("Mul", "Add"),)
    assert quarkfast.Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme
    assert legacy("A8W8", RemoveQDQBetweenOps=None) == legacy("A8W8", RemoveQDQBetweenOps=[]) == legacy("A8W8")
    with pytest.raises(ConfigError, match="option RemoveQDQBetweenOps: expected a list of pairs of strings, got"):
        legacy("A8W8", RemoveQDQBetweenOps=["Mul", "Add"])
