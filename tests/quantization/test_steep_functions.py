"""Arithmetic in front of logarithms and roots stays float: codes hold no more than the loudest part of a spectrum."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate.metrics import sqnr
from support.tiny_models import tiny_model

POWERS = """re = Slice(c, zero, nine, one)
    im = Slice(c, nine, eighteen, one)
    a = Mul(re, re)
    b = Pow(im, two)
    p = Add(a, b)"""
POWER_SPECTRUM = """g (float[1, 1, 256] x) => (float[1, 9, 31] y) {
    d = Conv<pads = [2, 2]>(x, q)
    h = Relu(d)
    c = Conv<strides = [8]>(h, w)
    POWERS
    f = Max(p, floor)
    y = FUNCTION
}""".replace("POWERS", POWERS)
FUNCTIONS = {"Log": "Log(f)", "Sqrt": "Sqrt(f)", "Pow": "Pow(f, third)", "Reciprocal": "Reciprocal(f)"}
IN_FRONT = {"Add", "Max", "Mul", "Pow"}
PRESETS = ["A8W8", "A16W8", "U8S8", "XINT8", "FP16", "BFP16"]
WEIGHTS_ALONE = ["INT8_WO", "BF16_WO", "FP16_WO"]
LAYERS_ALONE = ["MX9", "MXINT8", "MXFP8E4M3"]  # of these the target takes no more


def _model(text):
    angle = 2 * np.pi * np.arange(9)[:, None] * np.arange(16) / 16
    window = np.hanning(16)
    constants = {
        "w": np.concatenate([np.cos(angle) * window, np.sin(angle) * window])[:, None].astype(np.float32),
        "mel": np.random.default_rng(0).uniform(0, 1, (9, 4)).astype(np.float32),
        "k": np.random.default_rng(1).normal(0, 1, (4, 4, 1)).astype(np.float32),
        "q": np.float32([0.1, 0.2, 0.4, 0.2, 0.1])[None, None],
        "hann": np.hanning(16).astype(np.float32),
        "step": np.int64(8),
        "window": np.hanning(256).astype(np.float32),
        "ends": np.int64([0, 0, 4, 0, 0, 4]),
        "size": np.int64([2048]),
        "places": np.arange(0, 36, 2),
        "weights": np.random.default_rng(2).uniform(0, 1, 18).astype(np.float32),
        "last": np.int64([36]),
        "shape": np.int64([9, 4]),
        **{name: np.int64([value]) for name, value in (("zero", 0), ("one", 1), ("nine", 9), ("eighteen", 18))},
        **{name: np.float32(value) for name, value in (("two", 2), ("third", 1 / 3), ("floor", 1e-4))},
    }
    return tiny_model(text, {name: array for name, array in constants.items() if name in text})


def _sounds(seed):
    time, random = np.arange(256), np.random.default_rng(seed)
    found = []
    for _ in range(8):
        pitch, phase = random.uniform(0.05, 0.15), random.uniform(0, 6)
        found.append({"x": np.float32(np.sin(pitch * time + phase) + random.normal(0, 0.01, 256))[None, None]})
    return found


def _float_nodes(text, preset, **options):
    plan = quarkfast.plan(_model(text), preset=preset, **options)
    return {name.rsplit("_", 1)[0] for name in plan.left_float}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_powers_sums_and_floors_have_no_pair(name, preset):
    assert _float_nodes(POWER_SPECTRUM.replace("FUNCTION", FUNCTIONS[name]), preset) == {
        each.lower() for each in IN_FRONT | {name}
    }


def test_what_has_exponents_of_its_own_is_quantized():
    assert "add" not in _float_nodes(POWER_SPECTRUM.replace("FUNCTION", FUNCTIONS["Log"]), "BF16")


def test_a_square_alone_is_quantized():
    left = _float_nodes(POWER_SPECTRUM.replace("FUNCTION", "Relu(f)"), "A8W8")
    assert not left & {"add", "mul", "max"}


def test_what_others_read_too_is_quantized():
    text = """g (float[1, 4] x) => (float[1, 4] y, float[1, 4] z) {
        a = Mul(x, x)
        y = Sqrt(a)
        z = Relu(a)
    }"""
    assert _float_nodes(text, "A8W8") == {"sqrt"}


# A transform of the input, and layers behind it.
FRONT_END = """g (float[1, 1, 256] x) => (float[1, 4, 31] y) {
    IN_FRONT
    c = Conv<strides = [8]>(s, w)
    POWERS
    m = Sqrt(p)
    t = Transpose<perm = [0, 2, 1]>(m)
    e = MatMul(t, mel)
    f = Max(e, floor)
    l = Log(f)
    u = Transpose<perm = [0, 2, 1]>(l)
    v = Conv(u, k)
    y = Relu(v)
}""".replace("POWERS", POWERS)
SIGNALS = {
    "alone": "s = Identity(x)",
    "scaled": "s = Div(x, two)",
    "padded": "s = Pad(x, ends)",
    "windowed": "s = Mul(x, window)",
    "without its mean": "o = ReduceMean<axes = [2]>(x)  s = Sub(x, o)",
    "emphasized": "i = Pad(x, ends)  j = Mul(i, two)  s = Sub(i, j)",
    "filtered": "d = Conv<pads = [2, 2]>(x, q)  s = Identity(d)",
    "decimated": "s = AveragePool<kernel_shape = [2]>(x)",
}


@pytest.mark.parametrize("preset", [*PRESETS, "BF16"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_transform_of_the_inputs_has_no_pair(name, preset):
    plan = quarkfast.plan(_model(FRONT_END.replace("IN_FRONT", SIGNALS[name])), preset=preset)
    assert [node.rsplit("_", 1)[0] for node in plan.quantized] in (["conv", "relu"], ["transpose", "conv", "relu"])


@pytest.mark.parametrize("preset", LAYERS_ALONE)
@pytest.mark.parametrize("name", SIGNALS)
def test_a_transform_of_the_inputs_has_no_blocks(name, preset):
    plan = quarkfast.plan(_model(FRONT_END.replace("IN_FRONT", SIGNALS[name])), preset=preset)
    assert [node.rsplit("_", 1)[0] for node in plan.quantized] == ["conv"]


@pytest.mark.parametrize("preset", WEIGHTS_ALONE)
@pytest.mark.parametrize("name", SIGNALS)
def test_constants_of_a_transform_of_the_inputs_stay(name, preset):
    model = _model(FRONT_END.replace("IN_FRONT", SIGNALS[name]))
    plan = quarkfast.plan(model, preset=preset)
    reasons = {each for node, each in plan.left_float.items() if node.rsplit("_", 1)[0] in ("conv", "matmul")}
    assert reasons == {"codes cannot carry what a logarithm or a root makes of it"}
    assert [node.rsplit("_", 1)[0] for node in plan.quantized] == (["conv"] if preset == "INT8_WO" else [])


@pytest.mark.parametrize("preset", WEIGHTS_ALONE)
def test_constants_of_layers_behind_a_function_are_stored(preset):
    model = _model(FRONT_END.replace("IN_FRONT", "s = Relu(x)"))
    assert "conv" in {node.rsplit("_", 1)[0] for node in quarkfast.plan(model, preset=preset).quantized}


# The same by operators of the standard.
SPECTRA = {
    "STFT": "c = STFT(x, step, hann)  p = ReduceSumSquare<axes = [-1], keepdims = 0>(c)",
    "magnitudes": "c = STFT(x, step, hann)  p = ReduceL2<axes = [-1], keepdims = 0>(c)",
    "DFT": "c = DFT<axis = 1, onesided = 1>(x)  p = ReduceSumSquare<axes = [-1], keepdims = 0>(c)",
}
STANDARD = """g (float[1, 16, 1] x) => (float[1, M, 4] y) {
    SPECTRUM
    e = MatMul(p, mel)
    f = Max(e, floor)
    y = Log(f)
}"""


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", SPECTRA)
def test_a_spectrum_by_the_standard_s_operators_is_one_of_the_inputs(name, preset):
    plan = quarkfast.plan(_model(STANDARD.replace("SPECTRUM", SPECTRA[name])), preset=preset)
    assert not plan.quantized
    assert not plan.activations.keys() & {"x", "c", "p", "e", "f"}


SPARSE_MEL = """z = ConstantOfShape(size)
    r = ScatterElements(z, places, weights)
    n = Slice(r, zero, last, zero)
    mel = Reshape(n, shape)"""


def test_a_matrix_that_nodes_compute_from_constants_is_one_of_the_transform():
    text = FRONT_END.replace("IN_FRONT", SIGNALS["alone"]).replace("e = MatMul", f"{SPARSE_MEL} e = MatMul")
    model = _model(text)
    del model.graph.initializer[[each.name for each in model.graph.initializer].index("mel")]
    plan = quarkfast.plan(model, preset="A8W8")
    assert [node.rsplit("_", 1)[0] for node in plan.quantized] in (["conv", "relu"], ["transpose", "conv", "relu"])


def test_layers_behind_a_function_are_no_transform_of_the_inputs():
    assert "conv" not in _float_nodes(FRONT_END.replace("IN_FRONT", "s = Relu(x)"), "A8W8")


def test_a_transform_that_others_read_too_is_quantized():
    text = FRONT_END.replace("IN_FRONT", SIGNALS["alone"])
    text = text.replace("31] y) {", "31] y, float[1, 18, 31] z) {").replace("y = Relu(v)", "y = Relu(v)  z = Relu(c)")
    assert "conv" not in _float_nodes(text, "A8W8")


def test_a_transform_that_is_asked_for_is_quantized():
    text = FRONT_END.replace("IN_FRONT", SIGNALS["alone"])
    assert "conv" in _float_nodes(text, "A8W8")
    assert "conv" not in _float_nodes(text, "A8W8", extra_op_types=["Log", "Sqrt"])


def test_sounds_of_a_transform_of_the_inputs_are_as_good_as_what_is_behind_it():
    model = _model(FRONT_END.replace("IN_FRONT", SIGNALS["alone"]))
    own = quarkfast.quantize(model, preset="A8W8", calibration_data=_sounds(1))
    paired = quarkfast.quantize(
        model, preset="A8W8", calibration_data=_sounds(1), extra_op_types=["Log", "Sqrt", "Pow"]
    )
    assert _ratio(model, own) > _ratio(model, paired) + 6


def test_who_asks_for_the_shape_reads_no_values():
    text = """g (float[N, 4] x) => (float[M] z, int64[2] s) {
        a = Mul(x, x)
        s = Shape(a)
        b = Log(a)
        n = ReduceProd<keepdims = 1>(s)
        z = Reshape(b, n)
    }"""
    assert {"mul", "log"} <= _float_nodes(text, "A8W8")


def test_a_function_that_is_asked_for_is_quantized_with_what_it_reads():
    text = POWER_SPECTRUM.replace("FUNCTION", FUNCTIONS["Log"])
    assert _float_nodes(text, "A8W8", extra_op_types=["Log"]) == {"pow"}


def test_the_summary_gives_the_reason():
    plan = quarkfast.plan(_model(POWER_SPECTRUM.replace("FUNCTION", FUNCTIONS["Log"])), preset="A8W8")
    (reason,) = {reason for name, reason in plan.left_float.items() if name.startswith("add")}
    assert reason == "codes cannot carry what a logarithm or a root makes of it"


def test_a_logarithm_of_powers_keeps_its_quiet_part():
    model = _model(POWER_SPECTRUM.replace("FUNCTION", FUNCTIONS["Log"]))
    own = quarkfast.quantize(model, preset="A16W8", calibration_data=_sounds(1))
    # With pairs on them, 16 bits of powers end 45 dB below the loudest amplitude: the floor of 1e-4 is far below that.
    paired = quarkfast.quantize(model, preset="A16W8", calibration_data=_sounds(1), extra_op_types=["Log", "Pow"])
    assert _ratio(model, own) > _ratio(model, paired) + 6


def _ratio(model, quantized):
    pairs = [[run(feed) for feed in _sounds(2)] for run in (_runner(model), _runner(quantized.proto))]
    return sqnr(*(np.concatenate(side).astype(np.float64) for side in pairs))


def _runner(model):
    session = ort.inference_session(model.SerializeToString(), ort.session_options(optimize=False))
    return lambda feed: ort.run(session, feed)[0]
