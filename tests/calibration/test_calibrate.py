"""A calibration by itself: gathered once, kept, merged, used for any preset."""

from __future__ import annotations

import dataclasses
import weakref
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms import ALGORITHMS
from quarkfast.config import POLICY, Policy
from quarkfast.errors import CalibrationError, ConfigError, ModelError
from quarkfast.graph.load import load_model
from quarkfast.kernels import Range, histogram, moments, reduce_range
from quarkfast.pipeline.calibration_source import NEUTRAL, calibration_key
from quarkfast.quantization import needs_ranges
from quarkfast.statistics import TensorStatistics, merge_statistics
from support.tiny_models import conv_relu_model, samples, tiny_model


def _metadata_apart(model_bytes):
    proto = onnx.ModelProto.FromString(model_bytes)
    del proto.metadata_props[:]
    return proto


def test_the_statistics_are_those_of_the_tensors():
    x = samples(20)
    calibration = quarkfast.calibrate(conv_relu_model(), x, moments=True)
    assert next(iter(calibration.tensors)) == "x"
    assert set(calibration.tensors) == {"x", "r1", "c2", "y"}
    seen = calibration.tensors["x"]
    assert seen.range == reduce_range(x)
    assert seen.moments == moments(x)
    np.testing.assert_array_equal(seen.histogram.counts, histogram(x).counts)
    assert (calibration.samples, calibration.runs, calibration.complete) == (20, 1, True)


def test_the_mean_extremes_are_those_of_the_runs():
    x = samples(20)
    seen = quarkfast.calibrate(conv_relu_model(), x, batch_size=5).tensors["x"]
    parts = np.split(x, 4)
    expected = np.mean([[part.min(), part.max()] for part in parts], axis=0, dtype=np.float64)
    np.testing.assert_array_equal(seen.mean_extremes, expected)


def test_without_observations_the_mean_extremes_are_the_extremes():
    assert TensorStatistics(Range(-1.0, 2.0, 3, 0, 0, 0)).mean_extremes == (-1.0, 2.0)
    assert TensorStatistics(Range(-1.0, 2.0, 3, 0, 0, 0)).moments is None


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "U8S8"])
def test_one_calibration_serves_every_preset_without_running_the_model(preset, monkeypatch):
    calibration = quarkfast.calibrate(conv_relu_model(), samples())
    direct = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples())
    monkeypatch.setattr("quarkfast.ort.run", None)
    result = quarkfast.quantize(conv_relu_model(), preset=preset, calibration=calibration)
    assert result.model_bytes == direct.model_bytes
    assert result.summary.samples == 8


def test_a_saved_calibration_is_used_by_its_path(tmp_path):
    quarkfast.calibrate(conv_relu_model(), samples(), tmp_path / "calibration.json")
    result = quarkfast.quantize(conv_relu_model(), calibration=str(tmp_path / "calibration.json"))
    assert result.model_bytes == quarkfast.quantize(conv_relu_model(), calibration_data=samples()).model_bytes


def test_a_preset_limits_what_is_observed():
    every = quarkfast.calibrate(conv_relu_model(), samples())
    some = quarkfast.calibrate(conv_relu_model(), samples(), preset="A8W8", exclude=["add_3"])
    assert set(some.tensors) < set(every.tensors)
    assert some.key == every.key


def test_the_key_is_that_of_the_model_and_not_of_its_documentation():
    proto = conv_relu_model()
    key = quarkfast.calibrate(proto, samples()).key
    proto.doc_string = proto.graph.doc_string = "words"
    proto.metadata_props.add(key="a", value="b")
    assert quarkfast.calibrate(proto, samples(3)).key == key
    for change in ({"w1": np.ones((3, 3, 3, 3), np.float32)}, {"b1": np.zeros(3, np.float32)}):
        assert quarkfast.calibrate(conv_relu_model(**change), samples()).key != key


def test_a_calibration_of_another_model_is_one_sentence():
    calibration = quarkfast.calibrate(conv_relu_model(), samples())
    other = conv_relu_model(b1=np.zeros(3, np.float32))
    message = (
        r"calibration: expected one of this model and these settings \(\w{12}\), got one of \w{12}; calibrate this"
    )
    with pytest.raises(CalibrationError, match=message):
        quarkfast.quantize(other, calibration=calibration)


def test_a_missing_tensor_is_one_sentence():
    some = quarkfast.calibrate(conv_relu_model(), samples(), preset="A8W8", exclude=["add_3"])
    with pytest.raises(CalibrationError, match="calibration: expected statistics of tensor 'y', got"):
        quarkfast.quantize(conv_relu_model(), calibration=some)


def test_data_and_a_calibration_are_one_too_many():
    calibration = quarkfast.calibrate(conv_relu_model(), samples())
    with pytest.raises(ConfigError, match="calibration: expected it or calibration_data, got both; leave one out"):
        quarkfast.quantize(conv_relu_model(), calibration_data=samples(), calibration=calibration)


def test_something_else_is_a_type_error():
    with pytest.raises(TypeError, match="calibration: expected a Calibration or a path, got int"):
        quarkfast.quantize(conv_relu_model(), calibration=3)


def test_a_model_without_anything_to_quantize_is_one_sentence():
    proto = tiny_model("g (float[N, 2, 2] x) => (float[N] y) { y = Det(x) }")
    with pytest.raises(ModelError, match="calibrate: expected a model with a tensor to quantize, got none"):
        quarkfast.calibrate(proto, np.ones((1, 2, 2), np.float32))


def test_random_data_is_remembered():
    calibration = quarkfast.calibrate(conv_relu_model(), "random")
    assert calibration.random
    proto = quarkfast.quantize(conv_relu_model(), calibration=calibration).proto
    assert "quarkfast.calibration" in {prop.key for prop in proto.metadata_props}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
def test_merged_parts_are_what_the_whole_is(order):
    x = samples(12)
    parts = [quarkfast.calibrate(conv_relu_model(), part, moments=True) for part in np.split(x, 3)]
    merged = quarkfast.merge_calibrations([parts[index] for index in order])
    assert merged == quarkfast.calibrate(conv_relu_model(), x, batch_size=4, moments=True)
    assert parts[0].merge(*parts[1:]) == merged


def test_merging_reads_and_writes_files(tmp_path):
    x = samples(12)
    paths = [tmp_path / f"{index}.json" for index in range(3)]
    for path, part in zip(paths, np.split(x, 3), strict=True):
        quarkfast.calibrate(conv_relu_model(), part, path)
    merged = quarkfast.merge_calibrations(paths, tmp_path / "all.json")
    assert quarkfast.Calibration.load(tmp_path / "all.json") == merged
    assert merged.samples == 12


def test_only_what_all_parts_have_is_merged():
    x = samples(4)
    merged = quarkfast.merge_calibrations(
        [
            quarkfast.calibrate(conv_relu_model(), x, moments=True),
            quarkfast.calibrate(conv_relu_model(), x, histogram=False),
        ]
    ).tensors["x"]
    assert (merged.histogram, merged.sums) == (None, None)
    assert merged.range.count == 2 * x.size
    assert merged.extremes[0] == 2


def test_ranges_alone_merge_too():
    one, two = (TensorStatistics(Range(low, 1.0, 1, 0, 0, 0)) for low in (-1.0, -2.0))
    (merged,) = merge_statistics([[one], [two]])
    assert merged == TensorStatistics(Range(-2.0, 1.0, 2, 0, 0, 0))
    assert merged != one
    assert merged != "something else"


def test_nothing_to_merge_is_one_sentence():
    with pytest.raises(CalibrationError, match="merge: expected at least one calibration, got none"):
        quarkfast.merge_calibrations([])


def test_calibrations_of_two_models_do_not_merge():
    one = quarkfast.calibrate(conv_relu_model(), samples())
    two = quarkfast.calibrate(conv_relu_model(b1=np.zeros(3, np.float32)), samples())
    message = r"merge: expected calibrations of one model and its settings, got \w{12} with 4 tensors and \w{12} with 4"
    with pytest.raises(CalibrationError, match=message):
        one.merge(two)


def test_progress_is_told_by_stage_and_sample():
    heard = []
    quarkfast.calibrate(conv_relu_model(), samples(10), batch_size=4, progress=lambda *event: heard.append(event))
    assert [event for event in heard if event[0] == "calibrate"] == [("calibrate", n, 10) for n in (0, 4, 8, 10)]
    assert list(dict.fromkeys(stage for stage, _, _ in heard)) == ["import", "load", "prepare", "calibrate"]


def test_nothing_is_held_beyond_one_feed():
    alive = weakref.WeakSet()
    most = []

    class Tensor:
        def __init__(self):
            self.array = samples(1)
            alive.add(self)

        def __array__(self, dtype=None, copy=None):
            return self.array

    def reader():
        for _ in range(10):
            yield Tensor()
            most.append(len(alive))

    quarkfast.calibrate(conv_relu_model(), reader())
    assert max(most) <= 2, "expected the feed that runs and the one that is being read"


def test_thresholds_change_the_key_where_they_decide_how_the_float_model_is_rewritten():
    model = load_model(conv_relu_model())
    plain = quarkfast.PRESETS["A8W8"]
    keys = [
        calibration_key(model, dataclasses.replace(plain, policy=policy))
        for policy in (POLICY, Policy(bias_samples=9), Policy(equalization_gain=2.0))
    ]
    assert keys[0] == keys[1] != keys[2]


def test_every_field_of_a_scheme_is_known_to_leave_the_float_model_alone_or_to_change_the_key():
    changing = {"equalize", "equalize_options", "rotation", "fold_batch_norm"}
    assert {field.name for field in dataclasses.fields(quarkfast.Scheme)} == {*NEUTRAL, *changing}
    knows_factors_alone = SimpleNamespace(factors="octaves", equalize_options=(), rotation="hadamard", policy=POLICY)
    for algorithm in [each for each in ALGORITHMS if each.stage == "prepare"]:
        assert algorithm.settings(knows_factors_alone), "what else of a scheme rewrites the model goes into the key"
    smoothed = dataclasses.replace(quarkfast.PRESETS["DYNAMIC"], activation=quarkfast.PRESETS["A8W8"].activation)
    assert smoothed.smoothed
    assert not needs_ranges(smoothed), "what is smoothed asks for no ranges"


def test_statistics_of_an_equalized_model_are_not_those_of_the_model_as_it_is():
    calibration = quarkfast.calibrate(conv_relu_model(), samples(), preset="A8W8")
    with pytest.raises(CalibrationError, match="calibration"):
        quarkfast.quantize(conv_relu_model(), preset="A8W8", calibration=calibration, equalize=False)


def test_statistics_of_a_model_that_was_equalized_otherwise_are_refused():
    """Beside MX6 a tensor in int8 has a range, but weights in blocks are equalized by other factors than integers."""
    calibration = quarkfast.calibrate(conv_relu_model(), samples(), preset="A8W8")
    with pytest.raises(CalibrationError, match="calibration"):
        quarkfast.quantize(conv_relu_model(), preset="MX6", calibration=calibration, tensors={"x": {"dtype": "int8"}})


def test_a_sample_ten_thousand_times_larger_than_the_first_counts_like_any_other():
    x = samples(6)
    x[4] *= 1e4
    forwards, backwards = (quarkfast.calibrate(conv_relu_model(), data, batch_size=1) for data in (x, x[::-1].copy()))
    assert forwards == backwards
    np.testing.assert_array_equal(forwards.tensors["x"].histogram.counts, histogram(x).counts)


def test_nan_and_infinity_are_counted_and_left_out():
    x = samples(4)
    x[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    seen = quarkfast.calibrate(conv_relu_model(), x).tensors["x"].range
    assert (seen.nan, seen.pos_inf, seen.neg_inf) == (1, 1, 1)
    assert seen == reduce_range(x)


def test_samples_of_varying_size_are_taken_as_they_are():
    proto = tiny_model("g (float[N, S] x) => (float[N, S] y) { y = Relu(x) }")
    data = [np.full((1, size), size, np.float32) for size in (3, 1, 7)]
    calibration = quarkfast.calibrate(proto, data)
    assert calibration.tensors["x"].range.count == 11
    assert (calibration.samples, calibration.runs) == (3, 3)


def test_no_samples_are_one_sentence():
    with pytest.raises(CalibrationError, match="calibration data: expected at least one sample, got none"):
        quarkfast.calibrate(conv_relu_model(), samples(0))
