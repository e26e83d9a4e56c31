"""Keys of Quark's nested settings: each value is honoured, as if it were left out, or refused; none is ignored."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.enums import QuantGranularity, QuantType
from quarkfast.errors import ConfigError, UnsupportedError

LAYER = quarkfast.QLayerConfig(quarkfast.Int16Spec(), weight=quarkfast.Int8Spec())
INT8 = quarkfast.Int8Spec()
CHANNELS = quarkfast.Int8Spec(quant_granularity=QuantGranularity.Channel)
GROUPS = quarkfast.Int8Spec(quant_granularity=QuantGranularity.Group)


def legacy(preset="A8W8", **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


def newer(layer, **options):
    return scheme_of(quarkfast.QConfig(layer, **options))


@pytest.mark.parametrize(
    "key", ["TargetQuantType", "ActTargetQuantType", "WeightTargetQuantType", "BiasTargetQuantType"]
)
def test_types_beside_layers_to_change_to_are_refused(key):
    mixing = {"TargetLayerConfig": LAYER, key: QuantType.QInt8}
    with pytest.raises(ConfigError, match=f"AutoMixprecision: {key}: expected it or TargetLayerConfig, got both"):
        legacy(AutoMixprecision=mixing)


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [("MetricThreshold", "L2Target", (1, 2)), ("MetricOutputIndex", "OutputIndex", (0, 1))],
)
def test_two_names_of_one_setting_say_the_same(first, second, values):
    for both in (values, (values[1], values[1])):
        mixing = {"TargetLayerConfig": LAYER, first: both[0], second: both[1]}
        if both[0] == both[1]:
            legacy(AutoMixprecision=mixing)
            continue
        with pytest.raises(ConfigError, match=f"AutoMixprecision: expected {first} or {second}, got both"):
            legacy(AutoMixprecision=mixing)


def test_one_type_for_all_beside_one_for_each_is_refused_where_they_differ():
    types = {"ActTargetQuantType": QuantType.QInt8, "WeightTargetQuantType": QuantType.QInt8}
    assert legacy(AutoMixprecision=types) == legacy(AutoMixprecision={**types, "TargetQuantType": QuantType.QInt8})
    with pytest.raises(ConfigError, match="AutoMixprecision: TargetQuantType: expected a type that either part lacks"):
        legacy(AutoMixprecision={**types, "TargetQuantType": QuantType.QInt16})


@pytest.mark.parametrize(
    ("preset", "key", "name", "value"),
    [
        ("BFP16", "BFPAttributes", "sub_block_size", "x"),
        ("BFP16", "BFPAttributes", "sub_block_shift_bits", None),
        ("BFP16", "BFPAttributes", "axis", True),
        ("MXINT8", "MXAttributes", "sub_block_size", 2),
        ("MXINT8", "MXAttributes", "bfp_method", "to_bfp"),
    ],
)
def test_attributes_of_another_kind_are_refused(preset, key, name, value):
    given = get_default_config(preset).extra_options[key]
    with pytest.raises(UnsupportedError, match=f"option {key}: expected .*got "):
        legacy(preset, **{key: {**given, name: value}})


def test_attributes_of_sub_blocks_say_nothing_where_blocks_have_none():
    given = get_default_config("BFP16").extra_options["BFPAttributes"]
    assert legacy("BFP16", BFPAttributes={**given, "sub_block_size": 4, "sub_block_shift_bits": 2}) == legacy("BFP16")


@pytest.mark.parametrize("mode", [None, True, 3, "2"])
def test_another_rounding_is_refused(mode):
    with pytest.raises(UnsupportedError, match=f"rounding_mode: expected 0, 1 or 2, got {mode!r}"):
        legacy("MXINT8", MXAttributes={"element_dtype": "int8", "rounding_mode": mode})


# What Quark has by default where an algorithm does not read it.
UNREAD = {
    "adaquant": {"RegParam": 0.01, "BetaRange": (20, 2), "WarmStart": 0.2},
    "descent": {
        "RegParam": 0.01, "BetaRange": [20, 2], "WarmStart": 0.2, "NumIterations": 1000, "LearningRate": 0.1,
        "EarlyStop": True,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "key", "value"),
    [(name, key, value) for name, given in UNREAD.items() for key, value in given.items()],
)
def test_a_default_of_quarks_that_an_algorithm_does_not_read_asks_for_nothing(algorithm, key, value):
    expected = legacy(FastFinetune={"OptimAlgorithm": algorithm})
    assert legacy(FastFinetune={"OptimAlgorithm": algorithm, key: value}) == expected
    other = {"BetaRange": (9, 2), "EarlyStop": "x"}.get(key, 0.5)
    with pytest.raises(UnsupportedError, match=f"FastFinetune: {key}: expected "):
        legacy(FastFinetune={"OptimAlgorithm": algorithm, key: other if key != "NumIterations" else 7})


@pytest.mark.parametrize(("key", "value"), [("MemOptLevel", True), ("OutputIndex", False), ("DropRatio", True)])
def test_true_is_no_number(key, value):
    with pytest.raises(UnsupportedError, match=f"FastFinetune: {key}: expected .* in this version, got {value}"):
        legacy(FastFinetune={key: value})
    with pytest.raises(
        UnsupportedError, match="AutoMixprecision: DualQuantNodes: expected False in this version, got 0"
    ):
        legacy(AutoMixprecision={"TargetLayerConfig": LAYER, "DualQuantNodes": 0})
    with pytest.raises(
        UnsupportedError, match="MatMulNBitsParams: AccuracyLevel: expected 0 or 1 in this version, got"
    ):
        legacy("MATMUL_NBITS", MatMulNBitsParams={"AccuracyLevel": True})


@pytest.mark.parametrize(("name", "value"), [("r_matrix_dim", "x"), ("r_matrix_dim", 0), ("use_random_had", "x")])
def test_settings_of_rotation_of_another_kind_are_refused(name, value):
    config = quarkfast.QuarotConfig(**{name: value})
    with pytest.raises(ConfigError, match=f"QuarotConfig: {name}: expected .*, got {value!r}"):
        newer(quarkfast.QLayerConfig(INT8, weight=INT8), algo_config=[config])


@pytest.mark.parametrize(
    ("activation", "weight", "message"),
    [
        (CHANNELS, INT8, "granularity: expected Tensor for activations, got Channel"),
        (GROUPS, INT8, "granularity: expected Tensor or Channel beside quantized activations, got Group"),
        (INT8, GROUPS, "granularity: expected Tensor or Channel beside quantized activations, got Group"),
    ],
)
def test_scales_that_there_are_not_are_refused_for_all_layers_and_for_one(activation, weight, message):
    plain, other = quarkfast.QLayerConfig(INT8, weight=INT8), quarkfast.QLayerConfig(activation, weight=weight)
    for make in (
        lambda: newer(other),
        lambda: newer(plain, specific_layer_config={other: ["conv_0"]}),
        lambda: newer(plain, layer_type_config={other: ["Conv"]}),
    ):
        with pytest.raises(UnsupportedError, match=message):
            make()


def test_gptq_beside_weights_for_matmulnbits_is_named_there():
    message = "option UseGPTQ: expected False beside UseMatMulNBits, got True; MatMulNBitsParams has Algorithm='GPTQ'"
    with pytest.raises(ConfigError, match=message):
        legacy("MATMUL_NBITS", UseGPTQ=True)
    plain = quarkfast.QLayerConfig(INT8, weight=INT8)
    with pytest.raises(
        UnsupportedError, match="algorithms: expected none beside weights alone, got GPTQ; leave it out"
    ):
        newer(plain, algo_config=[quarkfast.GPTQConfig()], UseMatMulNBits=True)
    assert newer(plain, UseMatMulNBits=True, MatMulNBitsParams={"Algorithm": "GPTQ"}).rounding == "gptq"
    with pytest.raises(
        ConfigError, match="option GPTQParams: expected Algorithm='GPTQ' in MatMulNBitsParams beside it"
    ):
        legacy("MATMUL_NBITS", GPTQParams={"PercDamp": 0.5})
