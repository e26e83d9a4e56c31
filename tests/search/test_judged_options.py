"""Options that rewrite the float model: judged on samples held apart, and left out where outputs are worse for them."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.errors import CalibrationError, ModelError
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from support.tiny_models import tiny_model

WIDTH = 32
TEXT = f"""g (float[N, {WIDTH}] x) => (float[N, {WIDTH}] y) {{
    n = LayerNormalization (x, gain, offset)
    y = MatMul (n, w)
}}"""
LEFT_OUT = "SmoothQuant was left out, for it made the model worse: on "


def _model(reach):
    """One channel of what the product reads reaches further than the others."""
    weight, gain = np.random.default_rng(3).normal(size=(WIDTH, WIDTH)), np.ones(WIDTH)
    gain[0] = reach
    arrays = {"w": weight, "gain": gain, "offset": np.zeros(WIDTH)}
    return tiny_model(TEXT, {name: array.astype(np.float32) for name, array in arrays.items()}, 17)


def _x(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)


@pytest.fixture
def judged(monkeypatch):
    """A model whose channels are alike, where SmoothQuant makes one eight times as wide, and believes in it."""
    name = "quarkfast.algorithms.smooth_quant"
    monkeypatch.setattr(f"{name}._factors", lambda absmax, *_: np.r_[1 / 8, np.ones(absmax.size - 1)])
    monkeypatch.setattr(f"{name}._expected_noise", lambda maxima, *_: -float(maxima.max()))
    return _model(1.0)


def _notes(result):
    return [each for each in result.summary.notes if each.startswith(LEFT_OUT)]


def test_an_option_by_which_outputs_are_worse_is_left_out_and_a_note_says_so(judged):
    options = {"preset": "A8W8", "equalize": False}
    plain = quarkfast.quantize(judged, calibration_data=_x(32), **options)
    smooth = quarkfast.quantize(judged, calibration_data=_x(32), smooth_alpha=0.5, **options)
    (note,) = _notes(smooth)
    assert "on 8 samples held apart" in note
    assert note.endswith("strict=True keeps it")
    assert smooth.model_bytes == plain.model_bytes


@pytest.mark.parametrize(
    ("data", "options"), [(_x(32), {"strict": True}), (_x(3), {}), ("random", {})], ids=["strict", "few", "random"]
)
def test_what_is_not_judged_stays(judged, data, options):
    result = quarkfast.quantize(judged, None, "A8W8", data, smooth_alpha=0.5, **options)
    assert not _notes(result)


def test_an_option_by_which_outputs_gain_stays():
    model, given = _model(20.0), {"preset": "A8W8", "equalize": False, "calibration_data": _x(32)}
    smooth = quarkfast.quantize(model, smooth_alpha=0.7, **given)
    assert not _notes(smooth)
    assert any(each.startswith("SmoothQuant: 1 of 1 tensors") for each in smooth.summary.notes)
    assert smooth.model_bytes != quarkfast.quantize(model, **given).model_bytes


def test_samples_that_come_once_serve_for_all_of_it(judged):
    from_array = quarkfast.quantize(judged, None, "A8W8", _x(32), smooth_alpha=0.5)
    once = quarkfast.quantize(judged, None, "A8W8", ({"x": row[None]} for row in _x(32)), smooth_alpha=0.5)
    assert once.model_bytes == from_array.model_bytes


def test_the_model_and_its_file_are_left_as_they_were(judged, tmp_path):
    path, before = tmp_path / "model.onnx", judged.SerializeToString()
    path.write_bytes(before)
    quarkfast.quantize(path, tmp_path / "out.onnx", "A8W8", _x(32), smooth_alpha=0.5)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"model.onnx", "out.onnx"}


def test_wrong_samples_leave_nothing_behind(judged, tmp_path):
    with pytest.raises(CalibrationError):
        quarkfast.quantize(judged, tmp_path / "out.onnx", "A8W8", _x(32)[:, 1:], smooth_alpha=0.5)
    with pytest.raises(ModelError):
        quarkfast.quantize(tmp_path / "none.onnx", tmp_path / "out.onnx", "A8W8", _x(32), smooth_alpha=0.5)
    assert not list(tmp_path.iterdir())


def test_large_models_are_not_judged(judged):
    proto, given = to_proto(load_model(judged)), {"policy": {"judged_bytes": 16}}
    result = quarkfast.quantize(proto, None, "A8W8", _x(32), smooth_alpha=0.5, **given)
    assert not _notes(result)
