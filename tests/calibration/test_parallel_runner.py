"""Samples shared out over workers: the same bytes as in one process."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import quarkfast
from quarkfast.calibration.parallel_runner import _cut
from quarkfast.errors import CalibrationError
from support.tiny_models import conv_relu_model, samples, tiny_model

X = samples(40)


class _Here(Executor):
    """Runs work at once and remembers it."""

    def __init__(self):
        self.parts = []

    def submit(self, work, *arguments):
        self.parts.append(arguments[3])
        future = Future()
        try:
            future.set_result(work(*arguments))
        except CalibrationError as error:
            future.set_exception(error)
        return future


def _calibrate(executor=None, data=X, **options):
    return quarkfast.calibrate(conv_relu_model(), data, executor=executor, batch_size=4, moments=True, **options)


def test_threads_give_the_same_bytes():
    with ThreadPoolExecutor(3) as executor:
        assert _calibrate(executor) == _calibrate()


def test_processes_give_the_same_bytes():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        calibration = _calibrate(executor)
    assert calibration == _calibrate()
    assert (calibration.samples, calibration.runs) == (40, 10)


def test_samples_are_shared_out_evenly_where_their_number_is_known(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    executor = _Here()
    assert _calibrate(executor) == _calibrate()
    assert [sum(len(feed["x"]) for feed in part) for part in executor.parts] == [16, 16, 8]


def test_a_stream_is_cut_into_parts_of_a_few_runs():
    executor = _Here()
    data = [X[:1]] * 40
    calibration = quarkfast.calibrate(conv_relu_model(), iter(data), executor=executor)
    assert [len(part) for part in executor.parts] == [16, 16, 8]
    assert calibration == quarkfast.calibrate(conv_relu_model(), iter(data))


def test_a_part_holds_no_more_than_64_mebibytes():
    feed = {"x": np.ones((1, 3 << 20), np.float64)}
    assert [len(part) for part in _cut(iter([feed] * 7), None)] == [3, 3, 1]


def test_no_more_is_read_than_the_workers_can_take(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    read = []

    class Unfinished(Future):
        def result(self, timeout=None):
            raise CalibrationError(f"read {len(read)}")

    class Slow(Executor):
        def submit(self, work, *arguments):
            return Unfinished()

    def feeds():
        for index in range(200):
            read.append(index)
            yield X[:1]

    # Two parts of 16 runs that are worked on, one that waits, and one more in hand.
    with pytest.raises(CalibrationError, match="read 64"):
        quarkfast.calibrate(conv_relu_model(), feeds(), executor=Slow())


def test_progress_counts_what_has_arrived():
    heard = []
    _calibrate(_Here(), progress=lambda *event: heard.append(event))
    assert [done for stage, done, _ in heard if stage == "calibrate"][-1] == 40


def test_a_sample_that_the_model_cannot_take_is_named_as_in_one_process():
    text = "g (float[N, 4] x) => (float[M, 2] y) { r = Relu(x) y = Reshape(r, shape) }"
    proto = tiny_model(text, {"shape": np.int64([-1, 8])})
    proto.graph.output[0].type.tensor_type.shape.Clear()
    data = [np.ones((2, 4), np.float32)] * 18 + [np.ones((3, 4), np.float32)]
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor,
        pytest.raises(CalibrationError, match="calibration data: sample 19: onnxruntime: "),
    ):
        quarkfast.calibrate(proto, data, executor=executor)


def _die(*_):
    os._exit(1)


def test_a_worker_that_is_lost_is_one_sentence():
    class Deadly(ProcessPoolExecutor):
        def submit(self, work, *arguments):
            return super().submit(_die, *arguments)

    with (
        Deadly(1, multiprocessing.get_context("spawn")) as executor,
        pytest.raises(CalibrationError, match="executor: expected a worker's statistics, got BrokenProcessPool: "),
    ):
        _calibrate(executor)


def test_an_executor_that_was_shut_down_is_one_sentence():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(CalibrationError, match="executor: expected it to take work, got RuntimeError: "):
        _calibrate(executor)


def test_a_run_that_is_cut_short_keeps_the_parts_that_arrived(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def feeds(failing):
        for index in range(60):
            if failing and index == 50:
                raise OSError("disk gone")
            yield X[:1]

    path = tmp_path / "c.json"
    with pytest.raises(CalibrationError, match="disk gone"):
        quarkfast.calibrate(conv_relu_model(), feeds(True), path, executor=_Here())
    assert quarkfast.Calibration.load(path).runs == 16
    resumed = quarkfast.calibrate(conv_relu_model(), feeds(False), path, executor=_Here(), resume=True)
    assert resumed == quarkfast.calibrate(conv_relu_model(), feeds(False))


def test_a_dask_cluster_gives_the_same_bytes():
    distributed = pytest.importorskip("distributed", reason="no Dask: the extra `dask` is not installed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        assert _calibrate(client.get_executor()) == _calibrate()
