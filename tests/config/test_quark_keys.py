"""Quark's option keys: what equals its default asks for nothing, and what cannot be honoured is refused."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.config.options.kinds import NAME, Kind
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.config.quark.keys import KEYS, holds
from quarkfast.errors import ConfigError, UnsupportedError
from support.quark_values import HONOURED

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
    if not isinstance(values, Kind):
        return values
    single = {int: (1, 3), str: ("a", "b")}[values.word]
    return (list(single),) if values.many else single


def accepted(key, family):
    """The values of a key that ask for nothing in a family."""
    return [value for values in KEYS[key].accepted(family) for value in values_of(values)]


ACCEPTED = [key for key in KEYS if any(accepted(key, family) for family in FAMILIES)]
SWITCHED = ("True", "False", "True, False", "")
REFUSED = [key for key, row in KEYS.items() if row.honoured in SWITCHED]


def scheme(preset: str, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


@pytest.mark.parametrize("key", ACCEPTED)
def test_what_asks_for_nothing_is_as_if_it_were_left_out(key):
    for family, preset in FAMILIES.items():
        for value in accepted(key, family):
            assert scheme(preset, **{key: value}) == scheme(preset), (family, value)


@pytest.mark.parametrize("key", [key for key, row in KEYS.items() if row.noted != ()])
def test_what_is_noted_is_as_if_it_were_left_out(key):
    for value in values_of(KEYS[key].noted):
        assert scheme("A8W8", **{key: value}) == scheme("A8W8")


@pytest.mark.parametrize("key", REFUSED)
def test_any_other_value_is_refused(key):
    other = 0.5 if KEYS[key].noted is NAME or KEYS[key].already is NAME else "another"
    for preset in FAMILIES.values():
        with pytest.raises((ConfigError, UnsupportedError), match=f"option {key}: expected .* got {other!r}"):
            scheme(preset, **{key: other})


# What `quarkfast.config.quark.plain` reads for the quantizer: tests/compat/test_quark_data.py.
OF_DATA = {
    *("ConvertFP16ToFP32", "ConvertNCHWToNHWC", "RandomDataReaderInputDataRange", "RandomDataReaderInputShape"),
    *("SaveAndRestore", "UseRandomData"),
}
# What stands beside a field: tests/algorithms/test_hadamard_rotation.py and test_smooth_quant.py.
OF_FIELDS = {"UseRandomHad", "SmoothAlpha"}


def test_every_honoured_key_has_a_value_that_shows_it():
    assert set(HONOURED) | OF_DATA | OF_FIELDS == {key for key, row in KEYS.items() if holds(row) == "honoured"}


@pytest.mark.parametrize("key", HONOURED)
def test_a_value_that_is_honoured_changes_the_scheme(key):
    preset, value, beside = HONOURED[key]
    without = {} if key == "MixedPrecisionTensor" or "MixedPrecisionTensor" in beside else beside
    assert scheme(preset, **beside, **{key: value}) != scheme(preset, **without)


# What Quark has by default for keys that are options of quarkfast, whatever the family.
DEFAULTS = {
    **{key: [] for key in ("InputNodes", "OutputNodes", "NodesToQuantize", "OpTypesToQuantize")},
    **{key: [] for key in ("ExtraOpTypesToQuantize", "NodesToExcludeOutputQuantization")},
    "OpTypesToExcludeOutputQuantization": [],
    **{key: {} for key in ("TensorQuantOverrides", "FastFinetune", "AutoMixprecision", "GPTQParams")},
    "MatMulNBitsParams": {},
    **dict.fromkeys(("ActivationScaled", "WeightScaled", "CalibMovingAverage", "BiasCorrection"), False),
    **dict.fromkeys(("CalibDataSize", "CalibTensorRangeSymmetric"), None),
    "LWPMetric": "mae",
    "NumBins": 2048,
    "NumQuantizedBins": 128,
    "Percentile": 99.999,
    "PercentileCandidates": [99.99, 99.999, 99.99999],
    "Scenario": "same",
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_what_quark_has_by_default_is_never_refused(key):
    for preset in FAMILIES.values():
        scheme(preset, **{key: DEFAULTS[key]})


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
