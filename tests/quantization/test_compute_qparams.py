from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast.graph.load import load_model
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import compute_qparams, place
from quarkfast.quantization.bias import raised_note
from support.tiny_models import conv_relu_model, tiny_model


def _plan(proto, ranges, preset="A8W8", **options):
    scheme, target = resolve(preset, options)
    model = prepare(load_model(proto), 13)
    placement = place(model, scheme, target)
    return compute_qparams(model, placement, scheme, target, {name: _range(*ends) for name, ends in ranges.items()})


def _range(low, high, nan=0):
    return Range(low, high, 10, nan, 0, 0)


RANGES = {"x": (-2.0, 1.0), "r1": (0.0, 4.0), "c2": (-1.0, 1.0), "y": (-3.0, 3.0)}


def test_symmetric_activations_mirror_their_range():
    quantizer = _plan(conv_relu_model(), RANGES).quantizers["x"]
    assert quantizer.scale == np.float32(2 / 127)
    assert quantizer.zero_point == 0


def test_asymmetric_activations_use_every_code():
    quantizer = _plan(conv_relu_model(), RANGES, "U8S8").quantizers["x"]
    assert quantizer.scale == np.float32(3 / 255)
    assert quantizer.zero_point == 170


@pytest.mark.parametrize(("seen", "end"), [(0.25, 0.25), (0.49, 0.49), (0.5, 1.0), (0.9, 1.0)])
def test_a_float_softmax_whose_values_come_near_one_has_its_whole_range(seen, end):
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { s = Softmax(x) y = Relu(s) }")
    ranges = {"s": (0.0, seen), "y": (0.0, 1.0)}
    quantizer = _plan(proto, ranges, exclude_op_types=["Softmax"]).quantizers["s"]
    assert quantizer.scale == np.float32(end / 127)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_weight_takes_its_own_extremes(per_channel):
    proto = conv_relu_model()
    weight = np.frombuffer(proto.graph.initializer[0].raw_data, np.float32).reshape(3, 27)
    expected = np.abs(weight).max(axis=1 if per_channel else None) / 127
    plan = _plan(proto, RANGES, per_channel=per_channel)
    quantizer = next(quantizer for slot, quantizer in plan.constants if slot.tensor == "w1")
    # from_range divides in float64 and rounds once, this divides in float32: at most one unit in the last place.
    np.testing.assert_allclose(quantizer.scale, expected, rtol=2.0**-23)


def test_the_bias_has_the_scale_of_the_products():
    plan = _plan(conv_relu_model(), RANGES, per_channel=True)
    weight = next(quantizer for slot, quantizer in plan.constants if slot.tensor == "w1")
    ((bias, quantizer),) = plan.biases
    assert bias.tensor == "b1"
    assert quantizer.dtype == "int32"
    product = np.float64(plan.quantizers["x"].scale) * weight.scale.astype(np.float64)
    np.testing.assert_array_equal(quantizer.scale, product.astype(np.float32))


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_bias_that_would_overflow_raises_the_weights_scale_and_is_named(per_channel):
    bias = np.float32([0.1, 3e6, -0.1])
    weight = np.full((3, 3, 3, 3), 1e-3, np.float32)
    plan = _plan(conv_relu_model(w1=weight, b1=bias), RANGES, per_channel=per_channel)
    _, quantizer = plan.biases[0]
    codes = bias.astype(np.float64) / quantizer.scale
    assert np.abs(codes).max() <= 2**30 * (1 + 2.0**-22)
    assert plan.notes == ("weight scales of 1 layer ('conv_0') raised so that biases fit into int32",)


def test_weights_of_many_layers_that_are_raised_are_one_sentence():
    slots = [SimpleNamespace(edge=SimpleNamespace(node=f"conv_{place}"), bits=32) for place in range(4)]
    (note,) = raised_note(slots)
    assert note == (
        "weight scales of 4 layers ('conv_0', 'conv_1', 'conv_2', ...) raised so that biases fit into int32"
    )
    assert raised_note([]) == []


def test_a_bias_with_headroom_leaves_the_weight_alone():
    assert _plan(conv_relu_model(), RANGES).notes == ()


def test_a_channel_of_zeros_takes_the_largest_scale():
    weight = np.ones((3, 3, 3, 3), np.float32)
    weight[0] = 0
    weight[2] = 5
    plan = _plan(conv_relu_model(w1=weight), RANGES, per_channel=True)
    scale = next(quantizer.scale for slot, quantizer in plan.constants if slot.tensor == "w1")
    assert scale[0] == scale[2] == np.float32(5 / 127)


def test_a_weight_of_zeros_has_scale_one():
    plan = _plan(conv_relu_model(w1=np.zeros((3, 3, 3, 3), np.float32)), RANGES)
    assert next(quantizer.scale for slot, quantizer in plan.constants if slot.tensor == "w1") == 1


def test_a_tensor_without_finite_values_has_scale_one_and_is_named():
    plan = _plan(conv_relu_model(), RANGES | {"c2": (np.inf, -np.inf)})
    assert plan.quantizers["c2"].scale == 1
    assert plan.notes == ("tensor 'c2': calibration saw no finite value; its scale is 1",)


def test_values_that_are_not_finite_are_counted():
    plan = _plan(conv_relu_model(), RANGES | {"c2": (-1.0, 1.0, 3)})
    assert plan.notes == ("tensor 'c2': 3 NaN and 0 infinite values were left out of its range",)


def test_a_grouped_transposed_convolution_repeats_its_scales_in_the_bias():
    text = "g (float[N, 4, 5, 5] x) => (float y) { y = ConvTranspose<group = 2>(x, w, b) }"
    weight = np.ones((4, 3, 1, 1), np.float32) * np.float32([1, 2, 3])[:, None, None]
    proto = tiny_model(text, {"w": weight, "b": np.ones(6, np.float32)})
    plan = _plan(proto, {"x": (-127.0, 127.0), "y": (-1.0, 1.0)}, per_channel=True)
    np.testing.assert_array_equal(plan.biases[0][1].scale, np.float32([1, 2, 3, 1, 2, 3]) / 127)


def test_16_bit_floats_need_no_ranges():
    plan = _plan(conv_relu_model(), {}, "BF16")
    assert {float(quantizer.scale) for quantizer in plan.quantizers.values()} == {1.0}
    assert plan.notes == ()


def test_tensors_that_say_nothing_about_a_scale_get_finite_ones_and_are_counted():
    weights = np.random.default_rng(2).normal(size=(3, 3, 3, 3)).astype(np.float32)
    weights[1] = 0
    model = conv_relu_model(w1=weights, b1=np.full(3, -1e3, np.float32), w2=np.zeros((3, 3, 1, 1), np.float32))
    data = np.full((4, 3, 8, 8), 0.25, np.float32)
    result = quarkfast.quantize(model, preset="U8S8", calibration_data=data, per_channel=True)
    (note,) = (each for each in result.summary.notes if each.startswith("flat tensors: "))
    # Relu gives zeros, the second convolution therefore too; the input and its sum with zeros are 0.25 everywhere.
    assert note == (
        "flat tensors: 2 activations of zeros, 2 activations of one value, 1 weight of zeros, 1 channel of zeros; "
        "their scales are finite, and arbitrary"
    )
    for value in result.proto.graph.initializer:
        if value.name.endswith("_scale"):
            scale = onnx.numpy_helper.to_array(value)
            assert np.isfinite(scale).all()
            assert (scale > 0).all()


def test_a_constant_that_is_known_is_not_looked_at_again_until_it_changes(monkeypatch):
    looked_at, module = [], sys.modules[compute_qparams.__module__]
    original = module.constant_quantizer
    monkeypatch.setattr(module, "constant_quantizer", lambda *each: looked_at.append(each[0].tensor) or original(*each))
    scheme, target = resolve("A8W8", {})
    model, known = prepare(load_model(conv_relu_model()), 13), {}
    placement = place(model, scheme, target)

    def find(low):
        ranges = {name: _range(low, high) for name, (_, high) in RANGES.items()}
        found = compute_qparams(model, placement, scheme, target, ranges, known=known)
        return {name: float(each.scale) for name, each in found.quantizers.items()}, {
            slot.tensor: float(each.scale) for slot, each in found.constants
        }

    first, second = find(-9.0), find(-2.0)
    assert sorted(looked_at) == ["w1", "w2"]
    assert second[0]["x"] != first[0]["x"]
    assert second[1] == first[1]
    model.graph.initializers["w2"].const_value = ir.tensor(np.ones((3, 3, 1, 1), np.float32), name="w2")
    assert find(-2.0)[1] == {"w1": first[1]["w1"], "w2": np.float32(1 / 127)}
    assert sorted(looked_at) == ["w1", "w2", "w2"]
