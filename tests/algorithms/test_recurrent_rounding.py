"""Codes of W and R of recurrent layers, chosen by what these multiply."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import quarkfast
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import tiny_model

UNITS, INPUTS = 12, 16
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _model(kind="LSTM", direction="forward", settings="linear_before_reset = 1"):
    """A recurrent layer whose last state a product reads."""
    settings = settings if kind == "GRU" else ""
    both = 2 if direction == "bidirectional" else 1
    text = f"""g (float[T, N, {INPUTS}] x) => (float[{both}, N, 3] z) {{
        y, h = {kind} <hidden_size = {UNITS}, direction = "{direction}"{settings and ", " + settings}> (x, w, r)
        z = MatMul (h, v)
    }}"""
    rng, gates = np.random.default_rng(6), GATES[kind] * UNITS
    shapes = {"w": (both, gates, INPUTS), "r": (both, gates, UNITS), "v": (UNITS, 3)}
    return tiny_model(text, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()})


def _samples(count, seed):
    """Sequences of mixtures of three numbers that change slowly: what rounding to nearest knows nothing of."""
    rng, mixture = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(3, INPUTS))
    slow = np.cumsum(rng.normal(0, 0.4, size=(count, 20, 1, 3)), axis=1)
    return [{"x": each.astype(np.float32)} for each in slow @ mixture]


def _quantized(rounding, model=None, **options):
    given = {"preset": "INT8_WO", "weight_type": "int4", "strict": True, "bias_correction": False} | options
    return quarkfast.quantize(model or _model(), calibration_data=_samples(40, 2), rounding=rounding, **given)


def _ratio(made, model):
    pairs = ((run_exact(model, feed)[0], run_exact(made.model_bytes, feed)[0]) for feed in _samples(24, 5))
    return np.mean([sqnr(expected, got) for expected, got in pairs])


def _codes(made):
    arrays = {each.name: numpy_helper.to_array(each) for each in made.proto.graph.initializer}
    return {name: arrays[f"{name}_quantized"].astype(np.int64) for name in "wr"}


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_outputs_on_other_samples_gain(kind, direction):
    model = _model(kind, direction)
    nearest, rounded = (_quantized(rounding, model) for rounding in ("nearest", "descent"))
    assert _ratio(rounded, model) > _ratio(nearest, model) + 1
    assert any("weight rounding: codes of 3 layers" in note for note in rounded.summary.notes)
    had, has = _codes(nearest), _codes(rounded)
    assert all((had[name] != has[name]).any() for name in "wr")


def test_gptq_takes_them():
    model = _model()
    nearest, rounded = (_quantized(each, model) for each in ("nearest", "gptq"))
    assert _ratio(rounded, model) > _ratio(nearest, model) + 1


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "XINT8"])
def test_a_static_preset_that_is_told_to_take_them(preset):
    options = {"preset": preset, "extra_op_types": ["LSTM"], "weight_type": "int8"}
    model = _model()
    nearest, rounded = (_quantized(each, model, **options) for each in ("nearest", "descent"))
    assert any("weight rounding: codes of 3 layers" in note for note in rounded.summary.notes)
    assert _ratio(rounded, model) > _ratio(nearest, model)


def test_the_state_times_a_gate_leaves_the_nearest_codes():
    model = _model("GRU", settings="linear_before_reset = 0")
    had, has = (_codes(_quantized(rounding, model)) for rounding in ("nearest", "descent"))
    assert (had["w"] != has["w"]).any()
    assert (had["r"] == has["r"]).all()


def test_the_same_codes_on_every_run():
    one, other = (_quantized("descent").model_bytes for _ in range(2))
    assert one == other
