"""A run that is interrupted, fails or must not take too much memory: nothing is lost, nothing is half."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import quarkfast
from quarkfast import Calibration
from quarkfast.calibration import live_bytes, parse_bytes
from quarkfast.calibration.data import ModelInput, open_data
from quarkfast.calibration.memory import resident_bytes
from quarkfast.calibration.session import uninterrupted
from quarkfast.errors import CalibrationError, ConfigError
from quarkfast.graph.load import load_model
from support.tiny_models import conv_relu_model, samples, tiny_model

X = samples(12)
INPUT = (ModelInput("x", np.dtype(np.float32), ("N", 3, 8, 8)),)


def _feeds(failure=None, after=2):
    for index in range(6):
        if failure is not None and index == after:
            raise failure
        yield X[2 * index : 2 * index + 2]


@pytest.mark.parametrize("failure", [OSError("disk gone"), KeyboardInterrupt()], ids=["reader fails", "Ctrl-C"])
@pytest.mark.parametrize("after", [1, 5])
def test_what_was_gathered_is_kept_and_gone_on_from(tmp_path, failure, after):
    path = tmp_path / "c.json"
    expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else CalibrationError
    with pytest.raises(expected):
        quarkfast.calibrate(conv_relu_model(), _feeds(failure, after), path)
    kept = Calibration.load(path)
    assert (kept.complete, kept.samples, kept.runs) == (False, 2 * after, after)
    heard = []
    resumed = quarkfast.calibrate(
        conv_relu_model(), _feeds(), path, resume=True, progress=lambda *event: heard.append(event)
    )
    whole = quarkfast.calibrate(conv_relu_model(), _feeds())
    assert resumed == whole == Calibration.load(path)
    assert resumed.complete
    assert next(done for stage, done, _ in heard if stage == "calibrate" and done) == 2 * after


def test_a_reader_that_fails_leaves_its_error_as_the_cause(tmp_path):
    message = "calibration data: sample 3: expected the reader to give it, got OSError: disk gone"
    with pytest.raises(CalibrationError, match=message) as caught:
        quarkfast.calibrate(conv_relu_model(), _feeds(OSError("disk gone")), tmp_path / "c.json")
    assert isinstance(caught.value.__cause__, OSError)


def test_a_second_failure_keeps_what_both_runs_gathered(tmp_path):
    path = tmp_path / "c.json"
    for after in (2, 4):
        with pytest.raises(CalibrationError):
            quarkfast.calibrate(conv_relu_model(), _feeds(OSError(), after), path, resume=True)
    assert Calibration.load(path).runs == 4


def test_without_anything_gathered_nothing_is_written(tmp_path):
    with pytest.raises(CalibrationError):
        quarkfast.calibrate(conv_relu_model(), _feeds(OSError(), 0), tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_within_a_run_keeps_nothing_of_it(tmp_path):
    text = "g (float[N, 4] x) => (float[M, 2] y) { r = Relu(x) y = Reshape(r, shape) }"
    proto = tiny_model(text, {"shape": np.int64([-1, 8])})
    proto.graph.output[0].type.tensor_type.shape.Clear()
    data = [np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)]
    with pytest.raises(CalibrationError, match="calibration data: sample 2: onnxruntime: "):
        quarkfast.calibrate(proto, data, tmp_path / "c.json")
    assert list(tmp_path.iterdir()) == []


def test_resuming_needs_the_same_model_and_batches_and_something_left_to_do(tmp_path):
    path = tmp_path / "c.json"
    with pytest.raises(CalibrationError):
        quarkfast.calibrate(conv_relu_model(), _feeds(OSError()), path)
    other = conv_relu_model(b1=np.zeros(3, np.float32))
    with pytest.raises(
        CalibrationError, match=r"resume: expected a calibration at .* of this model and these settings"
    ):
        quarkfast.calibrate(other, _feeds(), path, resume=True)
    with pytest.raises(
        CalibrationError, match=r"resume: expected a calibration at .* with batch_size 3, got one with None"
    ):
        quarkfast.calibrate(conv_relu_model(), _feeds(), path, resume=True, batch_size=3)
    quarkfast.calibrate(conv_relu_model(), _feeds(), path, resume=True)
    with pytest.raises(CalibrationError, match=r"that was cut short, got a complete one of 12 samples; use it"):
        quarkfast.calibrate(conv_relu_model(), _feeds(), path, resume=True)


def test_resuming_where_nothing_was_kept_begins_at_the_beginning(tmp_path):
    calibration = quarkfast.calibrate(conv_relu_model(), _feeds(), tmp_path / "c.json", resume=True)
    assert calibration == quarkfast.calibrate(conv_relu_model(), _feeds())


def test_what_was_cut_short_does_not_pass_for_a_calibration(tmp_path):
    path = tmp_path / "c.json"
    with pytest.raises(CalibrationError):
        quarkfast.calibrate(conv_relu_model(), _feeds(OSError()), path)
    message = "calibration: expected a complete one, got one that was cut short after 4 samples; resume it, or merge it"
    with pytest.raises(CalibrationError, match=message):
        quarkfast.quantize(conv_relu_model(), calibration=path)
    quarkfast.quantize(conv_relu_model(), calibration=quarkfast.merge_calibrations([path]))


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also where the tests were started in the background, whose processes ignore it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_real_interrupt_from_the_keyboard_keeps_whole_runs(tmp_path):
    script = f"""
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import quarkfast
        from support.tiny_models import conv_relu_model, samples
        def feeds():
            for index in range(100):
                yield samples(1)
        def progress(stage, done, total):
            if stage == "calibrate" and done == 7:
                os.kill(os.getpid(), signal.SIGINT)
        quarkfast.calibrate(conv_relu_model(), feeds(), {os.fspath(tmp_path / "c.json")!r}, progress=progress)
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False, capture_output=True, text=True
    )
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    kept = Calibration.load(tmp_path / "c.json")
    assert (kept.complete, kept.runs) == (False, 7)
    assert all(each.range.count % kept.runs == 0 for each in kept.tensors.values())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupt_waits_for_the_end_of_a_run(interruptible):
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("run")
        done.append("never")
    assert done == ["run"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_another_signal_that_ends_the_process_waits_too():
    def end(number, frame):
        raise KeyboardInterrupt

    done, before = [], signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("run")
            done.append("never")
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["run"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_second_interrupt_does_not_wait(interruptible):
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        done.append("once")
        os.kill(os.getpid(), signal.SIGINT)
        done.append("twice")
    assert done == ["once"]


def test_in_another_thread_there_is_nothing_to_wait_for():
    done = []

    def work():
        with uninterrupted():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize(("text", "size"), [("2GB", 2e9), ("512 MiB", 512 << 20), (7, 7), ("1.5k", 1500)], ids=str)
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", 0, "0GB", "2 XB", True], ids=str)
def test_other_sizes_are_one_sentence(text):
    with pytest.raises(ConfigError, match="max_memory: expected a size such as 2GB or 512MiB, got"):
        parse_bytes(text)


def test_live_bytes_are_those_of_the_widest_moment():
    text = "g (float[N, 100] x) => (float[N, 100] y) { a = Relu(x) b = Neg(a) c = Add(a, b) y = Relu(c) }"
    model = load_model(tiny_model(text))
    # x, which lives to the end, with a, b and c at the Add.
    assert live_bytes(model, {"x": np.ones((8, 100), np.float32)}) == 4 * 8 * 100 * 4
    assert model.graph.inputs[0].shape[0].value == "N", "expected the model as it was"


@pytest.mark.skipif(resident_bytes() is None, reason="this system does not tell the memory of a process")
def test_resident_memory_is_that_of_now():
    """A mapping is asked for itself: what is freed, an allocator may keep."""
    before = resident_bytes()
    with mmap.mmap(-1, 64 << 20) as held:
        np.frombuffer(held, np.uint8)[:] = 1
        assert resident_bytes() - before > 32 << 20
    assert resident_bytes() - before < 32 << 20


@pytest.mark.skipif(resident_bytes() is None, reason="this system does not tell the memory of a process")
def test_batches_are_cut_to_the_memory(monkeypatch):
    monkeypatch.setattr("quarkfast.calibration.runner.resident_bytes", lambda: 0)
    calibration = quarkfast.calibrate(conv_relu_model(), X, max_memory="280kB")
    assert calibration.ranges == quarkfast.calibrate(conv_relu_model(), X).ranges
    assert 1 < calibration.runs < 12
    assert quarkfast.calibrate(conv_relu_model(), X, max_memory="1GB").runs == 1


def test_too_little_memory_is_refused_before_the_run(monkeypatch):
    monkeypatch.setattr("quarkfast.ort.run", None)
    with pytest.raises(CalibrationError, match=r"expected at least [\d.]+ [MG]B for this model, got 1.0 kB$"):
        quarkfast.calibrate(conv_relu_model(), X, max_memory="1kB")


def test_a_batch_that_the_model_fixes_is_not_cut():
    proto = conv_relu_model()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    with pytest.raises(CalibrationError, match=r"for this model, got 1.0 kB; give smaller samples, the model does not"):
        quarkfast.quantize(proto, calibration_data=X, max_memory="1kB")


def test_more_memory_than_was_forecast_stops_the_run_and_keeps_what_there_is(tmp_path, monkeypatch):
    held = iter([0, 10**6, 10**10])
    monkeypatch.setattr("quarkfast.calibration.runner.resident_bytes", lambda: next(held))
    message = r"max_memory: expected at most 1.0 GB, got 10.0 GB; use a smaller batch_size"
    with pytest.raises(CalibrationError, match=message):
        quarkfast.calibrate(conv_relu_model(), _feeds(), tmp_path / "c.json", max_memory="1GB")
    assert Calibration.load(tmp_path / "c.json").runs == 2


def test_the_forecast_is_logged(caplog):
    with caplog.at_level("INFO", "quarkfast"):
        quarkfast.calibrate(conv_relu_model(), X)
    assert caplog.messages[-1].startswith("calibration: 4 tensors, about ")


def test_resized_samples_are_all_there():
    opened = open_data(X, INPUT, batch_size=8)
    opened.resize(3)
    feeds = list(opened)
    assert [len(feed["x"]) for feed in feeds] == [3, 3, 3, 3]
    np.testing.assert_array_equal(np.concatenate([feed["x"] for feed in feeds]), X)
