"""Quark's configurations resolve to the schemes they describe, and what cannot be done yet is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.config.quark import get_default_config, get_default_config_mapping, scheme_of
from quarkfast.config.quark.legacy import LEGACY_NAMES
from quarkfast.errors import ConfigError, UnsupportedError


def test_all_65_names_of_quark_exist_in_any_case():
    assert len(LEGACY_NAMES) == 65
    assert get_default_config("bf16").activation_type.name == "QBFloat16"
    assert set(get_default_config_mapping()) == set(LEGACY_NAMES)


@pytest.mark.parametrize("name", LEGACY_NAMES)
def test_every_legacy_preset_resolves_or_is_refused_by_a_sentence(name):
    outcome = ""
    try:
        outcome = f"expected a scheme, got {scheme_of(get_default_config(name)).target}"
    except quarkfast.UnsupportedError as error:
        outcome = str(error)
    assert re.search("expected .* got .", outcome)


@pytest.mark.parametrize(
    ("name", "activation", "weight", "target"),
    [
        ("A8W8", "int8", "int8", "ryzenai-a8w8"),
        ("A16W8", "int16", "int8", "ryzenai-a8w8"),
        ("BF16", "bfloat16", "bfloat16", "ryzenai-bf16"),
        ("INT8_CNN_DEFAULT", "uint8", "int8", "ort-cpu"),
        ("INT8_TRANSFORMER_DEFAULT", "uint8", "int8", "ryzenai-transformer"),
        ("UINT8_DYNAMIC_QUANT", "uint8", "uint8", "ort-dynamic"),
    ],
)
def test_a_legacy_preset_names_the_types_that_it_promises(name, activation, weight, target):
    scheme = scheme_of(quarkfast.QConfig.get_default_config(name))
    assert (scheme.activation.dtype, scheme.weight.dtype, scheme.target) == (activation, weight, target)


def test_presets_are_fresh_objects_so_nothing_leaks_between_calls():
    first = get_default_config("A8W8")
    first.extra_options["OpTypesToQuantize"] = ["Conv"]
    assert "OpTypesToQuantize" not in get_default_config("A8W8").extra_options
    ready = quarkfast.BF16_QCONFIG
    ready.extra_options["BF16QDQToCast"] = True
    assert "BF16QDQToCast" not in quarkfast.BF16_QCONFIG.extra_options


def test_a_qconfig_survives_the_way_through_plain_data():
    layer = quarkfast.QLayerConfig(activation=quarkfast.BFloat16Spec(), weight=quarkfast.BFloat16Spec())
    config = quarkfast.QConfig(layer, exclude=["conv1", (["a"], ["b"])], BF16QDQToCast=True)
    again = quarkfast.QConfig.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict()
    assert again.global_config == layer
    assert again.exclude == config.exclude


def test_options_reach_the_scheme():
    layer = quarkfast.QLayerConfig(activation=quarkfast.BFloat16Spec(), weight=quarkfast.BFloat16Spec())
    config = quarkfast.QConfig(layer, BF16QDQToCast=True, CalibDataSize=8, exclude=["conv1"])
    scheme = scheme_of(config)
    assert (scheme.encoding, scheme.samples, scheme.exclude) == ("cast", 8, ("conv1",))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: get_default_config("A8W9"), quarkfast.ConfigError, "got 'A8W9'; did you mean 'A8W8'"),
        (lambda: quarkfast.QLayerConfig(weight=quarkfast.Int8Spec()), quarkfast.ConfigError, "got neither"),
        (
            lambda: quarkfast.QLayerConfig(quarkfast.Int8Spec(), quarkfast.Int8Spec(), quarkfast.Int8Spec()),
            quarkfast.ConfigError,
            "got both",
        ),
        (lambda: quarkfast.QLayerConfig(quarkfast.Int8Spec()), quarkfast.ConfigError, "weight: expected a tensor"),
        (lambda: quarkfast.Int8Spec(symmetric="yes"), quarkfast.ConfigError, "symmetric: expected bool, got 'yes'"),
        (lambda: quarkfast.Config("BF16"), quarkfast.ConfigError, "expected a QuantizationConfig, got str"),
        (lambda: quarkfast.ModelQuantizer(3), quarkfast.ConfigError, "expected a Config or a QConfig, got int"),
        (lambda: quarkfast.QConfig("A8W8"), quarkfast.ConfigError, "expected a QLayerConfig, got str"),
    ],
)
def test_a_wrong_configuration_meets_a_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()


def bf16_with(**options):
    layer = quarkfast.QLayerConfig(activation=quarkfast.BFloat16Spec(), weight=quarkfast.BFloat16Spec())
    return quarkfast.QConfig(layer, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"BF16QDQToCst": True}, quarkfast.ConfigError, "did you mean 'BF16QDQToCast'"),
        ({"UseUnsignedReLU": True}, quarkfast.ConfigError, "it has no effect in Quark either"),
        ({"FillAllValueInfo": True}, quarkfast.UnsupportedError, "FillAllValueInfo: expected False"),
        (
            {"algo_config": [quarkfast.CLEConfig(cle_steps=0)]},
            quarkfast.UnsupportedError,
            "cle_steps: expected a count",
        ),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        scheme_of(bf16_with(**options))


def test_quarks_keys_for_biases_mean_ours():
    for key, expected in (("QuantizeBias", "float"), ("Int32Bias", "weight")):
        config = get_default_config("A8W8")
        config.extra_options[key] = False
        assert scheme_of(config).bias == expected
        config.extra_options[key] = True
        assert scheme_of(config).bias == "int32"


def test_matmul_nbits_of_quark_is_the_preset_with_its_parameters():
    config = get_default_config("MATMUL_NBITS")
    assert scheme_of(config) == PRESETS["MATMUL_NBITS"]
    config.extra_options["MatMulNBitsParams"] = {"GroupSize": 32, "Symmetric": False}
    assert (scheme_of(config).weight.group_size, scheme_of(config).weight.symmetric) == (32, False)
    config.extra_options["MatMulNBitsParams"] = {"Bits": 8}
    assert scheme_of(config).weight == replace(PRESETS["MATMUL_NBITS"].weight, dtype="int8")


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"Bits": 2}, UnsupportedError, "MatMulNBitsParams: Bits: expected 4 or 8 in this version, got 2"),
        (
            {"Algorithm": "HQQ"},
            UnsupportedError,
            "MatMulNBitsParams: Algorithm: expected 'DEFAULT' or 'GPTQ' in this version",
        ),
        ({"AccuracyLevel": 4}, UnsupportedError, "MatMulNBitsParams: AccuracyLevel: expected 0 or 1 in this version"),
        ({"Groupsize": 32}, ConfigError, "MatMulNBitsParams: expected a known name, got 'Groupsize'; did you mean"),
    ],
)
def test_parameters_of_matmul_nbits_that_cannot_be_honoured_are_refused(parameters, error, message):
    config = get_default_config("MATMUL_NBITS")
    config.extra_options["MatMulNBitsParams"] = parameters
    with pytest.raises(error, match=message):
        scheme_of(config)


def test_cross_layer_equalization_is_quarks_default_in_the_older_configuration_alone():
    config = get_default_config("A8W8")
    assert scheme_of(config).equalize
    config.include_cle = False
    assert not scheme_of(config).equalize
    assert not scheme_of(get_default_config("BF16")).equalize
    layer = quarkfast.QLayerConfig(input_tensors=quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    assert not scheme_of(quarkfast.QConfig(layer)).equalize
    assert scheme_of(quarkfast.QConfig(layer, algo_config=[quarkfast.CLEConfig()])).equalize


def test_bias_correction_is_on_unless_its_key_says_no():
    assert scheme_of(bf16_with(algo_config=[quarkfast.BiasCorrectionConfig()])).bias_correction
    assert scheme_of(bf16_with(BiasCorrection=True)).bias_correction
    assert not scheme_of(bf16_with(BiasCorrection=False)).bias_correction
