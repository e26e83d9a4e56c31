"""Values of Quark's vocabulary as scripts give them: NumPy's, paths, None, and kinds that nobody expects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import quarkfast
from quarkfast.config.options import OPTIONS
from quarkfast.config.quark import QuantizationConfig, get_default_config, scheme_of
from quarkfast.config.quark.keys import KEYS
from quarkfast.config.quark.plain import data_source_of
from quarkfast.config.quark.translate import with_algorithms
from quarkfast.errors import ConfigError, QuarkfastError

LAYER = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
NAMES = sorted({*KEYS, *(option.quark_key for option in OPTIONS.values() if option.quark_key)})


def legacy(preset="A8W8", **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return config


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BF16", "MX6", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS"])
def test_a_key_that_is_none_is_left_out(preset):
    given = get_default_config(preset).extra_options
    config = legacy(preset, **{key: None for key in NAMES if key not in given})
    assert scheme_of(config) == scheme_of(get_default_config(preset))
    assert data_source_of(config) == data_source_of(get_default_config(preset))


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("PerChannel", np.True_, True),
        ("CalibDataSize", np.int64(7), 7),
        ("CLEWeightThreshold", np.float32(0.25), 0.25),
        ("OpTypesToQuantize", np.array(["Conv", "Gemm"]), ["Conv", "Gemm"]),
        ("FastFinetune", {"NumIterations": np.int32(9), "LearningRate": np.float64(0.5)},
         {"NumIterations": 9, "LearningRate": 0.5}),
        ("TensorQuantOverrides", {"x": [{"scale": np.array(0.5, np.float32), "zero_point": np.int8(1)}]},
         {"x": [{"scale": 0.5, "zero_point": 1}]}),
    ],
)  # fmt: skip
def test_values_of_numpy_are_plain_ones(key, value, same):
    assert scheme_of(legacy(**{key: value})) == scheme_of(legacy(**{key: same})) != scheme_of(legacy())


def test_paths_and_tuples_are_taken(tmp_path):
    assert data_source_of(legacy(SaveAndRestore=tmp_path / "ranges.json")).saved == str(tmp_path / "ranges.json")
    fields = QuantizationConfig(nodes_to_exclude=("conv",), per_channel=np.True_, optimize_model=None)
    assert scheme_of(fields) == scheme_of(QuantizationConfig(nodes_to_exclude=["conv"], per_channel=True))
    config = quarkfast.QConfig(LAYER, algo_config=(quarkfast.AdaRoundConfig(data_size=np.int64(5)),))
    assert dict(scheme_of(config).rounding_options)["samples"] == 5


def test_a_configuration_is_not_changed():
    config = legacy(CalibDataSize=np.int64(7), NumBins=None)
    before = dict(config.extra_options)
    scheme_of(config)
    assert config.extra_options == before
    assert type(config.extra_options["CalibDataSize"]) is np.int64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: legacy(FastFinetune=True), "option FastFinetune: expected a mapping from names to values, got True"),
        (lambda: legacy(AutoMixprecision=[1]), "option AutoMixprecision: expected a mapping .*, got \\[1\\]"),
        (lambda: legacy(GPTQParams="x"), "option GPTQParams: expected a mapping from names to values, got 'x'"),
        (lambda: legacy("MX6", BFPAttributes=16), "option BFPAttributes: expected a mapping from names to values"),
        (lambda: legacy(FastFinetune={1: 2}), "option FastFinetune: expected names, got 1"),
        (lambda: legacy(CopySharedInit="Conv"), "option CopySharedInit: expected a list of strings, got 'Conv'"),
        (lambda: legacy(CopySharedInit=True), "option CopySharedInit: expected a list of strings, got True"),
        (lambda: QuantizationConfig(extra_options=[1]), "extra_options: expected a mapping from names to values"),
        (lambda: QuantizationConfig(extra_options={1: 2}), "extra_options: expected names, got 1"),
        (lambda: QuantizationConfig(per_channel="yes"), "QuantizationConfig: per_channel: expected True or False, got"),
        (lambda: QuantizationConfig(nodes_to_exclude="conv"), "nodes_to_exclude: expected a list of strings, got 'con"),
        (lambda: quarkfast.QConfig(LAYER, exclude="conv"), "QConfig: exclude: expected a list of names .*, got 'conv'"),
        (lambda: quarkfast.QConfig(LAYER, exclude=3), "QConfig: exclude: expected a list of names .*, got 3"),
        (lambda: quarkfast.QConfig(LAYER, extra_options="x"), "QConfig: extra_options: expected a mapping by Quark's"),
        (lambda: quarkfast.QConfig(LAYER, specific_layer_config={"conv": LAYER}), "specific_layer_config: expected li"),
        (lambda: quarkfast.QConfig(LAYER, specific_layer_config={LAYER: "conv"}), "specific_layer_config: expected li"),
        (lambda: quarkfast.QConfig(LAYER, layer_type_config={None: "Add"}), "layer_type_config: expected lists of nam"),
        (lambda: quarkfast.QConfig(LAYER, algo_config=quarkfast.CLEConfig()), "algo_config: expected a list of such"),
        (lambda: quarkfast.QConfig(LAYER, algo_config=[quarkfast.CLEConfig]), "algorithms: expected such as AdaRound"),
        (lambda: quarkfast.QConfig(LAYER, algo_config=["adaround"]), "algorithms: expected such as AdaRoundConfig"),
        (lambda: quarkfast.QConfig(LAYER, algo_config=[quarkfast.CLEConfig(options=[3])]), "CLEConfig: options: expec"),
        (lambda: quarkfast.QLayerConfig(quarkfast.Int8Spec, weight=quarkfast.Int8Spec()), "input_tensors: expected a"),
        (lambda: quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight="int8"), "weight: expected a tensor"),
        (lambda: quarkfast.QConfig.from_dict(None), "QConfig.from_dict: expected a global_config, got None"),
        (lambda: quarkfast.QTensorConfig.from_dict(3), "QTensorConfig.from_dict: expected known fields and values"),
        (lambda: legacy(TensorQuantOverrides={"x": [{"scale": "x"}]}), "x: scale: expected a number, got 'x'"),
        (lambda: legacy(TensorQuantOverrides={"x": [{"scale": 1, "zero_point": 2.5}]}), "zero_point: expected a whole"),
        (lambda: legacy(TensorQuantOverrides={"x": [{"rmin": 0, "rmax": []}]}), "x: rmax: expected a number, got"),
    ],
)  # fmt: skip
def test_kinds_that_nobody_expects_meet_a_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        scheme_of(make())


def test_algorithms_beside_a_configuration_are_a_list():
    with pytest.raises(ConfigError, match="algorithms: expected a list of such as AdaRoundConfig"):
        with_algorithms(scheme_of(legacy()), quarkfast.AdaRoundConfig())


ODD = [0, -1, 2.5, float("nan"), "x", "", ["a"], {"a": 1}, {1: 2}, {"x": [{}]}, {"a"}, b"x", len, np.arange(2), Path()]


@pytest.mark.parametrize("key", [*NAMES, 1])
def test_an_odd_value_is_read_or_meets_a_sentence_of_ours(key):
    for value in ODD:
        config = legacy()
        config.extra_options[key] = value
        try:
            scheme_of(config)
            data_source_of(config)
        except QuarkfastError:
            continue
