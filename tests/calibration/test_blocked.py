"""Observers inside the blocked layout of convolutions: fewer reorders, the same statistics."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quarkfast import _core, ort
from quarkfast.calibration import blocked
from quarkfast.calibration.observe import Gather, Observer
from quarkfast.calibration.observers import add_observers
from quarkfast.graph.save import to_proto
from quarkfast.prepare import prepare

# conv - add - relu as in a residual network; `narrow` has channels that do not fill a block; `y` is observed too.
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
residual (float[N, 32, 8, 8] x) => (float[N, 32, 8, 8] y, float[N, 20, 8, 8] narrow)
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
}
"""
TENSORS = ["x", "ra", "b", "rs", "gate", "gated", "y", "narrow"]


def _model():
    model = onnx.parser.parse_model(TEXT)
    rng = np.random.default_rng(5)
    for name, rows in (("wa", 32), ("wb", 32), ("wc", 32), ("wn", 20)):
        values = rng.normal(0, 0.1, (rows, 32, 3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return prepare(ir.serde.deserialize_model(model), 17)


def _optimized(model, folder):
    """The model as onnxruntime has optimized it, its observers in it."""
    collector = _core.Collector(len(TENSORS), histogram=True, moments=False)
    observed = to_proto(model)
    add_observers(observed, TENSORS, collector.id)
    options = ort.session_options(threads=1)
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    ort.inference_session(observed.SerializeToString(), options)
    return onnx.load(options.optimized_model_filepath)


@pytest.fixture
def optimized(tmp_path):
    found = _optimized(_model(), tmp_path)
    if not any(node.op_type == "ReorderOutput" for node in found.graph.node):
        pytest.skip("onnxruntime has no blocked layout on this processor")
    return found


def _count(graph):
    return collections.Counter(node.op_type for node in graph.node)


def _observe(feeds):
    observer = Observer(_model(), TENSORS, Gather(histogram=True, moments=True, threads=1))
    for _ in observer.run(feeds):
        pass
    return observer.statistics()


def test_statistics_are_those_of_the_plain_layout(monkeypatch):
    rng = np.random.default_rng(8)
    feeds = [{"x": rng.normal(size=(rows, 32, 8, 8)).astype(np.float32)} for rows in (1, 3, 2)]
    found = _observe(feeds)
    monkeypatch.setattr(blocked, "_MOST_BYTES", 0)
    assert _observe(feeds) == found


def test_observers_stay_in_blocks_where_all_of_their_channels_fill_them(optimized):
    before = _count(optimized.graph)
    assert blocked.move_into_blocks(optimized.graph) == 4  # ra, b, rs, y; not those of x, gate, gated, narrow
    after = _count(optimized.graph)
    # rs leaves the blocks for the pool and for Mul, which broadcasts; y is an output, and narrow is padded.
    assert (before["ReorderOutput"], after["ReorderOutput"]) == (4, 3)
    assert after["ReorderInput"] < before["ReorderInput"]
    assert after["Observe"] == before["Observe"] == len(TENSORS)


def test_outputs_are_what_they_were(optimized):
    feed = {"x": np.random.default_rng(2).normal(size=(2, 32, 8, 8)).astype(np.float32)}
    collector = _core.Collector(len(TENSORS), histogram=False, moments=False)
    for node in optimized.graph.node:
        for attribute in node.attribute:
            if attribute.name == "collector":
                attribute.i = collector.id
    before, after = optimized, onnx.ModelProto.FromString(optimized.SerializeToString())
    blocked.move_into_blocks(after.graph)
    options = [ort.session_options(threads=1, optimize=False) for _ in range(2)]
    sessions = [ort.inference_session(each.SerializeToString(), options.pop()) for each in (before, after)]
    expected, found = (ort.run(session, feed) for session in sessions)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_second_call_changes_nothing(optimized):
    blocked.move_into_blocks(optimized.graph)
    once = optimized.SerializeToString()
    blocked.move_into_blocks(optimized.graph)
    assert optimized.SerializeToString() == once


def test_a_graph_with_bodies_stays_as_it_is(optimized):
    body = onnx.parser.parse_graph("b () => (float[1] z) { z = Constant <value_floats = [1.0]> () }")
    branches = {"then_branch": body, "else_branch": body}
    optimized.graph.node.append(onnx.helper.make_node("If", ["go"], ["z"], **branches))
    before = optimized.SerializeToString()
    assert blocked.move_into_blocks(optimized.graph) == 0
    assert optimized.SerializeToString() == before


def test_a_disk_that_takes_no_file_gives_the_plain_session(monkeypatch):
    def full(path):
        raise OSError("no space left on device")

    feeds = [{"x": np.ones((1, 32, 8, 8), np.float32)}]
    found = _observe(feeds)
    monkeypatch.setattr("pathlib.Path.read_bytes", full)
    assert _observe(feeds) == found
