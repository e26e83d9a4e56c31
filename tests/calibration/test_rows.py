"""How many rows a calibration run has where nobody has said: as many as the budget for activations allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.calibration import CalibrationRun, fit_rows, live_bytes
from quarkfast.calibration.data import ModelInput, open_data
from quarkfast.calibration.memory import rows_within_budget
from quarkfast.graph.load import load_model
from quarkfast.statistics import StatisticsRequest
from support.tiny_models import samples, tiny_model

OPEN = (ModelInput("x", np.dtype(np.float32), ("N", 3, "H", "W")),)
WEIGHT = np.random.default_rng(5).normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)


def _model(rows: int | str = "N") -> onnx.ModelProto:
    """Returns a convolution of images of any size whose three tensors are 19 channels, all live at the Relu."""
    text = f"""g (float[{rows}, 3, H, W] x) => (float[{rows}, 8, H, W] y) {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        y = Relu (c)
    }}"""
    return tiny_model(text, {"w": WEIGHT})


@pytest.fixture
def runs(monkeypatch):
    """The number of rows of each run of a session, as they come."""
    seen = []
    run = ort.run

    def counted(session, feed):
        seen.append(len(next(iter(feed.values()))))
        return run(session, feed)

    monkeypatch.setattr("quarkfast.ort.run", counted)
    # What measures the outputs on the first sample is no calibration.
    monkeypatch.setattr("quarkfast.pipeline.quantization_steps.output_sqnr", lambda *_, **__: ())
    return seen


@pytest.mark.parametrize(
    ("live", "rows"),
    [(0, 32), (1 << 10, 32), (1 << 17, 32), ((1 << 17) + 1, 16), (5 << 18, 2), (4 << 20, 1), (1 << 40, 1)],
)
def test_rows_are_a_power_of_two_within_the_budget(live, rows):
    assert rows_within_budget(live) == rows
    assert rows == 1 or rows * live <= 4 << 20


@pytest.mark.parametrize(("side", "rows"), [(8, [32, 8]), (64, [8] * 5), (128, [2] * 20), (700, [1] * 40)], ids=str)
def test_large_samples_have_fewer_rows_a_run(runs, side, rows):
    assert live_bytes(load_model(_model()), {"x": np.ones((1, 3, side, side), np.float32)}) == (3 + 8 + 8) * side**2 * 4
    x = np.broadcast_to(samples(1, (3, side, side)), (40, 3, side, side))
    assert quarkfast.calibrate(_model(), x).runs == len(rows)
    assert runs == rows


def test_rows_that_were_asked_for_stay(runs):
    quarkfast.calibrate(_model(), samples(6, (3, 700, 700)), batch_size=5)
    assert runs == [5, 1]


def test_rows_that_the_model_fixes_stay(runs):
    quarkfast.calibrate(_model(4), samples(8, (3, 256, 256)))
    assert runs == [4, 4]


def test_readers_are_fed_as_they_come(runs):
    quarkfast.calibrate(_model("batch"), iter([samples(3, (3, 512, 512)), samples(1, (3, 512, 512))]))
    assert runs == [3, 1]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "DYNAMIC"])
@pytest.mark.parametrize("budget", [1, 100_000, 1 << 40])
def test_the_bytes_of_the_result_do_not_depend_on_the_rows(monkeypatch, preset, budget):
    expected = quarkfast.quantize(_model(), preset=preset, calibration_data=samples(40))
    monkeypatch.setattr("quarkfast.calibration.memory.LIVE_BYTES", budget)
    assert quarkfast.quantize(_model(), preset=preset, calibration_data=samples(40)).model_bytes == expected.model_bytes


def test_runs_in_an_executor_are_those_of_this_process():
    x = samples(10, (3, 128, 128))
    with ThreadPoolExecutor(2) as executor:
        shared = quarkfast.calibrate(_model(), x, executor=executor)
    alone = quarkfast.calibrate(_model(), x)
    assert shared == alone
    assert (shared.runs, alone.runs) == (5, 5)


def test_the_magnitudes_of_channels_are_found_within_the_budget(runs, monkeypatch):
    rng = np.random.default_rng(6)
    arrays = {"s": rng.uniform(0.1, 9, 64), "b": rng.normal(size=64), "w": rng.normal(size=(64, 64))}
    text = """g (float[N, S, 64] x) => (float[N, S, 64] y) {
        n = LayerNormalization (x, s, b)
        y = MatMul (n, w)
    }"""
    model = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    x = rng.normal(size=(6, 2_500, 64)).astype(np.float32)
    given = {"preset": "DYNAMIC", "calibration_data": x, "strict": True}  # no sample is run to judge weights
    result = quarkfast.quantize(model, **given)
    assert (result.summary.samples, runs) == (6, [2, 2, 2])  # 3 tensors of 0.64 MB are live
    runs.clear()
    monkeypatch.setattr("quarkfast.calibration.memory.LIVE_BYTES", 1 << 40)
    assert quarkfast.quantize(model, **given).model_bytes == result.model_bytes
    assert runs == [6]


def test_rows_that_are_larger_than_the_first_are_fewer(tmp_path):
    for index, side in enumerate([8] * 40 + [80] * 4 + [8] * 2):
        np.save(tmp_path / f"{index:02}.npy", samples(1, (3, side, side)))
    opened = open_data(tmp_path, OPEN)
    opened.resize(32)
    assert [feed["x"].shape[::2] for feed in opened] == [(32, 8), (8, 8), (1, 80), (1, 80), (1, 80), (1, 80), (2, 8)]


def test_no_more_than_one_row_is_read_before_the_rows_are_known(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=samples(40))
    read, fromfile = [], np.fromfile

    def counted(path, dtype, count, offset):
        read.append(count // (3 * 8 * 8))
        return fromfile(path, dtype, count=count, offset=offset)

    monkeypatch.setattr(np, "fromfile", counted)
    opened = open_data(tmp_path / "x.npz", OPEN)
    assert read == [1]
    fit_rows(CalibrationRun(load_model(_model()), StatisticsRequest(), ""), opened)
    assert [len(feed["x"]) for feed in opened] == [32, 8]


def test_memory_that_is_smaller_than_the_budget_decides(runs, monkeypatch):
    monkeypatch.setattr("quarkfast.calibration.runner.resident_bytes", lambda: 0)
    row = (3 + 8 + 8) * 128**2 * 4
    quarkfast.calibrate(_model(), samples(4, (3, 128, 128)), max_memory=3 * row)
    assert runs == [2, 2]  # the statistics and the weights take some of the third


def test_a_run_that_was_cut_short_is_resumed_with_other_rows(tmp_path, monkeypatch):
    x, path = samples(40, (3, 16, 16)), tmp_path / "c.json"

    def stop(stage, done, total):
        if stage == "calibrate" and done == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quarkfast.calibrate(_model(), x, path, progress=stop)
    monkeypatch.setattr("quarkfast.calibration.memory.LIVE_BYTES", 20 * (3 + 8 + 8) * 16**2 * 4)
    resumed = quarkfast.calibrate(_model(), x, path, resume=True)
    whole = quarkfast.calibrate(_model(), x)
    assert (resumed.samples, resumed.runs, whole.runs) == (40, 2, 3)
    assert resumed.ranges == whole.ranges
    for name, each in resumed.tensors.items():
        expected = whole.tensors[name].histogram
        assert each.histogram.exponent == expected.exponent
        np.testing.assert_array_equal(each.histogram.counts, expected.counts)


def test_shapes_are_known_without_following_long_values():
    text = """g (float[N] x) => (float[N] y) {
        s = Shape (x)
        o = ConstantOfShape (s)
        y = Add (x, o)
    }"""
    model = load_model(tiny_model(text))
    few, many = 1 << 10, 1 << 22  # following 2^22 values would take onnx 3 s and 0.9 GB
    assert live_bytes(model, {"x": np.ones(few, np.float32)}) == 3 * 4 * few
    assert live_bytes(model, {"x": np.ones(many, np.float32)}) >= 4 * many
