"""Constants that join activations of 16 bits element by element have 16 bits too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

WIDTH = 16
# A BatchNormalization behind a Concat, which no layer takes in: channels differ by a factor of a thousand.
TEXT = """g (float[N, 16] x, float[N, 16] z) => (float[N, 16] y) {
    a = MatMul (x, w)
    b = Mul (a, scale)
    c = Add (b, shift)
    d = Concat <axis = 0> (c, z, token)
    y = LayerNormalization (d, gain, offset)
}"""
OPERANDS = ("scale", "shift", "token", "gain", "offset")


def _model(text=TEXT):
    rng = np.random.default_rng(6)
    arrays = {name: (10.0 ** rng.uniform(-3, 0, WIDTH)).astype(np.float32) for name in OPERANDS}
    arrays |= {"token": arrays["token"][None], "w": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)}
    return tiny_model(text, {name: array for name, array in arrays.items() if name in text})


def _data():
    return {"x": samples(32, (WIDTH,)), "z": samples(32, (WIDTH,))}


def _types(preset="A16W8", **options):
    result = quarkfast.quantize(_model(), preset=preset, calibration_data=_data(), fold_batch_norm=False, **options)
    found = {each.name: each.data_type for each in result.proto.graph.initializer}
    kinds = {name: found[f"{name}_quantized"] for name in (*OPERANDS, "w") if f"{name}_quantized" in found}
    return {name: onnx.TensorProto.DataType.Name(kind).lower() for name, kind in kinds.items()}


def test_operands_have_the_bits_of_the_result_and_layers_those_of_weights():
    assert _types() == dict.fromkeys(OPERANDS, "int16") | {"w": "int8"}


@pytest.mark.parametrize("options", [{"strict": True}, {"preset": "A8W8"}], ids=["strict", "A8W8"])
def test_other_schemes_have_one_type(options):
    assert set(_types(**options).values()) == {"int8"}


def test_what_the_user_says_comes_first():
    assert _types(constraints={"elementwise_constants": False})["shift"] == "int8"
    assert _types(tensors={"shift": {"dtype": "int8"}})["shift"] == "int8"


def test_a_result_that_is_raised_to_sixteen_bits_has_operands_of_these():
    found = _types("A8W8", tensors={"c": {"dtype": "int16"}})
    assert (found["shift"], found["scale"], found["w"]) == ("int16", "int8", "int8")


def test_small_shifts_survive():
    """With eight bits a shift below a 254th of the largest one is lost; nothing else of this model is so small."""
    model = _model("""g (float[N, 16] x) => (float[N, 16] y) {
        a = MatMul (x, w)
        y = Add (a, shift)
    }""")
    for each in model.graph.initializer:
        if each.name == "w":
            each.CopyFrom(onnx.numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), "w"))
    zeros = {"x": np.zeros((4, WIDTH), np.float32)}
    result = quarkfast.quantize(model, preset="A16W8", calibration_data=zeros)
    shift = run_exact(model, zeros)[0]
    # Half a step of the constant, and half a step of the sum, whose range is twice as wide as samples showed.
    step = np.abs(shift).max() / 32767
    assert np.abs(run_exact(result.model_bytes, zeros)[0] - shift).max() <= 1.5 * step * (1 + 2**-10)
