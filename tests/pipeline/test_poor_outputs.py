"""Output bias correction that nobody asked for, where outputs are poor and gain by it."""

from __future__ import annotations

import pytest

import quarkfast
from quarkfast.errors import ModelError
from support.shifted_means import CUT, model, ratio, x

ADDED = "output bias correction was added, for output 'y' had "


def quantized(data=None, **options):
    given = x(40) if data is None else data
    return quarkfast.quantize(model(), **({"preset": "A8W8", "calibration_data": given} | CUT | options))


def is_added(result):
    return any(note.startswith(ADDED) for note in result.summary.notes)


@pytest.fixture
def easily(monkeypatch):
    """Takes what helps a little: outputs have 4.6 dB without it and 5.6 with it."""
    monkeypatch.setitem(CUT, "policy", {"poor_bias_gain": 0.1, "poor_bias_least": 5.0})


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_poor_outputs_get_it_without_an_option(preset, tmp_path):
    left, asked = (quantized(preset=preset, output_bias_correction=on) for on in (False, True))
    result = quantized(preset=preset, output=tmp_path / "q.onnx")
    assert is_added(result)
    assert result.model_bytes == asked.model_bytes == (tmp_path / "q.onnx").read_bytes()
    assert ratio(result) > ratio(left) + 0.5
    assert [note for note in result.summary.notes if note.startswith(f"{ADDED}{left.summary.outputs[0][1]:.1f} dB")]
    assert result.summary.outputs == asked.summary.outputs
    assert not is_added(asked)


@pytest.mark.usefixtures("easily")
def test_so_do_those_of_shifted_activations():
    left, asked = (quantized(shift_activations=True, output_bias_correction=on) for on in (False, True))
    result = quantized(shift_activations=True)
    assert any(note.startswith("activation shifting: ") for note in result.summary.notes)
    assert is_added(result)
    assert result.model_bytes == asked.model_bytes
    assert ratio(result) > ratio(left)


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize("tried", [True, False])
def test_progress_tells_of_its_layers_where_it_is_tried(tried):
    heard = []
    result = quantized(progress=lambda *event: heard.append(event), **({} if tried else {"strict": True}))
    told = [event for event in heard if event[0] == "round"]
    assert told[1:] == [("round", done, 7) for done in range(1, 8) if tried]
    assert ("round" in result.summary.seconds) == bool(told) == tried


@pytest.mark.usefixtures("easily")
def test_the_summary_is_that_of_one_quantization():
    asked, result = quantized(output_bias_correction=True), quantized()
    others = [note for note in result.summary.notes if not note.startswith(ADDED)]
    assert others == list(asked.summary.notes)
    assert list(result.summary.records.tensors) == list(asked.summary.records.tensors)
    assert result.summary.records.nodes == asked.summary.records.nodes


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize(
    "options",
    [
        {"strict": True},
        {"bias_correction": False},
        {"output_bias_correction": False},
        {"rounding": "descent"},
        {"bias": "float"},
        {"min_sqnr": 0.0},
    ],
)
def test_options_leave_it_out(options):
    assert not is_added(quantized(**options))


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize("data", ["random", x(7)], ids=["random", "7"])
def test_samples_judge_nothing_that_are_random_or_few(data):
    assert not is_added(quantized(data))


@pytest.mark.usefixtures("easily")
def test_a_model_that_does_not_run_in_parts_stays(monkeypatch):
    def fails(*_, **__):
        raise ModelError("no")

    monkeypatch.setattr("quarkfast.algorithms.output_bias_correction.go_through", fails)
    result, left = quantized(), quantized(output_bias_correction=False)
    assert result.model_bytes == left.model_bytes
    assert result.summary.notes == left.summary.notes


@pytest.mark.usefixtures("easily")
def test_few_batches_judge_nothing():
    """A model of a fixed batch is run on whole ones, which here are three of eight rows."""
    proto = model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    assert not is_added(quarkfast.quantize(proto, preset="A8W8", calibration_data=x(24), **CUT))


@pytest.mark.usefixtures("easily")
@pytest.mark.parametrize(
    ("limit", "value"), [("poor_bias_gain", 1000.0), ("poor_bias_least", 1000.0), ("poor_bias_sqnr", 0.0)]
)
def test_models_stay_that_gain_too_little_or_have_too_little_or_enough(limit, value, monkeypatch, tmp_path):
    monkeypatch.setitem(CUT, "policy", CUT["policy"] | {limit: value})
    result, left = quantized(output=tmp_path / "q.onnx"), quantized(output_bias_correction=False)
    assert not is_added(result)
    assert result.model_bytes == left.model_bytes == (tmp_path / "q.onnx").read_bytes()
    assert result.summary.notes == left.summary.notes


@pytest.mark.usefixtures("easily")
def test_the_same_samples_give_the_same_bytes_however_they_come():
    whole = quantized()
    assert is_added(whole)
    rows = [{"x": row[None]} for row in x(40)]
    for data in (rows, iter(rows)):
        assert quantized(data).model_bytes == whole.model_bytes


@pytest.mark.usefixtures("easily")
def test_a_model_of_two_files_stays(monkeypatch, tmp_path):
    monkeypatch.setattr("quarkfast.pipeline.quantization_steps.needs_data_file", lambda model: True)
    assert not is_added(quantized(output=tmp_path / "q.onnx"))
