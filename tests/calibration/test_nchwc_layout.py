"""Observers inside the blocked layout of convolutions: fewer reorders, the same statistics."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast import _core, kernels, ort
from quarkfast.calibration import Observer
from quarkfast.calibration import nchwc_layout as blocked
from quarkfast.calibration.nchwc_layout import add_observers
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from quarkfast.statistics import StatisticsRequest

# conv - add - relu as in a residual network; the channels of `narrow` do not fill a block.
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
residual (float[N, 32, 8, 8] x) => (float[N, 32, 8, 8] y, float[N, 20, 8, 8] folded)
{
    a = Conv <pads = [1, 1, 1, 1]> (x, wa)
    ra = Relu (a)
    b = Conv <pads = [1, 1, 1, 1]> (ra, wb)
    sum = Add (b, ra)
    rs = Relu (sum)
    gate = GlobalAveragePool (rs)
    gated = Mul (rs, gate)
    y = Conv <pads = [1, 1, 1, 1]> (gated, wc)
    narrow = Conv <pads = [1, 1, 1, 1]> (y, wn)
    doubled = Add (narrow, narrow)
    folded = Relu (doubled)
}
"""
RNG = np.random.default_rng(8)
FEEDS = [{"x": RNG.normal(size=(rows, 32, 8, 8)).astype(np.float32)} for rows in (1, 3, 2)]
TENSORS = ["x", "ra", "b", "rs", "gate", "gated", "y", "narrow", "folded"]


def _model(narrow=20):
    model = onnx.parser.parse_model(TEXT.replace("N, 20", f"N, {narrow}"))
    rng = np.random.default_rng(5)
    for name, rows in (("wa", 32), ("wb", 32), ("wc", 32), ("wn", narrow)):
        values = rng.normal(0, 0.1, (rows, 32, 3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return prepare(ir.serde.deserialize_model(model), 17)


@pytest.fixture
def optimized(tmp_path):
    """The model as onnxruntime has optimized it, its tensors whole."""
    found = blocked._optimized(to_proto(_model()), TENSORS, tmp_path)
    onnx.load_external_data_for_model(found, str(tmp_path))
    if not any(node.op_type == "ReorderOutput" for node in found.graph.node):
        pytest.skip("onnxruntime has no blocked layout on this processor")
    return found


def _observe(feeds, model=None):
    observer = Observer(model or _model(), StatisticsRequest.of(TENSORS, histogram=True, moments=True), threads=1)
    for _ in observer.run(feeds):
        pass
    return observer.statistics()


@pytest.fixture
def unblocked(monkeypatch):
    """Statistics of sessions that know nothing of blocks."""
    with monkeypatch.context() as patch:
        patch.setattr(blocked, "_MOST_WEIGHTS", 0)
        return _observe(FEEDS)


def test_statistics_are_those_of_the_values_that_onnxruntime_hands_out():
    model = to_proto(_model())
    known = {value.name: value for value in model.graph.value_info}
    model.graph.output.extend(known[name] for name in TENSORS if name in known)
    session = ort.inference_session(model.SerializeToString(), ort.session_options(threads=1))
    names = [output.name for output in session.get_outputs()]
    runs = [dict(zip(names, ort.run(session, feed), strict=True)) | feed for feed in FEEDS]
    for name, seen in zip(TENSORS, _observe(FEEDS), strict=True):
        values = np.concatenate([run[name].ravel() for run in runs])
        expected = kernels.histogram(values)
        assert (seen.range, seen.histogram.exponent) == (expected.range, expected.exponent)
        np.testing.assert_array_equal(seen.histogram.counts, expected.counts, err_msg=name)


def test_tensors_are_observed_in_blocks_where_their_channels_fill_them(optimized):
    names = blocked.move_into_blocks(optimized.graph, TENSORS)
    outside = [tensor for tensor, name in zip(TENSORS, names, strict=True) if tensor == name]
    assert outside == ["x", "gated", "narrow", "folded"]
    written = {node.output[0] for node in optimized.graph.node if node.op_type == "ReorderOutput"}
    assert written == {"rs", "gate", "y", "narrow", "folded"}  # for Mul, which broadcasts; an output; padded ones


def test_what_reads_padded_blocks_reads_behind_the_observer(optimized):
    add_observers(optimized, blocked.move_into_blocks(optimized.graph, TENSORS), 1)
    made = {name: node for node in optimized.graph.node for name in node.output}
    (adding,) = [node for node in optimized.graph.node if node.op_type == "Add" and len(set(node.input)) == 1]
    back = made[adding.input[0]]
    assert (back.op_type, list(back.input)) == ("ReorderInput", ["narrow"])
    assert made["narrow"].op_type == "Observe"


def test_outputs_are_what_they_were(optimized):
    feed = {"x": np.random.default_rng(2).normal(size=(2, 32, 8, 8)).astype(np.float32)}
    expected = _run(optimized, feed)
    names = blocked.move_into_blocks(optimized.graph, TENSORS)
    collector = _core.Collector(len(TENSORS), histogram=False, moments=False)
    add_observers(optimized, names, collector.id)
    for got, want in zip(_run(optimized, feed), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def _run(model, feed):
    options = ort.session_options(threads=1, optimize=False)
    return ort.run(ort.inference_session(model.SerializeToString(), options), feed)


def test_one_value_that_stands_for_two_tensors_is_observed_for_both(monkeypatch, unblocked):
    monkeypatch.setattr(blocked, "move_into_blocks", lambda graph, tensors, ordered: ["x"] * len(tensors))
    assert _observe(FEEDS) == unblocked


def test_channels_that_no_reorder_takes_give_the_plain_session(monkeypatch, tmp_path):
    model = _model(narrow=18)
    optimized = blocked._optimized(to_proto(model), TENSORS, tmp_path)
    if any(node.op_type == "ReorderOutput" for node in optimized.graph.node):
        assert blocked.move_into_blocks(optimized.graph, TENSORS) is None
    found = _observe(FEEDS, model)
    monkeypatch.setattr(blocked, "_MOST_WEIGHTS", 0)
    assert _observe(FEEDS, model) == found


def test_a_disk_that_takes_no_file_gives_the_plain_session(monkeypatch, unblocked):
    def full(path):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.read_bytes", full)
    assert _observe(FEEDS) == unblocked


def test_a_session_that_is_closed_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for end in (Observer.close, lambda observer: None):  # closed, or dropped
        observer = Observer(_model(), StatisticsRequest.of(TENSORS), threads=1)
        (folder,) = tmp_path.iterdir()
        for _ in observer.run(FEEDS):
            pass
        end(observer)
        seen = observer.statistics()
        del observer
        assert not folder.exists()
        assert len(seen) == len(TENSORS)


def test_a_session_that_cannot_be_opened_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = _model()
    next(node for node in model.graph if node.op_type == "Mul").op_type = "Mystery"
    with pytest.raises(quarkfast.ModelError, match="Mystery") as raised:
        Observer(model, StatisticsRequest.of(TENSORS), threads=1)
    assert raised.tb is not None  # it is held, and with it what was made
    assert not list(tmp_path.iterdir())
