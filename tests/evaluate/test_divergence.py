"""A default session and exact sums, beside each other."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate.divergence import compare
from quarkfast.evaluate.exact_sums import exact_session
from support.processors import saturates
from support.tiny_models import conv_relu_model, samples, tiny_model

MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]


def _runs(proto, feed):
    sessions = exact_session(proto), ort.inference_session(proto.SerializeToString())
    return [ort.run(session, feed)[0] for session in sessions]


# A code times 3 times 0.1 * 0.1, in steps of 0.06: an odd one lies between two, and the order of the roundings decides
# to which of them it goes.
TIES = """g (float[N, 1] x) => (float[N, 1] y) {
    q = QuantizeLinear(x, a, z)
    d = DequantizeLinear(q, a, z)
    v = DequantizeLinear(w, b, s)
    [product] m = MatMul(d, v)
    p = QuantizeLinear(m, c, z)
    y = DequantizeLinear(p, c, z)
}"""
TIED = {
    "a": np.float32(0.1), "b": np.float32(0.1), "c": np.float32(0.06), "z": np.uint8(0), "s": np.int8(0),
    "w": np.int8([[3]]),
}  # fmt: skip


def test_the_first_node_that_differs_is_named_with_the_largest_difference():
    proto, feed = tiny_model(TIES, TIED), {"x": np.arange(256, dtype=np.float32)[:, None] * np.float32(0.1)}
    exact, default = _runs(proto, feed)
    assert not np.array_equal(exact, default)
    found = compare(proto, [feed])
    assert found.largest == np.abs(exact.astype(np.float64) - default).max()
    assert (found.output, found.first) == ("y", "product")
    assert found.sqnr == found.first_sqnr == quarkfast.evaluate.sqnr(exact, default)
    assert str(found).startswith("output 'y' differs by up to 0.06 (")
    assert "first at 'product' (" in str(found)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_equal_outputs_are_told_as_such():
    result = quarkfast.quantize(conv_relu_model(), preset="A16W8", calibration_data=samples())
    found = compare(result.proto, [{"x": samples()}])
    assert str(found) == "equal outputs"
    assert found.to_dict() == {"largest": 0, "output": "y", "sqnr": None, "first": None, "first_sqnr": None}


def test_nan_on_both_sides_is_no_difference():
    proto = tiny_model("g (float[N] x) => (float[N] y) { y = Sqrt(x) }")
    assert compare(proto, [{"x": np.float32([-1, 4])}]).largest == 0


def test_sums_that_saturate_are_a_difference_on_processors_without_vnni_alone():
    """64 products of one sign: in 16 bits a part of each pair is lost; elsewhere a code may be the next one at most."""
    rng = np.random.default_rng(3)
    proto = tiny_model(
        "g (float[N, 64] x) => (float[N, 8] y) { y = MatMul(x, w) }",
        {"w": rng.uniform(0.5, 1, (64, 8)).astype(np.float32)},
    )
    x = rng.uniform(0.5, 1, (32, 64)).astype(np.float32)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=x)
    scale = next(each for each in result.proto.graph.initializer if each.name == "y_scale")
    found = compare(result.proto, [{"x": x}])
    codes = round(found.largest / float(onnx.numpy_helper.to_array(scale)))
    assert (codes > 1) == saturates()


@pytest.mark.parametrize("name", ["resnet20_cifar10", "mobilenetv2_cifar10"])
def test_the_difference_of_a_trained_network_is_that_of_its_runs(shared, name):
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        x = ((data["x"][:32].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)
    model = shared / "models" / f"{name}.onnx"
    result = quarkfast.quantize(model, preset="U8S8", calibration_data={"input": x})
    exact, default = _runs(result.proto, {"input": x})
    found = compare(result.proto, [{"input": x}])
    assert found.largest == np.abs(exact.astype(np.float64) - default).max()
    assert (found.first is None) == (found.largest == 0)
    assert found.first is None or found.first in {node.name for node in result.proto.graph.node}
