"""Data and machines that are not as one would like them: outliers, NaN, sizes, disks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import quarkfast
from quarkfast import Calibration, ort
from quarkfast.errors import CalibrationError, OutputError
from quarkfast.kernels import histogram, reduce_range
from quarkfast.ranges.registry import METHODS
from support.tiny_models import conv_relu_model, samples, tiny_model

SEQUENCE = "g (float[N, L, 4] x) => (float[N, L, 4] y) { y = Mul (x, two) }"


def _sequence_model():
    return tiny_model(SEQUENCE, {"two": np.float32(2)})


def _same(seen, values):
    expected = histogram(values)
    return (
        seen.range == reduce_range(values)
        and seen.histogram.exponent == expected.exponent
        and np.array_equal(seen.histogram.counts, expected.counts)
    )


@pytest.mark.parametrize("large", [0, 5, 11], ids=["first", "in the middle", "last"])
def test_a_sample_ten_thousand_times_larger_than_the_others_is_counted_wherever_it_comes(large):
    x = samples(12)
    x[large] *= 1e4
    seen = quarkfast.calibrate(conv_relu_model(), x, batch_size=1)
    assert _same(seen.tensors["x"], x)
    assert seen.tensors["y"] != quarkfast.calibrate(conv_relu_model(), samples(12), batch_size=1).tensors["y"]


def test_sequences_of_varying_length_are_counted_as_one():
    rng = np.random.default_rng(4)
    feeds = [{"x": rng.normal(size=(2, length, 4)).astype(np.float32)} for length in (3, 17, 1, 64)]
    seen = quarkfast.calibrate(_sequence_model(), feeds).tensors["x"]
    assert _same(seen, np.concatenate([feed["x"].ravel() for feed in feeds]))
    assert seen.extremes[0] == 4


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
@pytest.mark.parametrize("method", METHODS)
def test_nan_and_infinity_are_counted_and_touch_no_scale(preset, method):
    clean = samples(8)
    dirty = np.concatenate(
        [clean, np.full((1, 3, 8, 8), np.nan, np.float32), np.full((1, 3, 8, 8), np.inf, np.float32)]
    )
    dirty[-1, 0, 0, 0] = -np.inf
    seen = quarkfast.calibrate(conv_relu_model(), dirty, batch_size=1)
    counted = seen.tensors["x"].range
    assert (counted.nan, counted.pos_inf, counted.neg_inf, counted.finite) == (192, 191, 1, 8 * 192)
    result = quarkfast.quantize(conv_relu_model(), preset=preset, calibration=seen, method=method)
    expected = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=clean, batch_size=1, method=method)
    assert _scale(result, "x") == _scale(expected, "x")
    assert any("192 NaN and 192 infinite values were left out" in note for note in result.summary.notes)


def _scale(result, tensor):
    (found,) = (each for each in result.proto.graph.initializer if each.name == f"{tensor}_scale")
    return found.SerializeToString()


def test_an_input_of_no_samples_is_one_sentence():
    with pytest.raises(CalibrationError, match="calibration data: expected at least one"):
        quarkfast.calibrate(conv_relu_model(), samples(0))


def test_one_input_may_be_empty():
    """The cache of a decoder that begins, and axes that stand for all of them."""
    text = """g (float[1, 2, p, 4] past, float[1, 2, n, 4] x, int64[k] axes) => (float[1, 2, A, 4] y, float s) {
        y = Concat <axis = 2> (past, x)
        s = ReduceMean <keepdims = 0> (y, axes)
    }"""
    proto = tiny_model(text, opset=18)
    feed = {"past": np.zeros((1, 2, 0, 4), np.float32), "x": samples(1, (2, 3, 4)), "axes": np.zeros(0, np.int64)}
    result = quarkfast.quantize(proto, calibration_data=[feed])
    expected, got = (
        ort.run(ort.inference_session(each), feed) for each in (proto.SerializeToString(), result.model_bytes)
    )
    # Two roundings to 8 bits, each of half a step: the range from -max to max has 254 of them.
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=np.abs(expected[0]).max() / 127)
    with pytest.raises(
        CalibrationError, match=r"sample 1: input 'past': expected at least one value, got shape \[1, 2, 0"
    ):
        quarkfast.quantize(proto, calibration_data=[feed | {"x": feed["past"]}])


linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which file is which, and limits their size")


@linux
def test_a_calibration_that_does_not_fit_on_the_disk_is_kept_elsewhere(tmp_path, monkeypatch):
    """The output's folder is full, the one for temporary files is not."""
    (tmp_path / "full").mkdir()
    (tmp_path / "free").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "free"))
    fsync = os.fsync

    def full(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path / "full"):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", full)
    message = r"output: expected to write '.*full.*', got No space left on device; what was gathered is at '(.*)'$"
    with pytest.raises(OutputError, match=message) as caught:
        quarkfast.calibrate(conv_relu_model(), samples(), tmp_path / "full" / "c.json")
    assert list((tmp_path / "full").iterdir()) == []
    monkeypatch.undo()
    kept = Calibration.load(str(caught.value).rpartition("is at '")[2][:-1])
    assert kept == quarkfast.calibrate(conv_relu_model(), samples())


_NO_ROOM = """
    import resource, signal, sys
    import quarkfast
    from support.tiny_models import conv_relu_model, samples
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # of one file, as of a disk that is all but full
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        quarkfast.calibrate(conv_relu_model(), samples(), sys.argv[1])
    except quarkfast.OutputError as error:
        print(error)
"""


@linux
def test_where_there_is_no_room_at_all_nothing_half_is_left(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    here = os.pathsep.join(sys.path)
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_NO_ROOM), str(tmp_path / "out" / "c.json")],
        env={**os.environ, "PYTHONPATH": here, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "got File too large; make room there, there is none for temporary files either" in told
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.exhaustive
def test_a_tensor_of_a_billion_elements_is_counted_to_the_last():
    """4 GB in one tensor, made inside the graph; more than 2^31 bytes, and more than 2^31 increments in two runs."""
    text = """g (float[1, 4096] x) => (float[1] y) {
        e = Expand (x, shape)
        s = Mul (e, two)
        y = ReduceMax <axes = [0, 1], keepdims = 0> (s)
    }"""
    rows = 10**9 // 4096 + 1
    model = tiny_model(text, {"shape": np.array([rows, 4096]), "two": np.float32(2)})
    x = np.random.default_rng(6).normal(size=(1, 4096)).astype(np.float32)
    seen = quarkfast.calibrate(model, x, moments=True).tensors["s"]
    once = histogram(2 * x)
    assert seen.range.count == rows * 4096 > 10**9
    np.testing.assert_array_equal(seen.histogram.counts, once.counts * np.uint64(rows))
    assert seen.moments.sum == rows * quarkfast.moments(2 * x).sum


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BF16", "BFP16", "DYNAMIC"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_without_a_number_are_warned_of(preset, value):
    with pytest.warns(UserWarning, match="expected finite values in input 'x', got NaN or infinity alone"):
        quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=np.full_like(samples(), value))
