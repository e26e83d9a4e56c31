from __future__ import annotations

import dataclasses
import json

import pytest

from quarkfast import CalibMethod, ExtendedCalibrationMethod
from quarkfast.config import OPTIONS, PRESETS, Scheme, find_preset, scheme_from
from quarkfast.errors import ConfigError
from quarkfast.ranges.registry import METHODS, PARAMETERS


def test_presets_are_found_in_any_case():
    assert find_preset("a8w8") is PRESETS["A8W8"]


def test_an_unknown_preset_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"preset: expected one of A8W8, .*, got 'A8W9'; did you mean 'A8W8'\?"):
        find_preset("A8W9")


def test_a_preset_that_is_no_name_is_an_error():
    with pytest.raises(ConfigError, match="preset: expected a name or a Scheme, got int"):
        scheme_from(8, {})  # type: ignore[arg-type]


def test_presets_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["A8W8"].samples = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["A8W8"] = PRESETS["BF16"]  # type: ignore[index]


def test_an_unknown_option_is_an_error_with_a_suggestion():
    with pytest.raises(
        ConfigError, match=r"option: expected a known name, got 'per_chanel'; did you mean 'per_channel'\?"
    ):
        scheme_from("A8W8", {"per_chanel": True})


def test_an_option_of_the_wrong_kind_is_an_error():
    with pytest.raises(ConfigError, match="option per_channel: expected True or False, got 1"):
        scheme_from("A8W8", {"per_channel": 1})


def test_an_option_under_both_its_names_is_an_error():
    with pytest.raises(ConfigError, match="option: expected per_channel once, got 'per_channel' and 'PerChannel'"):
        scheme_from("A8W8", {"per_channel": True, "PerChannel": False})


def test_casts_for_integers_are_an_error():
    with pytest.raises(ConfigError, match="bf16_qdq_to_cast: expected activations of 8- or 16-bit floats, got int8"):
        scheme_from("A8W8", {"bf16_qdq_to_cast": True})


def test_an_asymmetric_float_is_an_error():
    with pytest.raises(ConfigError, match="activation_symmetric: expected True for bfloat16, got False"):
        scheme_from("BF16", {"activation_symmetric": False})


@pytest.mark.parametrize("option", [each for each in OPTIONS.values() if each.quark_key], ids=lambda each: each.name)
def test_quarks_key_means_the_same_as_the_option(option):
    kinds = {"True or False": True, "an integer greater than 0": 5, "a list of strings": ["Conv"]}
    value = _VALUES.get(option.name, kinds.get(option.kind.expects))
    preset = "BF16" if option.name in _OF_FLOATS else "U8S8"
    names = {row.option or name: name for name, row in PARAMETERS.items()}
    readers = [row.name for row in METHODS.values() if names.get(option.name) in row.parameters]
    beside = {"method": readers[0]} if readers else {}
    assert scheme_from(preset, {**beside, option.name: value}) == scheme_from(
        preset, {**beside, option.quark_key: value}
    )


_OF_FLOATS = ("activation_scaled", "weight_scaled", "bf16_qdq_to_cast", "bf16_with_clip", "vaiml")
_VALUES = {
    "shapes": "x:[1,3,8,8]",
    "method": "Entropy",
    "weight_method": "MinMSE",
    "percentile": 99.9,
    "bins": 2048,
    "fuse": [["Mul", "Add"]],
    "percentiles": [99.0, 99.9],
    "percentile_metric": "mse",
    "scenario": "p3",
    "exclude": ["Conv"],
    "tensors": {"x": {"dtype": "int16"}},
}


@pytest.mark.parametrize(
    "given", ["layerwise_percentile", "LayerWisePercentile", "LAYERWISEPERCENTILE", CalibMethod.LayerwisePercentile]
)
def test_a_method_is_found_by_any_spelling_of_its_name(given):
    assert scheme_from("A8W8", {"method": given}).activation.method == "layerwise_percentile"
    assert scheme_from("A8W8", {"weight_method": ExtendedCalibrationMethod.MinMSE}).weight.method == "minmse"


def test_parameters_of_a_method_reach_the_activations():
    spec = scheme_from("U8S8", {"method": "entropy", "NumBins": 128, "NumQuantizedBins": 64}).activation
    assert (spec.method, spec.bins, spec.levels) == ("entropy", 128, 64)
    spec = scheme_from("U8S8", {"method": "percentile", "CalibTensorRangeSymmetric": True, "NumBins": 2048}).activation
    assert (spec.bins, spec.range_symmetric, spec.mirrored, spec.symmetric) == (None, True, True, False)
    assert scheme_from(
        "U8S8", {"method": "LayerWisePercentile", "PercentileCandidates": [99, 99.9]}
    ).activation.percentiles == (99, 99.9)
    assert scheme_from("U8S8", {"CalibMovingAverage": True}).activation.method == "moving_average"
    assert scheme_from("U8S8", {"CalibMovingAverage": False}) == PRESETS["U8S8"]


def test_parameters_that_no_method_reads_are_refused_unless_they_are_what_all_have():
    assert scheme_from("A8W8", {row.option or row.name: row.unread for row in PARAMETERS.values()}) == PRESETS["A8W8"]
    with pytest.raises(ConfigError, match=r"percentile: expected 99\.999 beside minmax, which reads no other, got"):
        scheme_from("A8W8", {"percentile": 99.9})
    layers = [{"op_types": ["Conv"], "activation": {"method": "percentile"}}]
    assert scheme_from("A8W8", {"percentile": 99.9, "layers": layers}).activation.percentile == 99.9
    with pytest.raises(ConfigError, match="percentile: expected a preset that quantizes activations before the model"):
        scheme_from("DYNAMIC", {"percentile": 99.9})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "minmsee"}, "method: expected one of minmax, .*, got 'minmsee'; did you mean 'minmse'"),
        ({"method": 3}, "option method: expected the name of a method, got 3"),
        ({"percentile": 0}, "percentile: expected percents above 0 and up to 100, got 0"),
        ({"percentile": True}, "option percentile: expected a number, got True"),
        ({"percentiles": [99.0, 101.0]}, "percentiles: expected percents above 0 and up to 100, got 101.0"),
        ({"percentiles": []}, "percentiles: expected at least one, got none"),
        ({"percentiles": 3.0}, "option percentiles: expected a list of numbers, got 3.0"),
        ({"percentile_metric": "rms"}, "percentile_metric: expected one of mae, mse, got 'rms'"),
        ({"scenario": "p2"}, "scenario: expected one of same, p3, got 'p2'"),
        ({"levels": 1}, "levels: expected 2 to 2048, got 1"),
        ({"method": "entropy", "bins": 100}, "bins: expected a power of two from 128 to 4096, got 100"),
        ({"bins": 4096}, "bins: expected 2048 beside minmax, which reads no other, got 4096; leave it out"),
        (
            {"method": "entropy", "bins": 128, "levels": 256},
            r"levels: expected at most as many as bins \(128\), got 256",
        ),
        (
            {"method": "entropy", "moving_average": True},
            "moving_average: expected False for method entropy, got True; it goes with minmax",
        ),
    ],
    ids=str,
)
def test_a_method_that_does_not_fit_is_one_sentence(options, message):
    with pytest.raises(ConfigError, match=message):
        scheme_from("A8W8", options)


def test_a_method_for_a_type_without_a_scale_is_an_error():
    with pytest.raises(ConfigError, match=r"method: expected a type with a scale, got bfloat16 \(activation\); leave"):
        scheme_from("BF16", {"method": "percentile"})


def test_a_method_that_needs_integers_is_an_error_for_floats():
    message = r"method: expected minmax, .* or distribution for bfloat16 \(activation\), got minmse"
    with pytest.raises(ConfigError, match=message):
        scheme_from("BF16", {"activation_scaled": True, "method": "minmse"})
    assert scheme_from("BF16", {"activation_scaled": True, "method": "percentile"}).activation.method == "percentile"


def test_options_do_not_leak_into_the_preset():
    before = dataclasses.asdict(PRESETS["A8W8"])
    assert scheme_from("A8W8", {"per_channel": True, "exclude": ["a"]}) != PRESETS["A8W8"]
    assert dataclasses.asdict(PRESETS["A8W8"]) == before


def test_a_scheme_is_taken_as_a_preset():
    scheme = dataclasses.replace(PRESETS["A8W8"], name="mine")
    assert isinstance(scheme_from(scheme, {"samples": 3}), Scheme)
    assert scheme_from(scheme, {"samples": 3}).name == "mine"


def test_one_scale_for_all_weights_is_that_of_least_error_and_one_a_channel_covers_its_extremes():
    assert scheme_from("A8W8", {}).weight.method == "minmse"
    assert scheme_from("A8W8", {"per_channel": True}).weight.method == "minmax"
    assert scheme_from("A8W8", {"per_channel": True, "weight_method": "minmse"}).weight.method == "minmse"
    assert scheme_from("U8S8", {"weight_method": "minmax"}).weight.method == "minmax"


def test_a_range_of_the_users_own_leaves_the_channels_as_they_are():
    assert scheme_from("A8W8", {}).equalize
    assert scheme_from("A8W8", {"tensors": {"r1": {"dtype": "int16"}}}).equalize
    assert not scheme_from("A8W8", {"tensors": {"r1": {"range": [0, 1]}}}).equalize
    assert not scheme_from("A8W8", {"tensors": {"r1": {"scale_value": 0.5}}}).equalize


def test_weights_alone_are_not_equalized():
    message = "equalize: expected a preset that quantizes activations, got INT8_WO; leave it out"
    with pytest.raises(ConfigError, match=message):
        scheme_from("INT8_WO", {"equalize": True})
    assert not scheme_from("INT8_WO", {"equalize": False}).equalize


def test_settings_of_equalization_turn_it_on_and_are_kept():
    scheme = scheme_from("A8W8", {"equalize_options": {"cle_steps": 3, "cle_scale_append_bias": True}})
    assert scheme.equalize
    assert dict(scheme.equalize_options) == {"cle_steps": 3, "cle_scale_append_bias": True}
    assert Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme
    assert "equalize_options" not in scheme_from("A8W8", {}).to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cle_step": 1}, "equalization: expected cle_steps, .*, got 'cle_step'; did you mean 'cle_steps'"),
        ({"cle_steps": 0}, "cle_steps: expected a count, or -1 for as many as change something, got 0"),
        ({"cle_weight_threshold": -1}, "cle_weight_threshold: expected a number of 0 or more, got -1"),
        ({"cle_scale_append_bias": 1}, "cle_scale_append_bias: expected True or False, got 1"),
        ({"largest_factor": 0.5}, "largest_factor: expected a number of 1 or more, got 0.5"),
    ],
)
def test_settings_of_equalization_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        scheme_from("A8W8", {"equalize_options": settings})


def test_damping_is_kept_beside_a_rounding():
    scheme = scheme_from("A8W8", {"rounding_damping": 1, "rounding": "descent"})
    assert scheme.rounding_options == (("damping", 1.0),)
    assert Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounding_damping": 1.0}, "rounding_damping: expected another rounding than nearest beside it"),
        ({"rounding": "gptq", "rounding_damping": -1}, "rounding_damping: expected a number from 0 up, got -1"),
        (
            {"rounding": "gptq", "rounding_damping": float("inf")},
            "rounding_damping: expected a number from 0 up, got inf",
        ),
        (
            {"rounding": "gptq", "rounding_damping": float("nan")},
            "rounding_damping: expected a number from 0 up, got nan",
        ),
        ({"rounding": "gptq", "rounding_damping": "much"}, "rounding_damping: expected a number, got 'much'"),
    ],
)
def test_damping_is_checked(options, message):
    with pytest.raises(ConfigError, match=message):
        scheme_from("A8W8", options)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("perchannel", "per_channel"),
        ("PerChanel", "PerChannel"),
        ("calibrate_metod", "method"),
        ("Percentil", "Percentile"),
    ],
)
def test_the_suggestion_is_quarks_name_for_capitals_alone(given, meant):
    with pytest.raises(ConfigError, match=f"got '{given}'; did you mean '{meant}'"):
        scheme_from("A8W8", {given: True})
