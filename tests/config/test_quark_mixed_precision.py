"""Quark's AutoMixprecision becomes mixed precision of ours, setting by setting, or is refused by a sentence."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.config import Change, LayerRule
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.algorithm import AutoMixprecisionConfig
from quarkfast.config.quark.enums import ExtendedQuantType, QuantType
from quarkfast.config.quark.mixed_precision import MIXING_KEYS, mixing_of

INT8 = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
INT16 = quarkfast.QLayerConfig(quarkfast.Int16Spec(), weight=quarkfast.Int16Spec())


def with_algorithm(**settings):
    algorithm = AutoMixprecisionConfig(**({"target_layer_config": INT8} | settings))
    return scheme_of(quarkfast.QConfig(INT16, algo_config=[algorithm]))


def older(**settings):
    config = get_default_config("A16W8")
    config.include_auto_mp = True
    config.extra_options["AutoMixprecision"] = settings
    return scheme_of(config)


@pytest.mark.parametrize(
    ("name", "base", "layers"),
    [
        ("S16S16_MIXED_S8S8", ("int16", "int16"), "int8"),
        ("BF16_MIXED_BFP16", ("bfloat16", "bfloat16"), "bfp16"),
        ("BF16_MIXED_MXINT8", ("bfloat16", "bfloat16"), "mxint8"),
    ],
)
def test_a_mixed_preset_has_both_types_and_no_threshold(name, base, layers):
    scheme = scheme_of(get_default_config(name))
    assert (scheme.activation.dtype, scheme.weight.dtype) == base
    (form,) = scheme.mixed_precision.forms
    assert form.activation.apply(scheme.activation).dtype == layers
    assert form.weight.apply(scheme.weight).dtype == layers
    assert not scheme.mixed_precision.searches
    assert scheme.mixed_precision.op_types == ("Conv", "ConvTranspose", "Gemm", "MatMul")


# Key, what is given, and what becomes of it.
SETTINGS = {
    "TargetOpType": (["Conv"], ("op_types", ("Conv",))),
    "IncludeLayers": (["a"], ("include", ("a",))),
    "ExcludeLayers": (["a"], ("exclude", ("a",))),
    "DataSize": (5, ("samples", 5)),
    "MetricOutputIndex": (2, ("output", 2)),
    "OutputIndex": (2, ("output", 2)),
    "MetricDefault": ("kl", ("metric", "kl")),
    "MetricThreshold": (0.5, ("threshold", 0.5)),
    "L2Target": (0.5, ("threshold", 0.5)),
    "MetricOptimizeObject": ("quality", ("objective", "quality")),
    "NoInputQDQShared": (True, ("own_inputs", True)),
}
NEUTRAL = {
    "WorkerNum": 4, "DualQuantNodes": False, "SharedParamMode": "propagate", "MetricDistanceFn": None,
    "MetricEvaluateFn": None, "SensitivityCacheFile": None, "SubgraphJson": None, "Top1AccTarget": None,
    "EvaluateFunction": None, "TargetTensors": [], "TargetIndices": [], "ExcludeIndices": [], "AutoMixUseFastFT": False,
}  # fmt: skip
TYPES = {"TargetLayerConfig", "TargetQuantType", "ActTargetQuantType", "WeightTargetQuantType", "BiasTargetQuantType"}
REFUSED = {
    "TargetLayerConfig": "int8", "TargetOpType": [], "IncludeLayers": "conv", "ExcludeLayers": 1, "DataSize": -1,
    "MetricOutputIndex": -1, "OutputIndex": "0", "MetricDefault": "l1", "MetricThreshold": "0.1", "L2Target": True,
    "MetricOptimizeObject": "size", "NoInputQDQShared": 1, "WorkerNum": 0, "DualQuantNodes": True,
    "SharedParamMode": "unshare", "MetricDistanceFn": max, "MetricEvaluateFn": max, "SensitivityCacheFile": "a.json",
    "SubgraphJson": "a.json", "Top1AccTarget": 0.5, "EvaluateFunction": max, "TargetTensors": ["x"],
    "TargetIndices": [1], "ExcludeIndices": [1], "AutoMixUseFastFT": True, "TargetQuantType": "int8",
    "ActTargetQuantType": 8, "WeightTargetQuantType": "QInt8", "BiasTargetQuantType": 3,
}  # fmt: skip
# Keys of versions before 0.13, which the class does not have.
EARLIER = {
    "TargetQuantType", "ActTargetQuantType", "WeightTargetQuantType", "BiasTargetQuantType", "OutputIndex", "L2Target",
    "Top1AccTarget", "EvaluateFunction", "TargetTensors", "TargetIndices", "ExcludeIndices", "AutoMixUseFastFT",
}  # fmt: skip


def test_every_setting_is_tried():
    assert set(MIXING_KEYS) == set(SETTINGS) | set(NEUTRAL) | TYPES == set(REFUSED)


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_becomes_one_of_ours(key):
    given, (field, expected) = SETTINGS[key]
    mixed = older(TargetQuantType=QuantType.QInt8, **{key: given}).mixed_precision
    assert getattr(mixed, field) == expected


@pytest.mark.parametrize("key", NEUTRAL)
def test_a_setting_of_how_quark_runs_changes_nothing(key):
    plain = older(TargetQuantType=QuantType.QInt8)
    assert older(TargetQuantType=QuantType.QInt8, **{key: NEUTRAL[key]}) == plain


@pytest.mark.parametrize("key", REFUSED)
def test_a_value_that_cannot_be_honoured_is_refused_by_its_key(key):
    with pytest.raises(quarkfast.UnsupportedError, match=f"AutoMixprecision: {key}: expected .*, got"):
        older(**({"TargetQuantType": QuantType.QInt8} | {key: REFUSED[key]}))


def test_the_class_has_a_key_for_each_of_its_fields():
    plain = mixing_of([AutoMixprecisionConfig(target_layer_config=INT8)])
    assert set(plain) == set(MIXING_KEYS) - EARLIER


def test_the_class_means_what_the_dictionary_means():
    given = {"metric_default": "cosine", "metric_threshold": 0.1, "data_size": 3, "target_op_type": ["Gemm"]}
    mixed = with_algorithm(**given).mixed_precision
    assert (mixed.metric, mixed.threshold, mixed.samples, mixed.op_types) == ("cosine", 0.1, 3, ("Gemm",))
    assert with_algorithm().mixed_precision.samples is None


@pytest.mark.parametrize(
    ("metric", "given", "ours", "rank_only"),
    [("sqnr", -30, 30, False), ("psnr", -20, 20, False), ("l2", 0.5, 0.5, False), ("l2", 0, None, False),
     ("l2", None, None, True)],
)  # fmt: skip
def test_thresholds_have_our_sign_and_0_means_none(metric, given, ours, rank_only):
    mixed = with_algorithm(metric_default=metric, metric_threshold=given).mixed_precision
    assert (mixed.threshold, mixed.rank_only) == (ours, rank_only)


def test_a_list_and_a_mapping_of_layer_configurations_are_several_forms():
    several = with_algorithm(target_layer_config=[INT8, INT16]).mixed_precision
    assert [form.weight.to_plain()["dtype"] for form in several.forms] == ["int8", "int16"]
    assert several.searches
    named = with_algorithm(target_layer_config={INT8: ["a", "b"], INT16: []}).mixed_precision
    assert [form.nodes for form in named.forms] == [("a", "b"), ()]
    assert not named.searches


def test_types_of_earlier_versions_keep_zero_points_where_the_preset_has_them():
    (form,) = older(ActTargetQuantType=QuantType.QInt8, WeightTargetQuantType=QuantType.QInt8).mixed_precision.forms
    assert form == LayerRule(
        activation=Change.of({"dtype": "int8", "symmetric": True}, ""),
        weight=Change.of({"dtype": "int8", "symmetric": True}, ""),
    )
    (form,) = scheme_of(get_default_config("S16S16_MIXED_S8S8")).mixed_precision.forms
    assert form.activation.to_plain() == {"dtype": "int8", "symmetric": False}


def test_biases_are_int32_or_as_weights():
    types = {"TargetQuantType": ExtendedQuantType.QInt16}
    (form,) = older(**types, BiasTargetQuantType=ExtendedQuantType.QInt32).mixed_precision.forms
    assert form.bias == "int32"
    with pytest.raises(quarkfast.UnsupportedError, match="expected QInt32 or QInt16 in this version, got QInt8"):
        older(**types, BiasTargetQuantType=QuantType.QInt8)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: older(TargetType=1), quarkfast.ConfigError, "expected a known key, got 'TargetType'; did you mean"),
        (lambda: older(), quarkfast.ConfigError, "expected TargetLayerConfig or ActTargetQuantType, got neither"),
        (lambda: with_algorithm(target_layer_config=None), quarkfast.ConfigError, "ActTargetQuantType, got neither"),
        (
            lambda: mixing_of([AutoMixprecisionConfig(), AutoMixprecisionConfig()]),
            quarkfast.ConfigError,
            "algorithms: expected one AutoMixprecision, got 2",
        ),
    ],
)
def test_what_makes_no_sense_meets_a_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()
