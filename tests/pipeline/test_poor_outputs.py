"""Output bias correction that nobody asked for, where outputs are poor and gain by it."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.pipeline import poor_outputs
from support.shifted_means import CUT, model, ratio, x

ADDED = "output bias correction was added, for output 'y' had "


def quantized(data=None, **options):
    given = x(40) if data is None else data
    return quarkfast.quantize(model(), preset="A8W8", calibration_data=given, **(CUT | options))


def is_added(result):
    return any(note.startswith(ADDED) for note in result.summary.notes)


@pytest.fixture
def easily(monkeypatch):
    """Takes what helps a little: samples held apart have 4.6 dB without it and 5.6 with it."""
    monkeypatch.setattr(poor_outputs, "_GAIN_OF_BIASES", 0.1)
    monkeypatch.setattr(poor_outputs, "_LEAST_WITH_BIASES", 5.0)


@pytest.mark.usefixtures("easily")
def test_poor_outputs_get_it_without_an_option(tmp_path):
    plain, asked = quantized(strict=True), quantized(output_bias_correction=True)
    result = quantized(output=tmp_path / "q.onnx")
    assert is_added(result)
    assert plain.summary.outputs[0][1] < 12
    assert result.model_bytes == asked.model_bytes == (tmp_path / "q.onnx").read_bytes()
    assert ratio(result) > ratio(plain) + 0.5
    assert not is_added(asked)


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize(
    "options",
    [{"strict": True}, {"bias_correction": False}, {"output_bias_correction": False}, {"rounding": "descent"}],
)
def test_options_leave_it_out(options):
    assert not is_added(quantized(**options))


@pytest.mark.usefixtures("easily")
def test_samples_that_can_be_read_once_judge_nothing():
    result = quantized({"x": row[None]} for row in x(40))
    assert result.summary.outputs[0][1] < 12
    assert not is_added(result)


@pytest.mark.usefixtures("easily")
def test_few_samples_judge_nothing():
    assert not is_added(quantized(x(7)))


@pytest.mark.parametrize(("limit", "value"), [("_GAIN_OF_BIASES", 1000.0), ("_LEAST_WITH_BIASES", 6.0), ("POOR", 0.0)])
@pytest.mark.usefixtures("easily")
def test_models_stay_that_gain_too_little_or_have_too_little_or_enough(limit, value, monkeypatch, tmp_path):
    monkeypatch.setattr(poor_outputs, limit, value)
    result = quantized(output=tmp_path / "q.onnx")
    assert not is_added(result)
    monkeypatch.setattr(poor_outputs, "POOR", 0.0)
    plain = quantized()
    assert result.model_bytes == plain.model_bytes == (tmp_path / "q.onnx").read_bytes()


@pytest.mark.usefixtures("easily")
def test_the_same_samples_give_the_same_bytes_however_they_come():
    whole = quantized()
    assert is_added(whole)
    rows = [{"x": row[None]} for row in x(40)]
    assert quantized(rows).model_bytes == whole.model_bytes


@pytest.mark.usefixtures("easily")
def test_presets_without_such_biases_stay():
    assert not is_added(quantized(bias="float"))


@pytest.mark.usefixtures("easily")
def test_what_was_added_before_is_told_too(monkeypatch):
    monkeypatch.setattr(poor_outputs, "_equalized", lambda job, made, path: made.noting("equalization was added"))
    result = quantized()
    assert result.summary.notes[-2] == "equalization was added"
    assert result.summary.notes[-1].startswith(ADDED)
