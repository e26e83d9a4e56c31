from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.prepare import prepare
from quarkfast.qdq.variances import variance_nodes
from tiny_models import tiny_model

# Layer normalization as TensorFlow's converter writes it: E[x^2] - E[x]^2, between two layers.
NORMALIZATION = """g (float[N, 8, 16] x) => (float[N, 8, 16] y) {
    a = MatMul(x, w)
    square = Mul(a, a)
    second = ReduceMean<axes = [1]>(square)
    mean = ReduceMean<axes = [1]>(a)
    mean_square = Mul(mean, mean)
    variance = Sub(second, mean_square)
    shifted = Add(variance, epsilon)
    root = Sqrt(shifted)
    centred = Sub(a, mean)
    normal = Div(centred, root)
    y = MatMul(normal, w)
}"""


def _normalization(rng):
    arrays = {"w": rng.standard_normal((16, 16)).astype(np.float32), "epsilon": np.float32(1e-6)}
    return tiny_model(NORMALIZATION, arrays)


def test_the_variance_of_a_normalization_is_found(rng):
    model = prepare(load_model(_normalization(rng)), 13)
    names = {node.outputs[0].name for node in variance_nodes(model.graph)}
    assert names == {"square", "mean_square", "variance", "shifted"}


@pytest.mark.parametrize("expression", ["Sqrt(x)", "Sqrt(a)", "Add(a, a)"])
def test_a_root_of_something_else_is_no_normalization(expression, rng):
    text = f"g (float[N, 16] x) => (float[N, 16] y) {{ a = MatMul(x, w) y = {expression} }}"
    proto = tiny_model(text, {"w": rng.standard_normal((16, 16)).astype(np.float32)})
    assert variance_nodes(prepare(load_model(proto), 13).graph) == frozenset()


@pytest.mark.parametrize("preset", ["BFP16", "MX9", "MXINT8"])
def test_a_channel_of_small_variance_survives_beside_one_of_large(preset, rng):
    identity = {"w": np.eye(16, dtype=np.float32), "epsilon": np.float32(1e-6)}
    proto, spread = tiny_model(NORMALIZATION, identity), np.where(np.arange(16) % 2, 1.0, 1e-3)
    x = (rng.standard_normal((4, 8, 16)) * spread).astype(np.float32)
    result = quarkfast.quantize(proto, preset=preset)
    expected, got = (
        ort.inference_session(m).run(None, {"x": x})[0] for m in (proto.SerializeToString(), result.model_bytes)
    )
    # Infinite or a thousand times too large where the variance became zero.
    assert np.abs(got).max() < 4 * np.abs(expected).max()
    reasons = {node.reason for node in result.summary.left_float if node.op_type in ("Add", "Mul")}
    assert reasons == {"it computes a variance, which blocks round to zero"}


@pytest.mark.parametrize("preset", ["A8W8", "BF16"])
def test_other_types_quantize_it_as_before(preset, rng):
    x = rng.standard_normal((4, 8, 16)).astype(np.float32)
    summary = quarkfast.quantize(_normalization(rng), preset=preset, calibration_data=x).summary
    assert {node.op_type for node in summary.left_float} == {"Sqrt"}
