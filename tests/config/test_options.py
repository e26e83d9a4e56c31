from __future__ import annotations

import dataclasses

import pytest

from quarkfast.config import OPTIONS, PRESETS, Scheme, find_preset, resolve
from quarkfast.errors import ConfigError


def test_presets_are_found_in_any_case():
    assert find_preset("a8w8") is PRESETS["A8W8"]


def test_an_unknown_preset_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"preset: expected one of A8W8, .*, got 'A8W9'; did you mean 'A8W8'\?"):
        find_preset("A8W9")


def test_a_preset_that_is_no_name_is_an_error():
    with pytest.raises(ConfigError, match="preset: expected a name or a Scheme, got int"):
        resolve(8, {})  # type: ignore[arg-type]


def test_presets_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PRESETS["A8W8"].samples = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["A8W8"] = PRESETS["BF16"]  # type: ignore[index]


def test_an_unknown_option_is_an_error_with_a_suggestion():
    with pytest.raises(
        ConfigError, match=r"option: expected a known name, got 'per_chanel'; did you mean 'per_channel'\?"
    ):
        resolve("A8W8", {"per_chanel": True})


def test_an_option_of_the_wrong_kind_is_an_error():
    with pytest.raises(ConfigError, match="option per_channel: expected True or False, got 1"):
        resolve("A8W8", {"per_channel": 1})


def test_an_option_under_both_its_names_is_an_error():
    with pytest.raises(ConfigError, match="option: expected per_channel once, got 'per_channel' and 'PerChannel'"):
        resolve("A8W8", {"per_channel": True, "PerChannel": False})


def test_casts_for_integers_are_an_error():
    with pytest.raises(ConfigError, match="bf16_qdq_to_cast: expected activations of 8- or 16-bit floats, got int8"):
        resolve("A8W8", {"bf16_qdq_to_cast": True})


def test_an_asymmetric_float_is_an_error():
    with pytest.raises(ConfigError, match="activation_symmetric: expected True for bfloat16, got False"):
        resolve("BF16", {"activation_symmetric": False})


@pytest.mark.parametrize("option", [each for each in OPTIONS.values() if each.quark_key], ids=lambda each: each.name)
def test_quarks_key_means_the_same_as_the_option(option):
    value = {"True or False": True, "an integer greater than 0": 5}.get(option.expects, ["Conv"])
    preset = "A8W8" if option.name in ("per_channel", "reduce_range") else "BF16"
    assert resolve(preset, {option.name: value}) == resolve(preset, {option.quark_key: value})


def test_options_do_not_leak_into_the_preset():
    before = dataclasses.asdict(PRESETS["A8W8"])
    assert resolve("A8W8", {"per_channel": True, "exclude": ["a"]}) != PRESETS["A8W8"]
    assert dataclasses.asdict(PRESETS["A8W8"]) == before


def test_a_scheme_is_taken_as_a_preset():
    scheme = dataclasses.replace(PRESETS["A8W8"], name="mine")
    assert isinstance(resolve(scheme, {"samples": 3}), Scheme)
    assert resolve(scheme, {"samples": 3}).name == "mine"
