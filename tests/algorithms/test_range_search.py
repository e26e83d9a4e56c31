"""Ranges of activations that are chosen by what they do to the outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import quarkfast
from quarkfast.algorithms import judged_kinds
from quarkfast.config import PRESETS, Scheme
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.noise import Gains
from support.tiny_models import run_as_written, tiny_model

TEXT = """g (float[N, 8, 40, 40] x) => (float[N, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (c)
    d = Conv (r, w2, b2)
    q = Relu (d)
    p = AveragePool <kernel_shape = [10, 10], strides = [10, 10]> (q)
    f = Flatten (p)
    y = Gemm (f, w3, b3)
}"""
SHAPES = {"w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 8, 1, 1), "b2": (8,), "w3": (128, 5), "b3": (5,)}


def _model():
    rng = np.random.default_rng(3)
    return tiny_model(TEXT, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _samples(count, seed):
    """Samples with a heavy tail: their extremes are far beyond nearly all of them."""
    return np.random.default_rng(seed).standard_t(3, size=(count, 8, 40, 40)).astype(np.float32)


def _quantized(data=None, **options):
    given = {"preset": "A8W8"} | options
    return quarkfast.quantize(_model(), calibration_data=_samples(48, 2) if data is None else data, **given)


def _notes(result):
    return [note for note in result.summary.notes if note.startswith("range search")]


def _ratio(result):
    x = _samples(96, 5)
    (expected,) = exact_session(_model()).run(None, {"x": x})
    return sqnr(expected, run_as_written(result.model_bytes, x))


def test_outputs_on_other_samples_gain_where_extremes_are_rare():
    without, found = _quantized(search_ranges=False), _quantized(search_ranges=True)
    (note,) = _notes(found)
    assert note.startswith("range search: ranges of least error to the power ")
    assert "with rounded activations alone outputs gain " in note
    assert _ratio(found) > _ratio(without) + 1


def test_ranges_stay_where_samples_held_apart_object(monkeypatch):
    def of_noise(before, after):
        return Gains(np.zeros(before.size), np.full(before.size, -1.0 if before.size < 20 else 0.0))

    monkeypatch.setattr(Gains, "of_noise", of_noise)
    without, found = _quantized(search_ranges=False), _quantized(search_ranges=True)
    (note,) = _notes(found)
    assert note.startswith("range search was undone: with rounded activations alone outputs gain -1.0 dB ")
    assert note.endswith(" in the mean of 16 samples held apart")
    assert _scales(found) == _scales(without)


def test_ranges_of_the_method_stay_where_they_are_best(monkeypatch):
    monkeypatch.setattr(judged_kinds, "_choose", lambda *given: None)
    assert _notes(_quantized(search_ranges=True)) == [
        "range search: no other ranges of activations make less noise than those of the method"
    ]


def test_a_range_that_the_user_gives_stays():
    found = _quantized(search_ranges=True, tensors={"r": {"range": [-4.0, 4.0]}})
    assert _scales(found)["r_scale"] == pytest.approx(4 / 127.5, rel=0.01)


def test_the_summary_counts_no_function_whose_range_another_one_replaces():
    proto = tiny_model(
        TEXT.replace("r = Relu (c)", "s = Sigmoid (c) r = Mul (c, s)"),
        {name: np.random.default_rng(3).normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()},
    )
    given = {"preset": "U8S8", "calibration_data": _samples(48, 2)}
    without, found = (quarkfast.quantize(proto, search_ranges=each, **given) for each in (False, True))
    assert _notes(found)[0].startswith("range search: ranges of least error to the power ")
    assert _scales(found)["c_scale"] != _scales(without)["c_scale"]
    told = [any(note.startswith("ranges end where") for note in each.summary.notes) for each in (without, found)]
    assert told == [True, False]


def test_ranges_end_where_the_function_that_reads_them_is_flat_whatever_the_power():
    text = TEXT.replace("y = Gemm (f, w3, b3)", "g = Gemm (f, w3, b3) s = Mul (g, large) y = Sigmoid (s)")
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()}
    proto = tiny_model(text, arrays | {"large": np.float32(100)})
    given = {"preset": "A8W8", "calibration_data": _samples(48, 2)}
    without, found = (quarkfast.quantize(proto, search_ranges=each, **given) for each in (False, True))
    assert _notes(found)[0].startswith("range search: ranges of least error to the power ")
    told = [[note for note in each.summary.notes if note.startswith("ranges end where")] for each in (without, found)]
    assert told[0] == told[1]
    assert told[0][0].endswith("1 Sigmoid")


def test_it_needs_enough_real_samples():
    assert not _notes(_quantized(_samples(4, 2), search_ranges=True))
    assert not _notes(_quantized("random", search_ranges=True))


def test_the_same_bytes_on_every_run_and_for_any_batch_size():
    options = {"search_ranges": True, "rounding": "descent"}
    first, second = _quantized(**options), _quantized(**options, batch_size=5)
    assert _scales(first) == _scales(second)


def test_rounding_by_outputs_turns_it_on_unless_a_method_is_given():
    assert not PRESETS["A8W8"].searches_ranges
    assert replace(PRESETS["A8W8"], rounding="descent").searches_ranges
    assert not replace(PRESETS["A8W8"], rounding="descent", search_ranges=False).searches_ranges
    assert not replace(PRESETS["A16W8"], rounding="descent").searches_ranges
    assert _notes(_quantized(rounding="descent"))
    assert not _notes(_quantized(rounding="descent", method="minmse"))


def test_plain_data_keeps_it():
    scheme = replace(PRESETS["A8W8"], search_ranges=True)
    assert Scheme.from_dict(scheme.to_dict()) == scheme
    assert "search_ranges" not in PRESETS["A8W8"].to_dict()


def test_activations_without_8_bit_codes_are_refused():
    with pytest.raises(ConfigError, match=r"search_ranges: expected a preset with activations of 8 bits, such as A8W8"):
        _quantized(preset="A16W8", search_ranges=True)


def _scales(result):
    from onnx.numpy_helper import to_array

    names = {node.input[1] for node in result.proto.graph.node if node.op_type == "QuantizeLinear"}
    return {each.name: float(to_array(each)) for each in result.proto.graph.initializer if each.name in names}
