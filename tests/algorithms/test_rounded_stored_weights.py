"""Weights alone, whose codes are chosen by what layers compute."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms.weight_rounding import settings_of
from quarkfast.config import PRESETS
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.noise import OutputNoise
from support.tiny_models import tiny_model

TEXT = """g (float[N, 80] x) => (float[N, 24] y) {
    a = MatMul (x, w1)
    r = Relu (a)
    b = Gemm <transB = 1> (r, w2, b2)
    s = Relu (b)
    y = Gemm (s, w3)
}"""
SHAPES = {"w1": (80, 48), "w2": (40, 48), "b2": (40,), "w3": (40, 24)}

STORED = [
    ("INT4_WO", {"group_size": 16}),
    ("INT4_WO", {"group_size": 32, "weight_symmetric": False}),
    ("INT4_WO", {"per_channel": True}),
    ("INT8_WO", {}),
    ("INT8_WO", {"weight_type": "uint8", "weight_symmetric": False}),
    ("INT8_WO", {"per_channel": False}),
    ("MATMUL_NBITS", {"group_size": 16}),
    ("MATMUL_NBITS", {"group_size": 32, "weight_symmetric": False}),
    *(("MATMUL_NBITS", {"weight_type": "int8", "weight_symmetric": each}) for each in (True, False)),
]


def _model():
    rng = np.random.default_rng(3)
    return tiny_model(TEXT, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _samples(count, seed):
    """Inputs that are mixtures of twelve: what rounding to nearest knows nothing of."""
    mixture = np.random.default_rng(1).normal(size=(12, 80))
    return (np.random.default_rng(seed).normal(size=(count, 12)) @ mixture).astype(np.float32)


def _quantized(preset, rounding, data=None, **options):
    data = _samples(200, 2) if data is None and rounding != "nearest" else data
    return quarkfast.quantize(_model(), None, preset, data, rounding=rounding, **options)


def _ratio(result):
    feed = {"x": _samples(64, 5)}
    return sqnr(*(exact_session(model).run(None, feed)[0] for model in (_model(), result.model_bytes)))


def _constants(result):
    return {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}


@pytest.mark.parametrize(("preset", "options"), STORED, ids=str)
@pytest.mark.parametrize("rounding", ["gptq", "descent"])
def test_outputs_on_other_samples_gain(preset, options, rounding):
    nearest, rounded = (_quantized(preset, each, **options) for each in ("nearest", rounding))
    assert _ratio(rounded) > _ratio(nearest) + 0.5
    (note,) = (note for note in rounded.summary.notes if "weight rounding" in note)
    assert note.startswith("weight rounding: codes of 3 layers chosen by their output; on 40 samples")
    assert rounded.model_bytes == _quantized(preset, rounding, **options).model_bytes


@pytest.mark.parametrize(("preset", "options"), STORED, ids=str)
def test_codes_biases_and_scales_of_groups_change_and_nothing_else(preset, options):
    nearest, rounded = (_quantized(preset, each, **options) for each in ("nearest", "gptq"))
    assert nearest.proto.graph.node == rounded.proto.graph.node
    before, after = _constants(nearest), _constants(rounded)
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    ending = "_nbits" if preset == "MATMUL_NBITS" else "_quantized"
    own = (ending, "_scale") if "group_size" in options else (ending,)
    assert changed == {"b2", *(f"{name}{each}" for name in ("w1", "w2", "w3") for each in own)}


@pytest.mark.parametrize("preset", ["INT4_WO", "MATMUL_NBITS"])
def test_scales_of_groups_gain_and_stay_where_that_is_asked_for(preset):
    fitted, kept = (
        quarkfast.quantize(_model(), None, replace(scheme, rounding_options=options), _samples(200, 2), group_size=16)
        for scheme in (replace(PRESETS[preset], rounding="gptq"),)
        for options in ((), (("scale_rounds", None),))
    )
    before, after = _constants(_quantized(preset, "nearest", group_size=16)), _constants(kept)
    assert all(np.array_equal(before[f"w{index}_scale"], after[f"w{index}_scale"]) for index in (1, 2, 3))
    assert _ratio(fitted) > _ratio(kept) + 0.5


def test_a_vector_that_is_added_to_a_product_makes_up_for_the_mean():
    text = "g (float[N, 80] x) => (float[N, 24] y) { a = MatMul (x, w)\n y = Add (a, b) }"
    rng = np.random.default_rng(4)
    values = {"w": rng.normal(0, 0.3, (80, 24)), "b": rng.normal(0, 1, 24)}
    model = tiny_model(text, {name: each.astype(np.float32) for name, each in values.items()})
    data = _samples(80, 2) + np.float32(3)
    result = quarkfast.quantize(model, None, "INT4_WO", data, rounding="gptq", group_size=16)
    assert not np.array_equal(_constants(result)["b"], values["b"].astype(np.float32))
    fitted = data[[i for i in range(80) if i % 5 != 4]]
    expected, got = (exact_session(each).run(None, {"x": fitted})[0] for each in (model, result.model_bytes))
    # Means of the inputs are counted in steps of 2^-15 of the largest, and float32 rounds sums of 80 products.
    assert np.abs((expected - got).mean(axis=0)).max() < 1e-3 < np.abs(expected - got).max()


@pytest.mark.parametrize("code", ["int3", "int4"])
def test_convolutions_are_layers_too(code):
    text = """g (float[N, 8, 6, 6] x) => (float[N, 6, 4, 4] y) {
        c = ConvTranspose <group = 2> (x, w1)
        y = Conv <kernel_shape = [5, 5]> (c, w2)
    }"""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 4, 3, 3), "w2": (6, 8, 5, 5)}
    model = tiny_model(text, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()})
    x = np.einsum("cm,nmhw->nchw", rng.normal(size=(8, 3)), rng.normal(size=(60, 3, 6, 6))).astype(np.float32)
    found = [
        quarkfast.quantize(model, None, "INT8_WO", x[:40], weight_type=code, rounding=each).model_bytes
        for each in ("nearest", "gptq")
    ]
    expected, *got = (exact_session(each).run(None, {"x": x[40:]})[0] for each in (model, *found))
    assert sqnr(expected, got[1]) > sqnr(expected, got[0]) + 1


def test_samples_are_wanted():
    with pytest.raises(
        quarkfast.ConfigError, match="rounding: expected calibration_data to run layers on with gptq, got none"
    ):
        quarkfast.quantize(_model(), None, "INT4_WO", rounding="gptq")


def test_random_samples_are_not_fitted_to():
    result = _quantized("INT4_WO", "gptq", "random")
    assert result.summary.notes[0] == "weight rounding was left out: the samples are random"
    assert _constants(result).keys() == _constants(_quantized("INT4_WO", "nearest")).keys()


def test_weights_of_sixteen_bits_stay_at_the_nearest_codes():
    graph = onnx.parser.parse_graph("g (float16[N, 32] x) => (float16[N, 32] y) { y = MatMul (x, w) }")
    weight = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float16)
    graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    data = np.ones((8, 32), np.float16)
    result = quarkfast.quantize(model, None, "INT4_WO", {"x": data}, rounding="gptq", group_size=32)
    note = "weight rounding was left out: no layer has a float32 weight of its own with codes that it may choose"
    assert note in result.summary.notes


def test_codes_that_are_no_better_are_undone(monkeypatch):

    monkeypatch.setattr(OutputNoise, "ratios", lambda _: np.array([10.0]))
    rounded = _quantized("INT4_WO", "gptq")
    assert any(note.startswith("weight rounding was undone") for note in rounded.summary.notes)
    before = _constants(_quantized("INT4_WO", "nearest"))
    assert all(np.array_equal(before[name], array) for name, array in _constants(rounded).items())


@pytest.mark.parametrize(
    ("preset", "given", "rows"),
    [("INT8_WO", (), 8), ("INT4_WO", (), 64), ("A8W8", (), 8), ("INT4_WO", (("rows_wanted", 16),), 16)],
)
def test_narrow_weights_alone_trust_their_samples_less(preset, given, rows):
    scheme = replace(PRESETS[preset], rounding="descent", rounding_options=given)
    assert settings_of(scheme).rows_wanted == rows
