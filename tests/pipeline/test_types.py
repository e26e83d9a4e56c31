"""Activations and weights have types of their own, in every combination that makes sense."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.formats import activation_formats, weight_formats
from quarkfast.formats.scalar import SCALAR_FORMATS
from quarkfast.pipeline.resolve import resolve
from support.processors import run_exact
from support.tiny_models import conv_relu_model, samples, tiny_model

INTEGERS = [name for name in activation_formats() if name in SCALAR_FORMATS and SCALAR_FORMATS[name].is_integer]
FLOATS = [name for name in activation_formats() if name in SCALAR_FORMATS and not SCALAR_FORMATS[name].is_integer]

# Signal-to-noise ratio in dB that the tiny model's output keeps at least: 6.02 dB a bit of the mantissa, less 20 for
# normal values in a full range and three roundings in a row (float8 has 3 and 4 bits counting the hidden one).
BITS = {"float8_e5m2": 3, "float8_e4m3fn": 4, "bfloat16": 8, "float16": 11}


def _floor(*dtypes):
    bits = min(BITS.get(dtype) or SCALAR_FORMATS[dtype].bits for dtype in dtypes)
    return 6.02 * min(bits, 16) - (20 if bits > 4 else 15)


def _run(model, x, optimize=True):
    return (run_exact(model, {"x": x}) if optimize else exact_session(model).run(None, {"x": x}))[0]


def _quality(activation, weight, **options):
    proto, x = conv_relu_model(), samples(64)
    result = quarkfast.quantize(
        proto, preset="A8W8", calibration_data=x, activation_type=activation, weight_type=weight, **options
    )
    onnx.checker.check_model(result.proto, full_check=True)
    # onnxruntime's optimizer makes QLinearConv of float8 too, which its CPU provider does not have.
    optimize = not any(name.startswith("float8") for name in (activation, weight)) or "bf16_qdq_to_cast" in options
    return sqnr(_run(proto.SerializeToString(), x), _run(result.model_bytes, x, optimize)), result


@pytest.mark.parametrize("weight", [name for name in weight_formats() if name in SCALAR_FORMATS])
@pytest.mark.parametrize("activation", [*INTEGERS, *FLOATS])
def test_every_combination_of_types_passes_the_checker_runs_and_stays_close(activation, weight):
    sqnr, result = _quality(activation, weight)
    assert sqnr > _floor(activation, weight)
    assert (result.summary.activation, result.summary.weight) == (activation, weight)


@pytest.mark.parametrize("weight", [name for name in weight_formats() if name in SCALAR_FORMATS and name not in BITS])
@pytest.mark.parametrize("symmetric", [True, False])
def test_integer_weights_may_have_a_scale_for_each_channel(weight, symmetric):
    sqnr, result = _quality("int16", weight, per_channel=True, weight_symmetric=symmetric)
    assert sqnr > _floor("int16", weight)
    scale = next(each for each in result.proto.graph.initializer if each.name == "w1_scale")
    assert list(scale.dims) == [3]


def test_float8_weights_may_have_a_scale_for_each_channel():
    assert _quality("int16", "float8_e4m3fn", per_channel=True)[0] > _floor("float8_e4m3fn")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_may_be_written_as_casts_which_onnxruntime_runs_optimized(dtype):
    as_pairs, as_casts = (_quality(dtype, dtype, **options)[0] for options in ({}, {"bf16_qdq_to_cast": True}))
    # A product with 1 / s instead of a quotient moves single values across a tie.
    assert as_casts == pytest.approx(as_pairs, abs=1)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_weights_of_four_bits_take_half_a_byte(dtype):
    result = _quality("int8", dtype)[1]
    stored = {each.name: each for each in result.proto.graph.initializer}
    assert stored["w1_quantized"].data_type == SCALAR_FORMATS[dtype].onnx
    assert len(stored["w1_quantized"].raw_data) == (81 + 1) // 2


@pytest.mark.parametrize(
    ("activation", "weight", "bias"),
    [
        ("int8", "int8", "int32"), ("uint8", "int4", "int32"), ("int16", "uint8", "int32"), ("int16", "int16", "float"),
        ("int32", "int8", "float"), ("bfloat16", "int8", "float"), ("int8", "float16", "float"),
        ("bfloat16", "float16", "weight"), ("bfp16", "mx9", "weight"), ("mx9", "bfp16", "float"),
        ("mx9", "int8", "float"),
    ],
)  # fmt: skip
def test_biases_go_with_the_types_of_both_operands(activation, weight, bias):
    assert resolve("A8W8", {"activation_type": activation, "weight_type": weight})[0].bias == bias


@pytest.mark.parametrize(("bias", "stored"), [("int32", "b1_quantized"), ("weight", "b1_quantized"), ("float", "b1")])
def test_biases_may_be_chosen(bias, stored):
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples(), bias=bias)
    kinds = {each.name: each.data_type for each in result.proto.graph.initializer}
    assert kinds[stored] == {"int32": 6, "weight": 3, "float": 1}[bias]


def test_unsigned_types_become_asymmetric_unless_told_otherwise():
    assert resolve("A8W8", {"activation_type": "uint8"})[0].activation.symmetric is False
    assert resolve("A8W8", {"activation_type": "uint8", "activation_symmetric": True})[0].activation.symmetric is True
    assert resolve("U8S8", {"activation_type": "int8"})[0].activation.symmetric is True


def test_the_placement_follows_the_kind_of_activations():
    assert resolve("A8W8", {"activation_type": "bfloat16"})[0].target == "ryzenai-bf16"
    assert resolve("BF16", {"activation_type": "int8"})[0].target == "ryzenai-a8w8"
    assert resolve("U8S8", {"activation_type": "int16"})[0].target == "ort-cpu"


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_has_a_scale_for_each_output_whichever_way_its_weight_lies(transposed, rng):
    weight = rng.standard_normal((4, 6)).astype(np.float32) * np.float32([1, 10, 100, 1000, 1e4, 1e5])
    text = f"g (float[N, 4] x) => (float[N, 6] y) {{ y = Gemm<transB = {transposed}>(x, w) }}"
    proto = tiny_model(text, {"w": weight.T.copy() if transposed else weight})
    x = rng.standard_normal((32, 4)).astype(np.float32)
    result = quarkfast.quantize(proto, preset="A16W8", calibration_data=x, per_channel=True)
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    np.testing.assert_array_equal(stored["w_scale"], np.abs(weight).max(axis=0) / np.float32(127))
    codes = stored["w_quantized"].T if transposed else stored["w_quantized"]
    # Half a step, and a little for the rounding of products in float32.
    assert (np.abs(codes * stored["w_scale"] - weight) <= 0.5001 * stored["w_scale"]).all()


def test_a_grouped_transposed_convolution_has_its_channels_on_axis_1(rng):
    weight = rng.standard_normal((4, 3, 2, 2)).astype(np.float32) * np.float32([1, 100, 1e4])[:, None, None]
    text = "g (float[N, 4, 5, 5] x) => (float[N, 6, 6, 6] y) { y = ConvTranspose<group = 2>(x, w, b) }"
    proto = tiny_model(text, {"w": weight, "b": rng.standard_normal(6).astype(np.float32)})
    x = rng.standard_normal((8, 4, 5, 5)).astype(np.float32)
    result = quarkfast.quantize(proto, preset="A16W8", calibration_data=x, per_channel=True)
    expected, got = _run(proto.SerializeToString(), x), _run(result.model_bytes, x)
    # The output shares one 16-bit scale, so that channels are compared with its step.
    assert np.abs(expected - got).max() < np.abs(expected).max() * 2.0**-7


@pytest.mark.parametrize("cast", [False, True], ids=["operators", "casts"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_scaled_16_bit_floats_hold_what_is_too_large_for_them(dtype, cast, rng):
    factor = 3e38 if dtype == "bfloat16" else 1e6
    text = "g (float[N, 8] x) => (float[N, 8] y) { y = Add(x, x) }"
    x = (rng.uniform(-0.5, 0.5, (16, 8)) * factor).astype(np.float32)
    preset = "BF16" if dtype == "bfloat16" else "FP16"
    options = {"activation_scaled": True, "bf16_qdq_to_cast": cast}
    result = quarkfast.quantize(tiny_model(text), preset=preset, calibration_data=x, **options)
    onnx.checker.check_model(result.proto, full_check=True)
    y = _run(result.model_bytes, x)
    assert np.isfinite(y).all()
    # Two roundings of half a unit in the last place each: 2^-9 for bfloat16, less for float16.
    np.testing.assert_allclose(y, x + x, rtol=2 * 2.0**-9, atol=1e-5 * factor)


def test_scaled_weights_lie_between_two_and_minus_two():
    result = quarkfast.quantize(conv_relu_model(), preset="BF16", weight_scaled=True)
    stored = {each.name: each for each in result.proto.graph.initializer}
    codes = np.frombuffer(stored["w1_quantized"].raw_data, ml_dtypes.bfloat16).astype(np.float32)
    assert np.abs(codes).max() == 2
    x = samples()
    assert sqnr(_run(conv_relu_model().SerializeToString(), x), _run(result.model_bytes, x)) > 28


def test_a_clip_keeps_bfloat16_from_overflowing():
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, x) }")
    x = np.float32([[1.6e38, -1.6e38, 1, 3.4e38]])
    plain, clipped = (
        _run(quarkfast.quantize(proto, preset="BF16", bf16_with_clip=clip).model_bytes, x) for clip in (False, True)
    )
    assert np.isinf(plain).any()
    assert np.isfinite(clipped).all()


def test_a_reduced_range_uses_seven_bits():
    result = quarkfast.quantize(conv_relu_model(), preset="U8S8", calibration_data=samples(), reduce_range=True)
    stored = {each.name: each for each in result.proto.graph.initializer}
    assert np.abs(np.frombuffer(stored["w1_quantized"].raw_data, np.int8)).max() == 64


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("A8W8", {"activation_type": "int4"}, r"activation_type: expected one of int8, .*, got 'int4'"),
        ("A8W8", {"weight_type": "int9"}, r"weight_type: expected one of int3, .*, got 'int9'; did you mean"),
        ("BF16", {"per_channel": True}, "per_channel: expected weights with a scale, got bfloat16"),
        ("MX9", {"per_channel": True}, "per_channel: expected weights with a scale, got mx9"),
        ("BF16", {"bias": "int32"}, "bias: expected weight or float beside activations bfloat16 and weights bfloat16"),
        ("A8W8", {"bias": "int8"}, "option bias: expected int32, int16, weight or float, got 'int8'"),
        ("XINT8", {"activation_type": "int16"}, "XINT8: expected int8 or uint8 activations and int8 weights, got"),
        ("XINT8", {"weight_type": "int4"}, "XINT8: expected int8 or uint8 activations and int8 weights, got"),
        ("A8W8", {"activation_scaled": True}, "activation_scaled: expected float16 or bfloat16, got int8"),
        ("MX6", {"weight_scaled": True}, "weight_scaled: expected float16 or bfloat16, got mx6"),
        ("BF16", {"reduce_range": True}, "reduce_range: expected integers, got bfloat16 for the weight"),
        ("FP16", {"bf16_with_clip": True}, "bf16_with_clip: expected bfloat16 activations, got float16"),
        ("MX6", {"bf16_qdq_to_cast": True}, "bf16_qdq_to_cast: expected activations of 8- or 16-bit floats, got mx6"),
        ("MX6", {"activation_symmetric": False}, "activation_symmetric: expected True for mx6, got False"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(preset, options, message):
    with pytest.raises(ConfigError, match=message):
        resolve(preset, options)
