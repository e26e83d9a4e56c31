"""Feeds of several rows are judged row by row only where the model takes rows by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.calibration.data import model_inputs, open_data
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.pipeline.single_rows import cut_to_rows
from support.tiny_models import tiny_model

RNG = np.random.default_rng(3)
CONSTANTS = {"w": RNG.normal(0, 1, (4, 4)).astype(np.float32), "rows": np.int64([-1, 4])}
LAYER = "g (float[D, 4] x) => (y) { a = MatMul(x, w) "
APART = {
    "a layer": "y = Relu(a) }",
    "a Reshape of rows": "y = Reshape(a, rows) }",
    "whole numbers": "y = ArgMax <axis = 1> (a) }",
}
TOGETHER = {
    "Softmax over rows": "y = Softmax <axis = 0> (a) }",
    "a sum of rows": "b = ReduceMax <axes = [0], keepdims = 1> (a) y = Sub(a, b) }",
    "one number": "y = ReduceMean <keepdims = 0> (a) }",
    "a row for all": "y = ReduceMax <axes = [0], keepdims = 1> (a) }",
    "whole numbers of all rows": "y = ArgMax <axis = 0> (a) }",
    "rows by a fixed number": "b = Concat <axis = 0> (a, w) y = Relu(b) }",
}


def _feeds(count=8, rows=6):
    return [{"x": RNG.normal(0, 1, (rows, 4)).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("end", APART.values(), ids=APART)
def test_rows_that_count_by_themselves_are_cut(end):
    assert _rows(end) == 1


@pytest.mark.parametrize("end", TOGETHER.values(), ids=TOGETHER)
def test_rows_that_belong_together_stay(end):
    assert _rows(end) == 6


def _rows(end):
    proto = tiny_model(LAYER + end, CONSTANTS)
    samples = open_data(_feeds(), model_inputs(load_model(proto)), None, None, None)
    cut_to_rows(samples, proto.SerializeToString())
    (rows,) = {len(feed["x"]) for feed in samples}
    return rows


def test_a_model_that_runs_on_no_single_row_keeps_its_feeds():
    end = "b, c = Split <axis = 0> (a) y = Sub(b, c) }"
    proto = tiny_model(LAYER + end, CONSTANTS, opset=12)
    samples = open_data(_feeds(), model_inputs(load_model(proto)), None, None, None)
    cut_to_rows(samples, proto.SerializeToString())
    assert len(samples.first["x"]) == 6


def test_a_quality_target_judges_rows_that_belong_together():
    """By single rows the Softmax over rows is 1, whatever the noise."""
    proto = tiny_model(LAYER + TOGETHER["Softmax over rows"], CONSTANTS)
    feeds, others = _feeds(16), _feeds(16)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds, min_sqnr=1.0)
    (told,) = (lever.sqnr for lever in result.summary.levers)
    sessions = exact_session(proto), exact_session(result.model_bytes)
    expected, got = (np.concatenate([each.run(None, feed)[0] for feed in others]) for each in sessions)
    assert abs(told - sqnr(expected, got)) < 5
