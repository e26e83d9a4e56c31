"""Residual sums in front of layer normalizations, as onnxruntime runs them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.writers.runtime_forms import keep_sums
from support.tiny_models import run_as_written, samples, tiny_model

RESIDUAL = """g (float[N, 3, 16] x) => (float[N, 3, 16] y) {
    n = LayerNormalization (x, gain, offset)
    a = MatMul (n, w)
    s = Add (a, x)
    m = LayerNormalization (s, gain, offset)
    b = MatMul (m, w)
    t = Add (b, s)
    y = Relu (t)
}"""
WRITTEN = """g (float[N, 3, 16] x) => (float[N, 3, 16] y) {
    a = MatMul (x, w)
    s = Add (a, x)
    mean = ReduceMean <axes = [-1]> (s)
    d = Sub (s, mean)
    q = Mul (d, d)
    variance = ReduceMean <axes = [-1]> (q)
    raised = Add (variance, epsilon)
    root = Sqrt (raised)
    z = Div (d, root)
    k = Mul (z, gain)
    y = Add (k, offset)
}"""


def _model(text, rng):
    arrays = {"w": rng.standard_normal((16, 16)), "gain": np.ones(16), "offset": np.zeros(16)}
    arrays |= {"epsilon": np.array(1e-5)} if text is WRITTEN else {}
    return tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()}, 17)


def _operators(proto):
    return Counter(node.op_type for node in proto.graph.node)


def _run(data):
    return run_as_written(data, samples(4, (3, 16)))


@pytest.mark.parametrize("text", [RESIDUAL, WRITTEN], ids=["an operator", "written out"])
def test_the_sum_that_a_normalization_reads_becomes_another_operator_with_the_same_bits(text, rng):
    proto = _model(text, rng)
    model = load_model(proto)
    keep_sums(model)
    data = serialize(model)
    before, after = _operators(proto), _operators(onnx.ModelProto.FromString(data))
    assert after["Sum"] == 1
    assert after["Add"] == before["Add"] - 1
    np.testing.assert_array_equal(_run(data), _run(proto.SerializeToString()))


@pytest.mark.parametrize("preset", ["U8S8", "DYNAMIC"])
def test_onnxruntime_leaves_sums_and_normalizations_apart(preset, rng, tmp_path):
    """Its fused operator takes three times as long in 1.31; it is made of an Add, and only of that."""
    result = quarkfast.quantize(_model(RESIDUAL, rng), preset=preset, calibration_data=samples(8, (3, 16)))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(result.model_bytes, options)
    found = _operators(onnx.load(tmp_path / "optimized.onnx"))
    assert found["LayerNormalization"] == 2
    assert found["SkipLayerNormalization"] == 0


def test_models_for_npus_keep_their_sums(rng):
    result = quarkfast.quantize(_model(RESIDUAL, rng), preset="A8W8", calibration_data=samples(8, (3, 16)))
    assert _operators(result.proto)["Sum"] == 0


def test_a_sum_that_is_quantized_stays_an_add(rng):
    result = quarkfast.quantize(
        _model(RESIDUAL, rng),
        preset="U8S8",
        calibration_data=samples(8, (3, 16)),
        activation_type="uint16",  # the residual stream stays float with 8 bits alone
    )
    found = _operators(result.proto)
    assert found["Add"] == 2
    assert found["Sum"] == 0
