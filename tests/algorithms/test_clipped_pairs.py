"""Factors of channels that pass a Clip which samples never need."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms.cross_layer_equalization import (
    CrossLayerEqualizationSettings,
    channels_between_layers,
    equalize,
)
from quarkfast.config import POLICY
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline import outlier_steps
from support.tiny_models import run_as_written, tiny_model

CHANNELS = 8
BETWEEN = {
    "ReLU6": "r = Clip (a, zero, six)",
    "ReLU6, padded": "c = Clip (a, zero, six) r = Pad (c, pads)",
    "two Clips": "c = Clip (a, zero, wide) r = Clip (c, zero, six)",
}
OTHERS = {
    "no lower limit": "r = Clip (a, none, six)",
    "another lower limit": "r = Clip (a, below, six)",
    "no upper limit below infinity": "r = Clip (a, zero, zero)",
    "computed limits": "m = ReduceMax <keepdims = 0> (x) r = Clip (a, zero, m)",
}
NUMBERS = {"zero": np.float32(0), "six": np.float32(6), "wide": np.float32(20), "below": np.float32(-1)}
NUMBERS["pads"] = np.int64([0, 0, 1, 1, 0, 0, 1, 1])
SETTINGS = CrossLayerEqualizationSettings("useful_octaves", through_clip=True)

# How far channels reach: the last one is clipped, the one in front of it nearly.
REACH = np.float32([0.01, 0.02, 0.05, 0.1, 0.4, 1.5, 5.5, 6])


def _model(between="r = Clip (a, zero, six)", spread=2.0):
    """Returns a model whose small channels are read with large weights, as batch normalization leaves them."""
    rng = np.random.default_rng(4)
    arrays = {"u": rng.uniform(0.5, 1, (CHANNELS, 3, 1, 1)), "d": rng.uniform(0.5, 1, (CHANNELS, 1, 3, 3))}
    arrays["b"] = np.zeros(CHANNELS)
    octaves = spread ** -np.arange(CHANNELS, 0, -1)
    arrays["u"] *= 8 * octaves[:, None, None, None]
    arrays["d"] /= octaves[:, None, None, None]
    nodes = f"a = Conv (x, u, b) {between} y = Conv <group = 8> (r, d)".replace("none", "")
    text = f"g (float[N, 3, 8, 8] x) => (float[N, 8, h, w] y) {{ {nodes} }}"
    constants = {name: np.asarray(each, np.float32) for name, each in arrays.items()} | NUMBERS
    return tiny_model(text, {name: each for name, each in constants.items() if name in text})


def _samples(seed=1, count=16):
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype(np.float32)


def _factors(proto, reach, settings=SETTINGS):
    """Returns what each channel is multiplied by."""
    model = load_model(proto)
    before = _constants(to_proto(model))
    equalize(model, settings, reach)
    after = _constants(to_proto(model))
    made, read = (np.abs(after[name]).max(axis=(1, 2, 3)) / np.abs(before[name]).max(axis=(1, 2, 3)) for name in "ud")
    np.testing.assert_allclose(made * read, 1)
    return made


def _constants(proto):
    return {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_channels_below_the_limit_are_scaled_and_stay_below_it(between):
    factors = _factors(_model(between), {"r": REACH})
    assert factors[0] > 4  # further than without samples
    assert np.all(factors[-2:] == 1)
    assert np.all(REACH[:-2] * factors[:-2] <= 0.8 * 6)


def test_no_bias_grows_beyond_twice_the_largest():
    proto, bias = _model(), np.float32([-1, -0.1, 0, 0.5, 0, 0, 0, 2])
    for each in proto.graph.initializer:
        if each.name == "b":
            each.CopyFrom(onnx.numpy_helper.from_array(bias, "b"))
    dead = REACH * (np.arange(CHANNELS) > 1)
    found, free = (_factors(each, {"r": dead}) for each in (proto, _model()))
    assert found.tolist() == [4, *np.minimum(free[1:], [32, np.inf, 8, *[np.inf] * 3, 1]).tolist()]
    assert free[0] > 4


def test_channels_reach_no_further_than_the_furthest():
    assert np.all(_factors(_model(), {"r": REACH / 6}) * REACH / 6 <= 1)


@pytest.mark.parametrize("between", OTHERS.values(), ids=OTHERS)
def test_other_clips_keep_layers_apart(between):
    assert channels_between_layers(load_model(_model(between)), SETTINGS) == {}
    assert np.all(_factors(_model(between), {"r": REACH}) == 1)


def test_nothing_is_scaled_where_no_sample_was_seen():
    assert np.all(_factors(_model(), {}) == 1)


@pytest.mark.parametrize("factors", ["octaves", "exact"])
def test_factors_that_are_not_weighed_stop_at_a_clip(factors):
    settings = CrossLayerEqualizationSettings(factors, through_clip=True)
    assert channels_between_layers(load_model(_model()), settings) == {}
    assert np.all(_factors(_model(), {"r": REACH}, settings) == 1)


def test_weights_that_are_alike_ask_for_no_sample():
    assert channels_between_layers(load_model(_model()), SETTINGS) == {"r": 1}
    assert channels_between_layers(load_model(_model(spread=1.01)), SETTINGS) == {}


def test_a_largest_factor_holds_here_too():
    settings = CrossLayerEqualizationSettings("useful_octaves", through_clip=True, largest_factor=2)
    assert _factors(_model(), {"r": REACH}, settings).max() == 2


def _quantized(**options):
    return quarkfast.quantize(_model(), preset="XINT8", calibration_data=_samples(), **options)


def test_outputs_gain_by_it_and_the_summary_says_so():
    others = _samples(2, 64)
    (expected,) = exact_session(_model()).run(None, {"x": others})
    ratios = {}
    for through in (True, False):
        result = _quantized(equalize_options={"through_clip": through})
        ratios[through] = sqnr(expected, run_as_written(result.model_bytes, others))
        assert not quarkfast.check_model(result.proto, "ryzenai-xint8").errors
        told = [note for note in result.summary.notes if note.startswith("cross-layer equalization: 1 pair of layers")]
        assert len(told) == through
    assert ratios[True] > ratios[False] + 6


def test_the_float_model_computes_the_same_on_the_samples(monkeypatch):
    seen = {}
    whole = outlier_steps.observe_channels

    def observe(context, kind, axes):
        seen.update(whole(context, kind, axes)[0])
        return whole(context, kind, axes)

    monkeypatch.setattr(outlier_steps, "observe_channels", observe)
    _quantized(strict=True, equalize_options={"through_clip": True})
    model = load_model(_model())
    assert equalize(model, SETTINGS, seen)
    expected, got = (exact_session(each).run(None, {"x": _samples()})[0] for each in (_model(), to_proto(model)))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("unknown", ["large", "random", "equalize"])
def test_without_samples_that_tell_or_equalization_a_clip_keeps_layers_apart(unknown):
    options = {"equalize": False} if unknown == "equalize" else {"equalize_options": {"through_clip": True}}
    options |= {"policy": {"judged_bytes": 0}} if unknown == "large" else {}
    data = "random" if unknown == "random" else _samples()
    left = quarkfast.quantize(_model(), preset="XINT8", calibration_data=data, strict=True, **options)
    assert not [note for note in left.summary.notes if note.startswith("cross-layer equalization")]


def test_poor_outputs_have_it_tried():
    proto, samples = _model(spread=8.0), _samples(count=24)
    found = quarkfast.quantize(proto, preset="XINT8", calibration_data=samples)
    assert found.summary.notes[-1].startswith("equalization through Clip was added, for output 'y' had ")
    assert found.summary.notes[-1].endswith('; equalize_options={"through_clip": False} leaves it out')
    asked = quarkfast.quantize(proto, preset="XINT8", calibration_data=samples, equalize_options={"through_clip": True})
    assert asked.model_bytes == found.model_bytes
    for options in ({"equalize_options": {"through_clip": False}}, {"strict": True}):
        left = quarkfast.quantize(proto, preset="XINT8", calibration_data=samples, **options)
        assert left.summary.outputs[0][1] < POLICY.poor_sqnr
        assert not [note for note in left.summary.notes if "through Clip" in note]


def test_it_is_left_out_where_samples_held_apart_gain_too_little():
    options = {"preset": "A16W8", "calibration_data": _samples(count=24), "equalize_options": {"through_clip": True}}
    (note,) = [each for each in quarkfast.quantize(_model(spread=1.01), **options).summary.notes if "left out" in each]
    assert note.startswith("equalization through Clip was left out, for it brought less than 1 dB: on ")
    assert note.endswith("; strict=True keeps it")


def test_targets_of_quality_pull_it():
    made = quarkfast.quantize(_model(), preset="XINT8", calibration_data=_samples(count=32), min_sqnr=80)
    names = ["as asked", "output_bias_correction=True", "equalization through Clip"]
    assert [each.lever for each in made.summary.levers][:3] == names
