"""How far each channel reaches, as ONNX Runtime tells while it runs the model."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.calibration import channel_reaches
from quarkfast.errors import CalibrationError
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from tiny_models import tiny_model

TEXT = """g (float[N, S, 6] x) => (float[N, S, 4] y) {
    n = Neg (x)
    y = MatMul (n, w)
}"""
WEIGHT = np.random.default_rng(3).standard_normal((6, 4)).astype(np.float32)


def _model(opset):
    return prepare(load_model(tiny_model(TEXT, {"w": WEIGHT}, opset)), opset)


def _feeds(*shapes):
    rng = np.random.default_rng(4)
    return [{"x": rng.standard_normal(shape).astype(np.float32)} for shape in shapes]


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_the_largest_magnitudes_are_those_of_all_rows_of_all_feeds(opset):
    feeds, heard = _feeds((2, 3, 6), (1, 5, 6), (4, 1, 6)), []
    found, samples = channel_reaches(_model(opset), {"n": 6, "y": 4}, feeds, heard.append)
    rows = np.concatenate([feed["x"].reshape(-1, 6) for feed in feeds])
    np.testing.assert_array_equal(found["n"], np.abs(rows).max(axis=0))
    # Products of 6 terms: whichever way they are summed up, they agree to 6 last places of the sum of magnitudes.
    expected = np.abs(rows.astype(np.float64) @ WEIGHT).max(axis=0)
    assert (np.abs(found["y"] - expected) <= 6 * 2**-23 * (np.abs(rows) @ np.abs(WEIGHT)).max(axis=0)).all()
    assert heard == [2, 3, 7]
    assert samples == 7


def test_the_model_is_not_changed():
    model = _model(17)
    channel_reaches(model, {"n": 6}, _feeds((1, 1, 6)), lambda done: None)
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert len(model.graph) == 2


def test_a_feed_that_the_model_cannot_run_on_is_named():
    feeds = [*_feeds((1, 2, 6)), {"x": np.ones((1, 2, 5), np.float32)}]
    with pytest.raises(CalibrationError, match=r"^calibration data: sample 2: "):
        channel_reaches(_model(17), {"n": 6}, feeds, lambda done: None)
