"""Settings of mixed precision: plain data in and out, and one sentence for each mistake."""

from __future__ import annotations

import json

import pytest

import quarkfast
from quarkfast.config import PRESETS, apply_options
from quarkfast.config.mixed_precision import MixedPrecision, read_mixed_precision

INT16 = {"activation": {"dtype": "int16"}, "weight": {"dtype": "int16"}}


def test_settings_survive_the_way_through_json():
    given = {
        "forms": [{"nodes": ["head*"], "weight": {"dtype": "int4"}}, INT16],
        "op_types": ["Conv"],
        "objective": "quality",
        "threshold": 30.0,
        "share": 0.5,
        "samples": None,
    }
    scheme = apply_options(PRESETS["A8W8"], {"mixed_precision": given})
    plain = json.loads(json.dumps(scheme.to_dict()))
    assert plain["mixed_precision"] == given
    assert quarkfast.Scheme.from_dict(plain) == scheme
    assert "mixed_precision" not in PRESETS["A8W8"].to_dict()


def test_activation_and_weight_are_one_form():
    settings = read_mixed_precision(INT16)
    assert settings == read_mixed_precision({"forms": [INT16]})
    assert read_mixed_precision(settings) is settings
    assert not settings.searches


@pytest.mark.parametrize("given", [{"threshold": 20}, {"share": 0.5}, {"rank_only": True}])
def test_outputs_decide_where_there_is_a_limit(given):
    assert read_mixed_precision(INT16 | given).searches


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected activation and weight, or forms, got neither"),
        ({**INT16, "forms": [INT16]}, "expected activation and weight, or forms, got both"),
        ({**INT16, "treshold": 1}, "got 'treshold'; did you mean 'threshold'"),
        ({"forms": []}, "forms: expected a list of mappings, got"),
        ({"forms": [{"bias": "float"}]}, "forms: expected activation or weight in each, got neither"),
        ({**INT16, "op_types": []}, "op_types: expected a list of operator types, got"),
        ({**INT16, "include": "a"}, "include: expected a list of strings, got 'a'"),
        ({**INT16, "exclude": [1]}, "exclude: expected a list of strings, got"),
        ({**INT16, "objective": "size"}, "objective: expected speed or quality, got 'size'"),
        ({**INT16, "metric": "l1"}, "metric: expected sqnr or psnr or l2 or kl or cosine, got 'l1'"),
        ({**INT16, "threshold": "20"}, "threshold: expected a number or None, got '20'"),
        ({**INT16, "output": -1}, "output: expected the index of an output or None, got -1"),
        ({**INT16, "share": 0}, "share: expected a number above 0 and at most 1, got 0"),
        ({**INT16, "share_of": "cycles"}, "share_of: expected layers or bytes or operations, got 'cycles'"),
        ({**INT16, "samples": 0}, "samples: expected a count or None, got 0"),
        ({**INT16, "own_inputs": 1}, "own_inputs: expected True or False, got 1"),
        ({**INT16, "rank_only": 1}, "rank_only: expected True or False, got 1"),
        ({"activation": {"dtype": "int17"}}, "layers or tensors: dtype: expected one of .*, got 'int17'"),
    ],
)
def test_a_wrong_setting_meets_a_sentence(given, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        quarkfast.quantize("missing.onnx", preset="A8W8", mixed_precision=given)


@pytest.mark.parametrize("preset", ["INT4_WO", "DYNAMIC"])
def test_activations_must_be_quantized_before_the_model_runs(preset):
    with pytest.raises(quarkfast.ConfigError, match=f"mixed_precision: expected a preset that .*, got {preset}"):
        apply_options(PRESETS[preset], {"mixed_precision": INT16})


def test_the_settings_are_frozen_and_hashable():
    settings = read_mixed_precision(INT16)
    assert isinstance(settings, MixedPrecision)
    assert hash(settings) == hash(read_mixed_precision(INT16))
