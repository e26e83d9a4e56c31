"""The rows of range methods: what one more costs, and that options and specs know the same parameters."""

from __future__ import annotations

import dataclasses

import pytest

import quarkfast
from quarkfast.config import OPTIONS, TensorSpec
from quarkfast.demo.data import MODEL, load_images
from quarkfast.errors import ConfigError
from quarkfast.ranges import registry
from quarkfast.ranges.registry import METHODS, PARAMETERS, RangeMethod
from quarkfast.ranges.summary import ClippingRange, RangeSpec, TensorSummary


def half(summary: TensorSummary, spec: RangeSpec) -> ClippingRange:
    """Half of the extremes."""
    return summary.range.min / 2, summary.range.max / 2


@pytest.fixture
def added(monkeypatch):
    row = RangeMethod(name="half", module=__name__, range="half of the extremes", needs_histogram=False)
    monkeypatch.setitem(registry._BY_NAME, row.name, row)


@pytest.mark.usefixtures("added")
def test_a_range_method_is_a_function_and_a_row():
    images = load_images().calibration[:16]
    seen = quarkfast.calibrate(MODEL, images)
    for option in ("method", "weight_method"):
        whole, halved = (
            quarkfast.quantize(MODEL, preset="U8S8", calibration=seen, **{option: name}) for name in ("minmax", "Half")
        )
        assert whole.model_bytes != halved.model_bytes
    with pytest.raises(ConfigError, match=r"method: expected one of minmax, .*, auto, half, got 'halv'; did you mean"):
        quarkfast.quantize(MODEL, calibration=seen, method="halv")
    with pytest.raises(ConfigError, match=r"for bfloat16 \(activation\), got half"):
        quarkfast.quantize(MODEL, preset="BF16", calibration=seen, activation_scaled=True, method="half")


def test_a_spec_has_a_field_for_each_parameter_and_there_is_an_option_for_it():
    fields = {field.name: field.default for field in dataclasses.fields(TensorSpec)}
    for name, parameter in PARAMETERS.items():
        assert fields[name] == parameter.default
        assert OPTIONS[parameter.option or name].quark_key == parameter.quark_key


@pytest.mark.parametrize("method", METHODS)
def test_a_method_reads_parameters_that_there_are(method):
    assert set(METHODS[method].parameters) <= set(PARAMETERS)
    assert callable(METHODS[method].estimate)
