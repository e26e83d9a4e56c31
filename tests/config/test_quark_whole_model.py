"""Int16Scale, WeightsOnly and scales of groups: what they make of every tensor, and beside what they are refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast import qparams
from quarkfast.config.quark import QuantizationConfig, get_default_config, scheme_of
from quarkfast.config.quark.enums import Int16Method, QuantGranularity, ScaleType
from quarkfast.errors import UnsupportedError
from quarkfast.evaluate import sqnr
from support.tiny_models import conv_relu_model, run_as_written, run_exactly, samples, tiny_model


def legacy(preset, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


def newer(spec, weight=None, **options):
    return scheme_of(quarkfast.QConfig(quarkfast.QLayerConfig(spec, weight=weight or spec), **options))


def quantized(scheme, model=None):
    return quarkfast.quantize(model or conv_relu_model(), preset=scheme, calibration_data=samples()).proto


def scales_of(proto):
    """The scales of pairs, but those of biases, which are products of others."""
    names = {node.input[1] for node in proto.graph.node if node.op_type == "QuantizeLinear"}
    names |= {f"{name}_scale" for name in ("w1", "w2")}
    found = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    return np.concatenate([found[name].ravel() for name in sorted(names)])


def is_ratio(scales) -> np.ndarray:
    """Whether numbers are M / 2^N with M up to 32767 and N up to 16."""
    found = [np.ldexp(scales.astype(np.float64), n) for n in range(17)]
    return np.any(
        [(each == np.rint(each)) & (each <= qparams.LARGEST_MULTIPLIER) & (each >= 1) for each in found], axis=0
    )


@pytest.mark.parametrize("preset", ["S8S8_AAWS", "A8W8", "A16W8", "U8U8_AAWA", "U16S8_AAWS"])
def test_scales_are_numbers_of_16_bits_over_a_power_of_two(preset):
    before, after = quantized(legacy(preset)), quantized(legacy(preset, Int16Scale=True))
    assert not is_ratio(scales_of(before)).all()
    assert is_ratio(scales_of(after)).all()
    x = samples()
    expected = run_exactly(conv_relu_model(), {"x": x})[0]
    found = [sqnr(expected, run_as_written(each.SerializeToString(), x)) for each in (before, after)]
    assert found[1] > min(found[0], 35) - 3


def test_a_type_of_scales_and_a_method_of_quarks_mean_the_same():
    spec = quarkfast.Int8Spec(scale_type=ScaleType.Int16)
    assert newer(spec) == newer(quarkfast.Int8Spec(), Int16Scale=True)
    scheme = scheme_of(QuantizationConfig(calibrate_method=Int16Method.MinMax))
    assert (scheme.activation.scale, scheme.weight.scale) == ("dyadic", "dyadic")


def test_layers_of_their_own_have_such_scales_too():
    layer = quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    other = quarkfast.QLayerConfig(quarkfast.UInt8Spec(), weight=quarkfast.Int8Spec())
    scheme = scheme_of(quarkfast.QConfig(layer, layer_type_config={other: ["Conv"]}, Int16Scale=True))
    assert is_ratio(scales_of(quantized(scheme))).all()


@given(st.floats(1e-7, 1e4), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_a_weight_that_makes_room_for_its_bias_keeps_such_a_scale(bias, seed):
    small = np.random.default_rng(seed).normal(0, 1e-4, (3, 3, 3, 3)).astype(np.float32)
    model = conv_relu_model(w1=small, b1=np.full(3, bias, np.float32))
    assert is_ratio(scales_of(quantized(legacy("S8S8_AAWS", Int16Scale=True), model))).all()


def test_a_scale_above_16_bits_is_refused():
    model = tiny_model(
        "g (float[N, 3, 8, 8] x) => (float y) { h = Mul (x, c) y = Add (h, h) }", {"c": np.float32([1e8])}
    )
    with pytest.raises(
        UnsupportedError, match=r"dyadic scales: expected numbers of at most 32767, got .*; use float32"
    ):
        quantized(legacy("S8S8_AAWS", Int16Scale=True), model)


@pytest.mark.parametrize("preset", ["XINT8", "BF16", "BFP16", "MX9_INT8", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS"])
def test_other_scales_are_refused(preset):
    with pytest.raises(
        UnsupportedError, match=r"option Int16Scale=True: expected integers with float scales .*; leave it out"
    ):
        legacy(preset, Int16Scale=True)


def test_the_npu_of_cnns_shifts():
    with pytest.raises(UnsupportedError, match="scale type: expected powers of two for enable_npu_cnn, got M"):
        newer(quarkfast.Int8Spec(scale_type=ScaleType.Int16), EnableNPUCnn=True)


# Weights alone


@pytest.mark.parametrize(
    ("preset", "kind"), [("A8W8", "int8"), ("U8U8_AAWA", "uint8"), ("A16W8", "int8"), ("BF16", "bf"), ("FP16", "fp")]
)
def test_weights_alone_are_stored(preset, kind):
    rng = np.random.default_rng(3)
    arrays = {"w": rng.normal(0, 0.2, (16, 3, 3, 3)).astype(np.float32), "b": rng.normal(size=16).astype(np.float32)}
    model = tiny_model("g (float[N, 3, 8, 8] x) => (float[N, 16, 6, 6] y) { c = Conv (x, w, b) y = Relu (c) }", arrays)
    proto = quantized(legacy(preset, WeightsOnly=True, BiasCorrection=False), model)
    narrow = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8}
    narrow |= {"bf": onnx.TensorProto.BFLOAT16, "fp": onnx.TensorProto.FLOAT16}
    found = {each.name: each for each in proto.graph.initializer}
    assert narrow[kind] in {each.data_type for each in found.values()}
    assert "QuantizeLinear" not in {node.op_type for node in proto.graph.node}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(found["b"]), arrays["b"])
    x = samples()
    expected, got = run_exactly(model, {"x": x})[0], run_as_written(proto.SerializeToString(), x)
    assert not np.array_equal(expected, got)
    assert sqnr(expected, got) > 35


def test_groups_of_weights_have_scales_where_activations_stay_float():
    spec = quarkfast.Int8Spec(quant_granularity=QuantGranularity.Group)
    scheme = newer(quarkfast.Int8Spec(), spec, WeightsOnly=True)
    assert (scheme.weight.granularity, scheme.weight.group_size, scheme.weights_only) == ("group", 128, True)
    w = np.random.default_rng(3).normal(size=(256, 8)).astype(np.float32)
    proto = quarkfast.quantize(
        tiny_model("g (float[N, 256] x) => (float y) { y = MatMul (x, w) }", {"w": w}), preset=scheme
    )
    found = {each.name: onnx.numpy_helper.to_array(each) for each in proto.proto.graph.initializer}
    assert found["w_scale"].shape == (2, 8)


@pytest.mark.parametrize("place", ["activation", "weight"])
def test_groups_beside_quantized_activations_are_refused(place):
    specs = {"activation": quarkfast.Int8Spec(), "weight": quarkfast.Int8Spec()}
    specs[place] = quarkfast.Int8Spec(quant_granularity=QuantGranularity.Group)
    with pytest.raises(
        UnsupportedError, match=r"granularity: expected Tensor or Channel beside quantized .*, got Group;"
    ):
        newer(specs["activation"], specs["weight"])


@pytest.mark.parametrize("preset", ["XINT8", "VINT8"])
def test_powers_of_two_are_not_stored_alone(preset):
    with pytest.raises(UnsupportedError, match=r"option WeightsOnly: .* whose scales are not those of their extremes"):
        legacy(preset, WeightsOnly=True)


@pytest.mark.parametrize("preset", ["BFP16", "MXINT8", "UINT8_DYNAMIC_QUANT", "INT16_CNN_DEFAULT"])
def test_other_weights_are_not_stored_alone(preset):
    with pytest.raises(UnsupportedError, match=r"option WeightsOnly: expected False beside weights in .*, got True"):
        legacy(preset, WeightsOnly=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Int32Bias": False}, "option Int32Bias: expected True beside weights alone, got False; biases stay"),
        ({"Int16Bias": True}, "option Int16Bias: expected False beside weights alone, got True; biases stay"),
        (
            {"ConvertBNToConv": True},
            "option ConvertBNToConv: expected False beside weights alone, got True; leave it out",
        ),
    ],
)
def test_what_weights_alone_do_not_have_is_refused(options, message):
    with pytest.raises(UnsupportedError, match=message):
        legacy("A8W8", WeightsOnly=True, **options)
    assert legacy("A8W8", WeightsOnly=True, Int32Bias=True, AlignPool=True) == legacy("A8W8", WeightsOnly=True)
