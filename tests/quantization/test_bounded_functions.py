"""Results of bounded functions of which samples show a part: the whole range where it costs little, else a line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization import bounded_results, place
from quarkfast.targets import TARGETS
from support.processors import run_exact
from support.tiny_models import tiny_model

RNG = np.random.default_rng(21)
CONSTANTS = {
    "w": RNG.normal(0, 0.35, (16, 32)).astype(np.float32),
    "v": RNG.normal(0, 0.6, (32, 1)).astype(np.float32),
    "b": np.array([-7], np.float32),
    "one": np.float32(1),
    "three": np.float32(3),
    "zero": np.float32(0),
    "six": np.float32(6),
    "m": RNG.normal(0, 1, (1, 4)).astype(np.float32),
    "flat": np.int64([-1]),
}
DETECTOR = "g (float[N, 16] x) => (float[N, 1] p) { a = MatMul(x, w) r = Relu(a) c = MatMul(r, v) z = Add(c, b) "
FUNCTIONS = {
    "Sigmoid": "p = Sigmoid(z) }",
    "Sigmoid that is moved": "q = Sigmoid(z) t = Transpose(q) p = Transpose(t) }",
    "Sigmoid that is joined": "q = Sigmoid(z) p = Concat<axis = 1>(q, q) }",
    "Sigmoid in parts": "n = Neg(z) e = Exp(n) s = Add(e, one) p = Div(one, s) }",
    "product of two": "q = Sigmoid(z) o = Sigmoid(z) p = Mul(q, o) }",
    "HardSigmoid": "p = HardSigmoid<alpha = 0.16666667, beta = 0.5>(z) }",
    "HardSigmoid in parts": "q = Add(z, three) o = Clip(q, zero, six) p = Div(o, six) }",
    "Tanh": "p = Tanh(z) }",
    "Erf": "p = Erf(z) }",
}
IN_PARTS = "Sigmoid in parts"
SIXTEEN = ("A16W8",)
EIGHT = ("A8W8", "XINT8", "U8S8")


def _model(end):
    text = DETECTOR + end
    if "joined" in text or "Concat" in text:
        text = text.replace("float[N, 1] p", "float[N, 2] p")
    return tiny_model(text, {name: value for name, value in CONSTANTS.items() if name in text})


def _samples(proto):
    """Return samples for which the detector gives next to nothing, and some for which it gives much."""
    x = np.random.default_rng(1).normal(0, 1.2, (4000, 16)).astype(np.float32)
    (found,) = run_exact(_model(FUNCTIONS["Sigmoid"]), {"x": x})
    return x[found.ravel() < 0.01][:64], x[found.ravel() > 0.9][:16]


@pytest.mark.parametrize("preset", [*EIGHT, *SIXTEEN])
def test_a_detector_calibrated_without_events_finds_them(preset):
    proto = _model(FUNCTIONS["Sigmoid"])
    background, events = _samples(proto)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=background)
    assert (run_exact(result.model_bytes, {"x": events})[0] > 0.5).all()
    assert not (run_exact(result.model_bytes, {"x": background})[0] > 0.5).any()
    told = [note for note in result.summary.notes if "bounded functions" in note]
    assert len(told) == (preset in EIGHT)
    assert all("'p' (Sigmoid) 0.0" in note for note in told)


@pytest.mark.parametrize("preset", [*EIGHT, *SIXTEEN])
@pytest.mark.parametrize("end", [end for name, end in FUNCTIONS.items() if name != IN_PARTS])
def test_outputs_of_bounded_functions_reach_their_limits(end, preset):
    proto = _model(end)
    background, events = _samples(proto)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=background)
    (got,) = run_exact(result.model_bytes, {"x": events})
    # Layers saturate where events exceed what samples showed, which takes some of 0.9 and more.
    assert (got > 0.5).all()


@pytest.mark.parametrize("preset", EIGHT)
def test_a_sigmoid_in_parts_reaches_its_limits(preset):
    """In 16 bits its exponential has codes, of which the largest of the samples takes all."""
    test_outputs_of_bounded_functions_reach_their_limits(FUNCTIONS[IN_PARTS], preset)


def test_strict_keeps_what_samples_showed():
    proto = _model(FUNCTIONS["Sigmoid"])
    background, events = _samples(proto)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=background, strict=True)
    assert run_exact(result.model_bytes, {"x": events})[0].max() < 0.02


GATE = "g (float[N, 4] x) => (float[N, 4] y) { s = Sigmoid(x) y = Mul(s, m) }"


def _largest(result, tensor):
    (scale,) = (each for each in result.proto.graph.initializer if each.name == f"{tensor}_scale")
    codes = 2**15 if "A16W8" in result.summary.preset else 2**7
    return float(onnx.numpy_helper.to_array(scale)) * (codes - 1)


@pytest.mark.parametrize(("preset", "largest"), [("A8W8", 0.3), ("A16W8", 1.0)])
def test_a_gate_within_a_network_has_the_whole_range_in_16_bits_alone(preset, largest):
    x = RNG.uniform(-3, np.log(0.3 / 0.7), (64, 4)).astype(np.float32)
    result = quarkfast.quantize(tiny_model(GATE, {"m": CONSTANTS["m"]}), preset=preset, calibration_data=x)
    assert _largest(result, "s") == pytest.approx(largest, rel=0.05)
    told = [note for note in result.summary.notes if "saturate where samples ended" in note]
    assert len(told) == (preset == "A8W8")


@pytest.mark.parametrize(("seen", "largest"), [(0.2, 1), (0.4, 0.4), (0.8, 0.8)])
def test_an_output_in_8_bits_is_whole_where_samples_showed_next_to_nothing(seen, largest):
    x = RNG.uniform(-3, np.log(seen / (1 - seen)), (64, 4)).astype(np.float32)
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] s) { s = Sigmoid(x) }")
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=x)
    assert _largest(result, "s") == pytest.approx(largest, rel=0.05)
    told = [note.partition(":")[0] for note in result.summary.notes if "bounded" in note]
    assert len(told) == (seen < 0.5)
    assert all(("whole range of bounded" in note) is (largest == 1) for note in told)


def test_the_range_that_the_user_gives_stays():
    proto = _model(FUNCTIONS["Sigmoid"])
    background, events = _samples(proto)
    rules = {"p": {"range": [0, 0.5]}}
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=background, tensors=rules)
    assert run_exact(result.model_bytes, {"x": events})[0].max() == pytest.approx(0.5)


def _results(text, constants=()):
    scheme = PRESETS["A16W8"]
    model = prepare(load_model(tiny_model(text, dict(constants))), 21)
    return bounded_results(model, place(model, scheme, TARGETS[scheme.target]))


def test_limits_pass_through_extremes_and_means_and_no_sums():
    text = """g (float[N, 4] x) => (float[N, 1] m, float[N, 4] t) {
        s = Sigmoid(x) m = ReduceMean<axes = [1]>(s) t = Add(s, s)
    }"""
    assert {name: each.limits for name, each in _results(text).items()} == {"s": (0, 1), "m": (0, 1)}


def test_activations_that_hold_an_output_too_are_known():
    text = "g (float[N, 4] x) => (float[N, 8] y) { s = Sigmoid(x) l = Relu(x) y = Concat<axis = 1>(s, l) }"
    assert _results(text)["s"].moved == ("y",)
