"""What the summary says about single tensors, against what can be measured."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.kernels import dequantize_linear
from support.tiny_models import conv_relu_model, samples, tiny_model


def _named(proto):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def test_the_expected_noise_of_weights_is_that_which_they_have(rng):
    weight = rng.normal(size=(64, 32, 3, 3)).astype(np.float32)
    proto = tiny_model("g (float[N, 32, 8, 8] x) => (float[A, B, C, D] y) { y = Conv (x, w) }", {"w": weight})
    data = rng.normal(size=(2, 32, 8, 8)).astype(np.float32)
    result = quarkfast.quantize(proto, calibration_data=data, per_channel=True, search_ranges=False)
    ((name, expected),) = result.summary.worst
    found = _named(result.proto)
    rounded = dequantize_linear(found["w_quantized"], found["w_scale"], axis=0)
    measured = 10 * np.log10(np.square(weight).sum() / np.square(weight - rounded).sum())
    assert name == "w"
    # Rounding errors spread evenly over [-s/2, s/2]; the mean square of n = 18,432 of them is within 4 standard
    # deviations, 4 sqrt(4/5/n) = 2.7 % = 0.12 dB, of s^2 / 12.
    assert expected == pytest.approx(measured, abs=0.12)


def test_activations_are_judged_where_histograms_are_gathered():
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples(), method="percentile")
    names = [name for name, _ in result.summary.worst]
    values = [value for _, value in result.summary.worst]
    assert {"x", "w1", "w2"} & set(names)
    assert len(set(names) - {"w1", "w2"}) > 0
    assert values == sorted(values)
    assert all(10 < value < 70 for value in values)


def test_constant_activations_are_named():
    result = quarkfast.quantize(conv_relu_model(), calibration_data=np.ones((2, 3, 8, 8), np.float32))
    assert result.summary.constant == ("x",)
    assert ("constant", "'x'") in result.summary.rows()


def test_activations_that_are_cut_are_named():
    data = samples(64)
    data[0, 0, 0, 0] = 1e4
    result = quarkfast.quantize(conv_relu_model(), calibration_data=data, method="percentile", percentile=99.0)
    assert "x" in result.summary.saturated
    assert any(key == "saturated" and "'x'" in text for key, text in result.summary.rows())
    plain = quarkfast.quantize(conv_relu_model(), calibration_data=data)
    assert plain.summary.saturated == ()


def test_floats_and_copies_have_no_findings():
    result = quarkfast.quantize(conv_relu_model(), preset="BF16")
    assert (result.summary.constant, result.summary.saturated, result.summary.worst) == ((), (), ())
