"""The policy: thresholds of accuracy, replaced by users."""

from __future__ import annotations

import dataclasses
import json

import pytest

import quarkfast
from quarkfast.config import POLICY, Policy, Scheme, find_preset, scheme_from, thresholds
from quarkfast.errors import ConfigError
from support.tiny_models import conv_relu_model, samples


def test_a_policy_cannot_be_changed_and_is_replaced():
    with pytest.raises(dataclasses.FrozenInstanceError):
        POLICY.bias_samples = 9  # type: ignore[misc]
    assert dataclasses.replace(POLICY, bias_samples=9) == Policy(bias_samples=9) != POLICY == Policy()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bias_samples": 2.5}, "bias_samples: expected a whole number of 1 or more, got 2.5"),
        ({"bias_samples": 0}, "bias_samples: expected a whole number of 1 or more, got 0"),
        ({"bias_samples": True}, "bias_samples: expected a whole number of 1 or more, got True"),
        ({"apart_one_in": 0}, "apart_one_in: expected a whole number of 1 or more, got 0"),
        ({"tried_bytes": -1}, "tried_bytes: expected a whole number of 0 or more, got -1"),
        ({"split_share": 1.5}, "split_share: expected a number from 0 to 1, got 1.5"),
        ({"kinds_certainty": float("nan")}, "kinds_certainty: expected a number of 0 or more, got nan"),
        ({"apart_loss": "much"}, "apart_loss: expected a number, got 'much'"),
        ({"apart_los": 1.0}, "expected known thresholds, got 'apart_los'; did you mean 'apart_loss'?"),
    ],
)
def test_nonsense_is_one_sentence(given, expected):
    with pytest.raises(ConfigError) as error:
        scheme_from("A8W8", {"policy": given})
    assert str(error.value) == f"policy: {expected}"


def test_a_policy_of_another_kind_is_an_error():
    with pytest.raises(ConfigError, match="option policy: expected a Policy or a mapping from names of thresholds"):
        scheme_from("A8W8", {"policy": 3})


def test_a_scheme_in_json_has_the_thresholds_that_differ():
    assert "policy" not in find_preset("A8W8").to_dict()
    scheme = scheme_from("A8W8", {"policy": {"apart_loss": 1.0}})
    plain = json.loads(json.dumps(scheme.to_dict()))
    assert plain["policy"] == {"apart_loss": 1.0}
    assert Scheme.from_dict(plain) == scheme


def test_each_threshold_says_its_unit_and_what_it_is_for():
    for row in thresholds(POLICY):
        assert row.unit, row.name
        assert len(row.purpose.split()) > 2, row.name
        assert not row.purpose.endswith("."), row.name


def test_a_policy_decides_as_an_option_and_as_a_field_of_the_scheme():
    data, policy = samples(16), Policy(tried_bytes=0)
    plain, option = (
        quarkfast.quantize(conv_relu_model(), calibration_data=data, **each) for each in ({}, {"policy": policy})
    )
    scheme = dataclasses.replace(quarkfast.PRESETS["A8W8"], policy=policy)
    field = quarkfast.quantize(conv_relu_model(), preset=scheme, calibration_data=data)
    assert option.model_bytes == field.model_bytes
    assert any("bias correction" in note for note in plain.summary.notes)
    assert not any("bias correction" in note for note in option.summary.notes)
