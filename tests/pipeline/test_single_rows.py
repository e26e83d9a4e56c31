"""Feeds of several rows are judged row by row only where the model takes rows by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.calibration.data import model_inputs, open_data
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.pipeline.single_rows import cut_to_rows, keep_whole_samples
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
    model = load_model(proto)
    samples = open_data(_feeds(), model_inputs(model), None, None, None)
    cut_to_rows(samples, model)
    (rows,) = {len(feed["x"]) for feed in samples}
    return rows


def test_a_model_that_runs_on_no_single_row_keeps_its_feeds():
    end = "b, c = Split <axis = 0> (a) y = Sub(b, c) }"
    proto = tiny_model(LAYER + end, CONSTANTS, opset=12)
    model = load_model(proto)
    samples = open_data(_feeds(), model_inputs(model), None, None, None)
    cut_to_rows(samples, model)
    assert len(samples.first["x"]) == 6


FRAMES = """g (float[T, 4] x) => (float[M, 4] y) {
    b = Unsqueeze(x, ends)
    c = Conv(b, k)
    d = Squeeze(c, ends)
    y = Relu(d)
}"""


def _sound():
    """A model without a batch axis, whose filter reaches over five frames."""
    kernel = RNG.normal(0, 1, (1, 1, 5, 1)).astype(np.float32)
    return tiny_model(FRAMES, {"k": kernel, "ends": np.int64([0, 1])}, opset=17)


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BFP16"])
def test_sounds_without_a_batch_axis_are_quantized_whole(preset):
    """A frame alone is too short for the filter."""
    proto, feeds = _sound(), _feeds(8, 40)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=feeds)
    sessions = exact_session(proto), exact_session(result.model_bytes)
    expected, got = (np.concatenate([each.run(None, feed)[0] for feed in feeds]) for each in sessions)
    # Input and output have steps of a 128th of four deviations, sqrt(12) of which are 39 dB below one; scales that are
    # powers of two cost up to 6 dB each time.
    assert sqnr(expected, got) > 25


def test_models_of_sounds_are_held_side_by_side_on_whole_ones(tmp_path):
    feeds, paths = _feeds(4, 40), (tmp_path / "float.onnx", tmp_path / "quantized.onnx")
    paths[0].write_bytes(_sound().SerializeToString())
    quarkfast.quantize(paths[0], paths[1], "A8W8", feeds)
    sessions = [exact_session(path) for path in paths]
    expected, got = (np.concatenate([each.run(None, feed)[0] for feed in feeds]) for each in sessions)
    (scores,) = quarkfast.evaluate_models(*paths, feeds, sums="exact").exact
    assert scores.sqnr == pytest.approx(sqnr(expected, got))
    (output,) = (each for each in quarkfast.compare_models(*paths, feeds).tensors if each.kind == "output")
    assert output.sqnr == pytest.approx(sqnr(expected, got), abs=0.1)
    assert quarkfast.measure_latency(*paths, feeds).rows == 40


def test_files_of_sounds_are_not_joined(tmp_path):
    for place, feed in enumerate(_feeds(4, 40)):
        np.save(tmp_path / f"{place}.npy", feed["x"])
    proto = _sound()
    model = load_model(proto)
    samples = open_data(tmp_path, model_inputs(model))
    keep_whole_samples(samples, model)
    assert [len(feed["x"]) for feed in samples] == [40] * 4
    assert [len(feed["x"]) for feed in samples] == [40] * 4
    assert len(samples.rows(3)) == 3


def test_files_of_batches_are_cut_as_before(tmp_path):
    for place, feed in enumerate(_feeds(4, 6)):
        np.save(tmp_path / f"{place}.npy", feed["x"])
    model = load_model(tiny_model(LAYER + APART["a layer"], CONSTANTS))
    samples = open_data(tmp_path, model_inputs(model))
    keep_whole_samples(samples, model)
    assert [len(feed["x"]) for feed in samples] == [1] * 24


def test_a_batch_size_that_is_asked_for_says_that_rows_are_samples():
    model = load_model(_sound())
    samples = open_data(_feeds(2, 40), model_inputs(model), batch_size=10)
    keep_whole_samples(samples, model)
    assert [len(feed["x"]) for feed in samples] == [10] * 8


def test_a_dimension_that_is_named_a_batch_is_believed():
    model = load_model(tiny_model("g (float[batch_size, 4] x) => (y) { y = ReduceMean <keepdims = 0> (x) }", {}))
    samples = open_data(_feeds(), model_inputs(model))
    keep_whole_samples(samples, model)
    assert samples.resizable


def test_feeds_with_states_count_one_each():
    text = "g (float[T, 4] x, float[8] state) => (y) { y = ReduceSum <keepdims = 0> (x) }"
    feeds = [feed | {"state": np.zeros(8, np.float32)} for feed in _feeds(5)]
    samples = open_data(feeds, model_inputs(load_model(tiny_model(text, {}))))
    assert len(samples.rows(4)) == 4


def test_a_quality_target_judges_rows_that_belong_together():
    """By single rows the Softmax over rows is 1, whatever the noise."""
    proto = tiny_model(LAYER + TOGETHER["Softmax over rows"], CONSTANTS)
    feeds, others = _feeds(16), _feeds(16)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds, min_sqnr=1.0)
    (told,) = (lever.sqnr for lever in result.summary.levers)
    sessions = exact_session(proto), exact_session(result.model_bytes)
    expected, got = (np.concatenate([each.run(None, feed)[0] for feed in others]) for each in sessions)
    assert abs(told - sqnr(expected, got)) < 5


MIXING = {
    **{name: end for name, end in TOGETHER.items() if name != "rows by a fixed number"},
    "a product of the batch with itself": "t = Transpose <perm = [1, 0]> (a) y = MatMul(a, t) }",
    "a Reshape of all": "b = Reshape(a, all) c = ReduceMean <axes = [1], keepdims = 1> (b) y = Sub(a, c) }",
    "a statistic of the batch": "y, m, v = BatchNormalization <training_mode = 1> (a, ones, zeros, zeros, ones) }",
}
MORE = {"all": np.int64([1, -1]), "ones": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32)}


def _opened(end, data=None, **options):
    model = load_model(tiny_model(LAYER + end, CONSTANTS | MORE))
    given = RNG.normal(0, 1, (32, 4)).astype(np.float32) if data is None else data
    return open_data(given, model_inputs(model), **options), model


@pytest.mark.parametrize("end", MIXING.values(), ids=MIXING)
def test_rows_of_arrays_that_change_each_other_run_alone(end):
    samples, model = _opened(end)
    keep_whole_samples(samples, model)
    assert samples.single
    assert not samples.unsized
    assert [len(feed["x"]) for feed in samples] == [1] * 32


@pytest.mark.parametrize("end", APART.values(), ids=APART)
def test_rows_of_arrays_that_count_by_themselves_are_joined(end):
    samples, model = _opened(end)
    keep_whole_samples(samples, model)
    assert samples.unsized


def test_rows_that_change_each_other_are_not_joined_to_be_judged():
    samples, model = _opened(MIXING["Softmax over rows"], _feeds(8, 1))
    cut_to_rows(samples, model, 4)
    assert [len(feed["x"]) for feed in samples] == [1] * 8


def test_a_batch_size_that_is_asked_for_joins_rows_of_any_model():
    samples, model = _opened(MIXING["one number"], batch_size=16)
    keep_whole_samples(samples, model)
    assert [len(feed["x"]) for feed in samples] == [16, 16]


def test_equal_rows_tell_nothing_and_are_joined():
    samples, model = _opened(MIXING["one number"], np.ones((8, 4), np.float32))
    keep_whole_samples(samples, model)
    assert samples.unsized


@pytest.mark.parametrize("preset", ["A8W8", "A16W8"])
def test_a_mean_over_all_rows_is_quantized_by_single_ones(preset):
    proto = tiny_model(
        "g (float[N, 7, 4] x) => (float y) { a = MatMul(x, w) b = Relu(a) y = ReduceMean<keepdims = 0>(b) }", CONSTANTS
    )
    x = RNG.normal(0, 1, (64, 7, 4)).astype(np.float32)
    result = quarkfast.quantize(proto, preset=preset, calibration_data={"x": x})
    sessions = exact_session(proto), exact_session(result.model_bytes)
    expected, got = (np.array([each.run(None, {"x": row[None]})[0] for row in x]) for each in sessions)
    assert np.abs(expected - got).max() <= 0.02 * expected.max()
    assert [note for note in result.summary.notes if "each ran alone" in note]
