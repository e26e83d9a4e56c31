"""Samples in a file beyond a budget."""

import gc

import numpy as np
import onnx

import quarkfast
from quarkfast.pipeline import simulate, stored_feeds
from support.tiny_models import tiny_model

TEXT = "g (float[N, 8] x) => (float[N, 8] y) { h = MatMul (x, v) r = Relu (h) y = MatMul (r, w) }"


def test_feeds_are_what_they_were_and_leave_no_file(tmp_path, monkeypatch, rng):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = [{"a": rng.normal(size=(1, size)), "b": np.array([str(size)], object)} for size in range(1, 6)]
    found = list(stored_feeds.stored_feeds(iter(given), budget=40))
    for feed, wanted in zip(found, given, strict=True):
        assert list(feed) == list(wanted)
        assert len(feed) == 2
        assert all(np.array_equal(feed[name], array) for name, array in wanted.items())
        assert "c" not in feed
    del found, feed
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_samples_of_a_file_give_the_bytes_of_samples_in_memory(tmp_path, monkeypatch, rng):
    model = tiny_model(TEXT, {name: rng.normal(size=(8, 8)).astype(np.float32) for name in "vw"})
    samples = rng.normal(size=(40, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=samples)
    monkeypatch.setattr(simulate, "stored_feeds", lambda feeds: stored_feeds.stored_feeds(feeds, budget=100))
    onnx.save(model, tmp_path / "m.onnx")
    found = [
        quarkfast.quantize(tmp_path / "m.onnx", None, "A8W8", data, rounding="descent").model_bytes
        for data in ({"x": samples}, tmp_path / "x.npz")
    ]
    assert found[0] == found[1]
