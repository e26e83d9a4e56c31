"""Both models are timed in turn on one sample, and what they ran on is told."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import CalibrationError
from support.tiny_models import conv_relu_model, samples


@pytest.fixture
def models(tmp_path):
    onnx.save(conv_relu_model(), tmp_path / "float.onnx")
    quarkfast.quantize(tmp_path / "float.onnx", tmp_path / "q.onnx", calibration_data=samples())
    return tmp_path / "float.onnx", tmp_path / "q.onnx"


def test_both_models_run_as_often_on_one_row(models, monkeypatch):
    from quarkfast import ort

    ran: list[tuple[int, int]] = []
    run = ort.run

    def counted(session, feed):
        ran.append((id(session), len(next(iter(feed.values())))))
        return run(session, feed)

    monkeypatch.setattr(ort, "run", counted)
    found = quarkfast.measure_latency(*models, samples())
    one, other = (sum(each == session for each, _ in ran) for session in dict.fromkeys(each for each, _ in ran))
    assert one == other == found.runs + 1
    assert {rows for _, rows in ran} == {found.rows} == {1}
    assert 3 <= found.runs <= 25


def test_it_says_on_what(models):
    found = quarkfast.measure_latency(*models, samples()).to_dict()
    assert found["processor"]
    assert found["threads"] >= 1
    assert found["runtime"].count(".") == 2
    assert 0 < found["reference_ms"] < 60_000
    assert 0 < found["model_ms"] < 60_000


def test_samples_that_do_not_fit_are_refused(models):
    with pytest.raises(CalibrationError):
        quarkfast.measure_latency(*models, {"other": np.zeros((1, 2), np.float32)})
