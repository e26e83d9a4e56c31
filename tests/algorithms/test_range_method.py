"""Ranges of least squared error in place of the extremes, where samples show that outputs have less noise with them."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import quarkfast
from quarkfast.algorithms import range_method
from quarkfast.algorithms.range_method import RANGE_METHOD
from quarkfast.config import PRESETS
from quarkfast.evaluate import sample_noise, sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.noise import Gains
from quarkfast.pipeline import simulate
from support.tiny_models import run_as_written, tiny_model

NOTE = "ranges of least squared error in place of the extremes: with rounded activations alone outputs gain "

TEXT = """g (float[N, 8, 40, 40] x) => (float[N, 8, 40, 40] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    s = %s
    y = Conv (s, w2, b2)
}"""
SHAPES = {"w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 8, 1, 1), "b2": (8,)}


def _model(function="Relu (c)"):
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return tiny_model(TEXT % function, weights)


def _samples(count, seed):
    """Samples of which one value in 50,000 is ten times as large as the others, which is one in every fourth sample."""
    rng = np.random.default_rng(seed)
    shape = (count, 8, 40, 40)
    values = rng.normal(size=shape) * np.where(rng.random(shape) < 2e-5, 10, 1)
    return values.astype(np.float32)


def _quantized(data=None, model=None, **options):
    given = {"preset": "A8W8"} | options
    data = _samples(24, 2) if data is None else data
    return quarkfast.quantize(_model() if model is None else model, calibration_data=data, **given)


def _notes(result):
    return [note for note in result.summary.notes if note.startswith(NOTE)]


def _ratio(result):
    """Returns the ratio of signal to noise on other samples, in the mean of their decibels."""
    x = _samples(32, 5)
    (expected,) = exact_session(_model()).run(None, {"x": x})
    got = run_as_written(result.model_bytes, x)
    return np.mean([sqnr(*each) for each in zip(expected, got, strict=True)])


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_outputs_on_other_samples_gain_where_extremes_are_rare(preset):
    found, without = _quantized(preset=preset), _quantized(preset=preset, search_ranges=False)
    (note,) = _notes(found)
    assert re.search(" dB in the mean of [3-5] samples$", note)
    assert _ratio(found) > _ratio(without) + 1
    assert _ratio(found) == pytest.approx(_ratio(_quantized(preset=preset, method="minmse")), abs=0.5)


@pytest.mark.parametrize(
    "options",
    [{"strict": True}, {"search_ranges": False}, {"method": "minmax"}, {"rounding": "descent"}, {"preset": "A16W8"}],
)
def test_what_leaves_it_out(options):
    assert not _notes(_quantized(**options))


@pytest.mark.parametrize("data", [_samples(4, 2), "random"])
def test_it_needs_enough_real_samples(data):
    assert not _notes(_quantized(data))


def test_extremes_stay_where_outputs_lose_by_others(monkeypatch):
    monkeypatch.setattr(Gains, "better", lambda gains, **_: False)
    found, without = _quantized(), _quantized(search_ranges=False)
    assert not _notes(found)
    assert found.summary.notes == without.summary.notes
    assert _ratio(found) == _ratio(without)


class _Judge:
    """Says for one sample after the other how many decibels the second form gains."""

    def __init__(self, gains, numbers):
        self.gains, self.seen, self.numbers, self._numbers = gains, 0, 0, numbers

    def see(self, feed):
        self.seen += 1
        self.numbers += self._numbers

    def noises(self):
        return [10 ** (np.array(self.gains[: self.seen]) / 10), np.ones(self.seen)]

    def close(self):
        pass


@pytest.mark.parametrize(
    ("gains", "numbers", "count", "taken"),
    [
        ([1.0, 1.2, 0.9], 1, 3, True),
        ([-1.0, -1.2, -0.9], 1, 3, False),
        ([3.0, 1.0, 2.0, 2.5], 10_000, 4, True),
        ([-3.0, -1.0, -2.0, -2.5], 10_000, 4, False),
        ([3.0, 1.0, 2.0, 2.5] * 4, 1, 5, True),  # of few numbers
        ([3.0, -1.0, 1.0, 3.0, 2.0, 1.5], 10_000, 5, True),  # 2.1 standard errors
        ([1.0, -2.0, -1.0, 1.0, -2.0] * 3, 1, 8, False),  # 0.9 below zero of five, 1.3 of eight
        ([3.0, -1.0, -1.0, 0.0, 0.0, 0.5, *[2.0, 0.0] * 5], 10_000, 9, True),  # 0.9 of eight, 1.3 of nine
        ([2.0, -1.5] * 8, 1, 16, False),  # 0.5 of all
        ([3.0, -3.0] * 8, 10_000, 16, False),
        ([math.inf, 2.0, 2.1, 1.9], 1, 4, True),
    ],
)
def test_no_more_samples_run_than_agree(monkeypatch, gains, numbers, count, taken):
    judge = _Judge(gains, numbers)
    monkeypatch.setattr(range_method, "activation_judge", lambda *arguments: judge)
    notes = _notes(_quantized())
    assert judge.seen == count
    assert bool(notes) == taken
    assert not taken or notes[0].endswith(f" dB in the mean of {np.isfinite(gains[:count]).sum()} samples")


def test_the_summary_counts_the_functions_whose_ranges_stay_fitted():
    """Ranges of both methods are fitted to what reads them, and the notes are those of the ranges that are taken."""
    found = _quantized(model=_model("Sigmoid (c)"), preset="U8S8")
    named = _quantized(model=_model("Sigmoid (c)"), preset="U8S8", method="minmse")
    assert _notes(found)
    kept = [note for note in found.summary.notes if note not in _notes(found)]
    assert sorted(kept) == sorted(named.summary.notes)
    assert _scales(found) == _scales(named)


def _scales(result):
    return {name: each.scale for name, each in result.summary.records.tensors.items() if each.kind == "activation"}


@pytest.mark.parametrize(("alike", "sessions"), [(True, 2), (False, 3)])
def test_kinds_of_ranges_share_a_session_unless_they_round_constants_otherwise(monkeypatch, alike, sessions):
    expected, opened = _quantized(), []
    monkeypatch.setattr(
        sample_noise, "exact_session", lambda *arguments: opened.append(arguments) or exact_session(*arguments)
    )
    monkeypatch.setattr(simulate, "_round_constants_alike", lambda one, other: alike)
    found = _quantized()
    assert _notes(found)
    assert len(opened) == sessions  # with that of the float model
    assert found.model_bytes == expected.model_bytes


def test_the_model_that_runs_takes_what_differs_as_inputs(monkeypatch):
    opened = []
    monkeypatch.setattr(sample_noise, "exact_session", lambda *each: opened.append(each[0]) or exact_session(*each))
    assert _notes(_quantized())
    graph = opened[1].graph
    given, constants = ({each.name for each in kind} for kind in (graph.input, graph.initializer))
    pairs = [node for node in graph.node if node.op_type == "QuantizeDequantizeLinear"]
    scales, zero_points = ({node.input[place] for node in pairs} for place in (1, 2))
    assert given == {"x", *scales}
    assert zero_points <= constants  # int8 is symmetric here


def test_a_range_that_the_user_gives_stays():
    found = _quantized(tensors={"s": {"range": [-4.0, 4.0]}})
    assert _notes(found)
    assert _scales(found)["s"] == pytest.approx(4 / 127.5, rel=0.01)


def test_it_is_on_where_the_extremes_are_only_the_default():
    assert RANGE_METHOD.settings(PRESETS["A8W8"]) is not None
    assert RANGE_METHOD.settings(PRESETS["U8S8"]) is not None
    assert RANGE_METHOD.settings(replace(PRESETS["A8W8"], search_ranges=True)) is None
    assert RANGE_METHOD.settings(PRESETS["XINT8"]) is None
    assert RANGE_METHOD.settings(PRESETS["BF16"]) is None


def test_the_same_bytes_on_every_run_and_for_any_batch_size():
    assert _quantized().model_bytes == _quantized().model_bytes
    assert _scales(_quantized()) == _scales(_quantized(batch_size=5))
