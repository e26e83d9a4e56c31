"""Weights of an attention over many rows: 8 bits round most of them to zero."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import tiny_model

WIDTH = 16
ATTENTION = """g (float[N, {rows}, 16] x) => (float[N, {rows}, 16] y) {
    q = MatMul(x, wq)
    k = MatMul(x, wk)
    v = MatMul(x, wv)
    kt = Transpose<perm = [0, 2, 1]>(k)
    scores = MatMul(q, kt)
    scaled = Mul(scores, factor)
    weights = Softmax<axis = -1>(scaled)
    mixed = MatMul(weights, v)
    y = MatMul(mixed, wo)
}"""


def _model(rows, factor=0.1):
    rng = np.random.default_rng(7)
    matrices = {name: (rng.normal(0, 0.25, (WIDTH, WIDTH))).astype(np.float32) for name in ("wq", "wk", "wv", "wo")}
    return tiny_model(ATTENTION.replace("{rows}", str(rows)), matrices | {"factor": np.float32(factor)}, opset=17)


def _samples(rows, count=8, seed=3):
    """Rows of which one in sixteen is five times as large: it attends to few, the others to all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1, (count, rows, WIDTH))
    x[:, ::16] *= 5
    return {"x": x.astype(np.float32)}


def _quantized(rows, preset, **options):
    return quarkfast.quantize(_model(rows), preset=preset, calibration_data=_samples(rows), **options)


def _told(result):
    return [note for note in result.summary.notes if note.startswith("attention: ")]


def _type_of_weights(result):
    graph = result.proto.graph
    zero_points = {each.name: each.data_type for each in graph.initializer}
    pairs = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "weights"]
    return [onnx.TensorProto.DataType.Name(zero_points[node.input[2]]) for node in pairs]


def _ratio(rows, result):
    feed = _samples(rows, 4, 5)
    return sqnr(run_exact(_model(rows), feed)[0], run_exact(result.model_bytes, feed)[0])


@pytest.mark.parametrize(("preset", "dtype"), [("A8W8", "INT16"), ("U8S8", "UINT16")])
def test_weights_of_many_rows_have_sixteen_bits(preset, dtype):
    found, kept = _quantized(512, preset), _quantized(512, preset, strict=True)
    (note,) = _told(found)
    assert note.startswith("attention: 8 bits of 1 result of Softmax ('weights') leave the outputs ")
    assert _type_of_weights(found) == [dtype]
    assert _told(kept) == []
    assert _type_of_weights(kept) == [dtype.replace("16", "8")]
    assert _ratio(512, found) > _ratio(512, kept) + 3


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_weights_of_few_rows_keep_eight_bits(preset):
    result = _quantized(4, preset)
    assert _told(result) == []
    assert _type_of_weights(result) == [preset.replace("A8W8", "INT8").replace("U8S8", "UINT8")]


def test_a_target_without_sixteen_bits_keeps_eight():
    result = _quantized(512, "XINT8")
    assert _told(result) == []
    assert _type_of_weights(result) in (["INT8"], ["UINT8"])


def test_random_samples_and_a_form_of_the_users_own_decide_nothing():
    result = quarkfast.quantize(_model(512), preset="A8W8", calibration_data="random")
    assert _told(result) == []
    own = _quantized(512, "A8W8", tensors={"weights": {"dtype": "int8"}})
    assert _told(own) == []
    assert _type_of_weights(own) == ["INT8"]


def test_an_operator_set_that_cannot_be_converted_is_told(monkeypatch):
    def refuse(context):
        raise quarkfast.UnsupportedError("model: expected another opset")

    monkeypatch.setattr("quarkfast.pipeline.placing_anew.convert_operator_set", refuse)
    result = _quantized(512, "U8S8")
    (note,) = _told(result)
    assert note.endswith("and cannot be 16: model: expected another opset")
    assert _type_of_weights(result) == ["UINT8"]
