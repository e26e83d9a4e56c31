"""What layers read is rounded as ONNX Runtime's dynamic quantization does it, where their switches are on."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.evaluate.switched_rounding import add_switched_rounding
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from support.processors import run_exact
from support.tiny_models import tiny_model

TEXT = """g (float[N, 4] x) => (float[N, 3] y, float[N, 3] z) {
    y = MatMul (x, one)
    z = MatMul (x, other)
}"""


@pytest.fixture(name="model")
def _model(rng):
    return tiny_model(TEXT, {name: rng.standard_normal((4, 3)).astype(np.float32) for name in ("one", "other")})


def _switched(model, on):
    loaded = load_model(model)
    switches = add_switched_rounding(loaded, ["matmul_0", "matmul_1"])
    proto = to_proto(loaded)
    onnx.checker.check_model(proto)
    for tensor in proto.graph.initializer:
        if tensor.name == switches[on]:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones((), np.float32), tensor.name))
    return proto


def test_a_layer_whose_switch_is_on_reads_rounded_numbers(rng, model):
    x = rng.standard_normal((16, 4)).astype(np.float32)
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32((high - low) / 255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    rounded = ((np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale).astype(np.float32)
    one, other = (onnx.numpy_helper.to_array(each) for each in model.graph.initializer)
    for on, expected in (("matmul_0", (rounded @ one, x @ other)), ("matmul_1", (x @ one, rounded @ other))):
        for wanted, got in zip(expected, run_exact(_switched(model, on), {"x": x}), strict=True):
            # Sums of four products below 5 * 5, each rounded to 24 bits.
            np.testing.assert_allclose(got, wanted, rtol=0, atol=4 * 25 * 2.0**-23)


def test_all_others_compute_what_they_did(rng, model):
    """No layer that is named: nothing is added."""
    loaded = load_model(model)
    assert add_switched_rounding(loaded, []) == {}
    x = rng.standard_normal((4, 4)).astype(np.float32)
    for wanted, got in zip(run_exact(model, {"x": x}), run_exact(to_proto(loaded), {"x": x}), strict=True):
        np.testing.assert_array_equal(got, wanted)
