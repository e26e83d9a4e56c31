"""Largest magnitudes channel by channel, gathered while the model runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import helper

from quarkfast import _core, ort
from quarkfast.calibration import CalibrationRun, calibrate_prepared, observe
from quarkfast.calibration.data import model_inputs, open_data
from quarkfast.calibration.session import Observer
from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from quarkfast.statistics import Calibration, StatisticsRequest, merge
from support.tiny_models import samples, tiny_model

# Channels that fill the blocks of convolutions, and channels that do not.
TEXT = """g (float[N, 3, 8, 8] x) => (float[N, 32, 8, 8] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, u) b = Relu(a) c = Conv<pads = [1, 1, 1, 1]>(b, v) d = Conv(c, w) y = Relu(d)
}"""
SHAPES = {"u": (32, 3, 3, 3), "v": (20, 32, 3, 3), "w": (32, 20, 1, 1)}
AXES = {"x": 1, "b": 1, "c": 1}
X = samples(12, (3, 8, 8))


def _prepared():
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return prepare(load_model(tiny_model(TEXT, weights)), 13)


def _calibrate(data=X, size=4, executor=None):
    model = _prepared()
    job = CalibrationRun(model, StatisticsRequest.of_channels(AXES), "key", size, executor=executor)
    return calibrate_prepared(job, open_data({"x": data}, model_inputs(model), None, size), lambda samples: None)


def test_magnitudes_are_those_of_the_values_that_onnxruntime_hands_out():
    found, _ = observe(_prepared(), StatisticsRequest.of_channels(AXES), [{"x": X[:5]}, {"x": X[5:]}])
    model = to_proto(_prepared())
    known = {value.name: value for value in model.graph.value_info}
    model.graph.output.extend(known[name] for name in ("b", "c"))
    values = [X, *ort.run(ort.inference_session(model.SerializeToString()), {"x": X})[1:]]
    for name, each in zip(AXES, values, strict=True):
        np.testing.assert_array_equal(found[name].channel_absmax, np.abs(each).max(axis=(0, 2, 3)), err_msg=name)


def test_tensors_that_nobody_asked_for_have_none():
    found, _ = observe(
        _prepared(), StatisticsRequest.of(["x", "b"]) | StatisticsRequest.of_channels({"b": 1}), [{"x": X}]
    )
    assert found["x"].channel_absmax is None
    assert found["b"].channel_absmax.shape == (32,)


def test_histograms_and_sums_are_counted_where_something_asks_for_them_alone():
    wanted = StatisticsRequest.of(["x", "b", "c"]) | StatisticsRequest.of(["b"], histogram=True)
    observer = Observer(_prepared(), wanted | StatisticsRequest.of(["c"], moments=True))
    assert [None for _ in observer.run([{"x": X}])] == [None]
    seen = observer._collector
    with pytest.raises(ValueError, match="expected a collector opened with histogram=True, got one without"):
        seen.histogram(0)
    assert seen.histogram(1)[0].any()
    with pytest.raises(ValueError, match="expected a collector opened with moments=True, got one without"):
        seen.moments(1)
    assert seen.moments(2)[1] > 0
    observer.close()


def test_batches_order_and_workers_give_the_same_statistics():
    expected = _calibrate()
    with ThreadPoolExecutor(2) as executor:
        for found in (_calibrate(size=1), _calibrate(X[::-1].copy()), _calibrate(size=3, executor=executor)):
            for name in AXES:
                want = expected.tensors[name].channel_absmax
                np.testing.assert_array_equal(found.tensors[name].channel_absmax, want)


def test_parts_are_merged_and_kept_on_disk(tmp_path):
    whole = _calibrate()
    merged = merge([_calibrate(X[:4]), _calibrate(X[4:])])
    for name in AXES:
        np.testing.assert_array_equal(merged.tensors[name].channel_absmax, whole.tensors[name].channel_absmax)
    assert Calibration.load(whole.save(tmp_path / "c.json")) == whole
    plain, _ = observe(_prepared(), StatisticsRequest.of(["x"]), [{"x": X}])
    assert plain["x"] != whole.tensors["x"]
    with_less = merge([whole, Calibration({**whole.tensors, "x": plain["x"]}, "key", 12, 3)])
    assert with_less.tensors["x"].channel_absmax is None


@pytest.mark.parametrize("axis", [-3, 2, 5])
def test_an_axis_that_is_not_there_is_one_sentence(axis):
    collector = _core.Collector(1)
    model = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Identity(x) }", {})
    node = helper.make_node("Observe", ["x"], ["y"], "seen", domain="quarkfast", collector=collector.id, slot=0)
    node.attribute.append(helper.make_attribute("axis", axis))
    model.graph.node[0].CopyFrom(node)
    model.opset_import.append(helper.make_opsetid("quarkfast", 1))
    session = ort.inference_session(model.SerializeToString())
    with pytest.raises(ModelError, match=rf"'axis': expected -2 to 1 for an input of shape \(3, 4\), got {axis}"):
        ort.run(session, {"x": np.ones((3, 4), np.float32)})
    assert collector.channel_absmax(0).size == 0


def test_values_that_are_not_finite_do_not_count():
    collector = _core.Collector(1)
    model = tiny_model("g (float[N, 2] x) => (float[N, 2] y) { y = Identity(x) }", {})
    node = helper.make_node("Observe", ["x"], ["y"], domain="quarkfast", collector=collector.id, slot=0, axis=-1)
    model.graph.node[0].CopyFrom(node)
    model.opset_import.append(helper.make_opsetid("quarkfast", 1))
    session = ort.inference_session(model.SerializeToString())
    ort.run(session, {"x": np.float32([[1, np.nan], [-3, np.inf], [2, -0.5]])})
    assert collector.channel_absmax(0).tolist() == [3, 0.5]
    ort.run(session, {"x": np.zeros((0, 2), np.float32)})
    assert collector.channel_absmax(0).tolist() == [3, 0.5]
