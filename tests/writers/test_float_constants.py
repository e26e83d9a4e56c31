"""Biases and weights in float, which onnxruntime's optimizer leaves as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.writers.runtime_forms import keep_floats
from support.tiny_models import samples, tiny_model

BIASES = np.float32([0, 1e-30, -3.4e38, 1.5, -0.1, 1e20, 2.0**-126, np.pi])
LAYERS = {
    "Conv": ("float[N, 4, 6, 6]", "Conv(a, w, b)", (8, 4, 1, 1)),
    "ConvTranspose": ("float[N, 4, 6, 6]", "ConvTranspose<group = 2>(a, w, b)", (4, 4, 2, 2)),
    "Gemm": ("float[N, 4]", "Gemm(a, w, b)", (4, 8)),
    "a transposed Gemm": ("float[N, 4]", "Gemm<transB = 1>(a, w, b)", (8, 4)),
    "MatMul": ("float[N, 4]", "MatMul(a, w) c = Add(b, m)", (4, 8)),
}


def _between_pairs(layer, biases=BIASES, opset=17):
    """A layer with float weights that reads codes and whose result becomes codes."""
    kind, text, shape = LAYERS[layer]
    result = "m" if "Add" in text else "c"
    text = f"""g ({kind} x) => (float[N] y) {{
        q = QuantizeLinear(x, s, z)
        a = DequantizeLinear(q, s, z)
        {result} = {text}
        r = Relu(c)
        p = QuantizeLinear(r, s, z)
        y = DequantizeLinear(p, s, z)
    }}"""
    given = {"s": np.float32(0.05), "z": np.int8(0), "w": np.full(shape, 0.3, np.float32)}
    given |= {} if biases is None else {"b": biases}
    proto = tiny_model(text if biases is not None else text.replace(", b)", ")"), given, opset)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def _kept(proto):
    model = load_model(proto)
    keep_floats(model)
    return onnx.ModelProto.FromString(serialize(model))


def _given(proto):
    """What the DequantizeLinear of a bias gives."""
    (decoder,) = [node for node in proto.graph.node if node.input[0].endswith("_quantized")]
    graph = onnx.helper.make_graph(
        [decoder], "g", [], [onnx.helper.make_tensor_value_info(decoder.output[0], 1, None)], proto.graph.initializer
    )
    alone = onnx.helper.make_model(graph, opset_imports=proto.opset_import, ir_version=8)
    return ort.run(ort.inference_session(alone.SerializeToString()), {})[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_bias_of_a_float_weight_is_decoded_to_the_same_floats(layer):
    np.testing.assert_array_equal(_given(_kept(_between_pairs(layer))), BIASES)


@pytest.mark.parametrize("layer", [name for name in LAYERS if name != "MatMul"])
def test_a_layer_without_a_bias_gets_one_of_zeros(layer):
    np.testing.assert_array_equal(_given(_kept(_between_pairs(layer, None))), np.zeros(8, np.float32))


def test_before_scales_of_channels_were_known_there_is_one_for_all():
    biases = np.float32([0.1, -0.3, 2.7, 1e-4, 0, 1.9, -0.7, 0.011])
    given = _given(_kept(_between_pairs("Conv", biases, opset=12)))
    np.testing.assert_allclose(
        given, biases, rtol=2.0**-24, atol=4 * 2.0**-31
    )  # the scale is that of magnitudes below 4


def test_doing_it_twice_is_doing_it_once():
    once = _kept(_between_pairs("Conv"))
    assert _kept(once) == once


def test_it_is_onnxruntime_that_makes_a_float_bias_and_weight_integers_otherwise():
    """From 1.21 on; where this begins to fail, biases need no codes any more."""
    if tuple(map(int, ort.runtime_version().split(".")[:2])) >= (1, 21):
        found = _optimized(_between_pairs("Conv", np.ones(8, np.float32)).SerializeToString())
        assert found.count("DequantizeLinear") == 4


THREE = """g (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y) {
    [first] a = Conv(x, u, b)
    [second] c = Conv(a, v, b)
    [third] y = Conv(c, v, b)
}"""


def _three(rng, bias=1.0):
    arrays = {"u": (4, 3, 1, 1), "v": (4, 4, 1, 1), "b": (4,)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in arrays.items()}
    return tiny_model(THREE, arrays | {"b": arrays["b"] * np.float32(bias)})


def _optimized(data):
    """The operators that onnxruntime makes of a model, without a layout of its own for convolutions."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.session_options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder, "optimized.onnx"))
        ort.inference_session(data, options)
        return [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_an_excluded_layer_between_quantized_ones_computes_in_float(preset, rng):
    result = quarkfast.quantize(_three(rng), preset=preset, calibration_data=samples(), exclude=["second"])
    found = _optimized(result.model_bytes)
    assert found.count("Conv") + found.count("QLinearConv") == 3
    assert "Conv" in found


def test_a_float_bias_that_an_integer_kernel_can_add_stays_a_constant(rng):
    proto = _three(rng)
    result = quarkfast.quantize(proto, calibration_data=samples(), bias="float", equalize=False)
    (stored,) = [each for each in result.proto.graph.initializer if each.name == "b"]
    assert stored.data_type == onnx.TensorProto.FLOAT


def test_a_float_bias_for_which_an_integer_kernel_has_no_room_is_given_in_float(rng):
    result = quarkfast.quantize(_three(rng, 1e9), calibration_data=samples(), bias="float", equalize=False)
    assert "b_quantized" in [each.name for each in result.proto.graph.initializer]
