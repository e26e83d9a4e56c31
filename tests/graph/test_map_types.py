"""Models whose outputs hold maps, as scikit-learn's classifiers have them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import ModelError
from quarkfast.evaluate.divergence import compare
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from support.tiny_models import tiny_model


def _rows(count):
    return np.random.default_rng(4).normal(size=(count, 8)).astype(np.float32)


def _map_type(kind="sequence"):
    one = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, []))
    return onnx.helper.make_sequence_type_proto(one) if kind == "sequence" else one


def _classifier(opset=17):
    """The form of a scikit-learn classifier: a label, and for each row a map from classes to probabilities."""
    weight = np.random.default_rng(3).normal(size=(8, 3)).astype(np.float32)
    model = tiny_model(
        """g (float[N, 8] x) => (int64[N] label, float[N, 3] maps) {
            logits = MatMul (x, w)
            p = Softmax <axis = -1> (logits)
            label = ArgMax <axis = -1, keepdims = 0> (p)
        }""",
        {"w": weight},
        opset,
    )
    model.graph.node.append(
        onnx.helper.make_node("ZipMap", ["p"], ["maps"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    )
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.output[1].type.CopyFrom(_map_type())
    return model


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "BF16", "DYNAMIC", "INT8_WO", "INT4_WO"])
def test_outputs_that_hold_maps_stay_what_they_are(preset, opset, tmp_path):
    model, path = _classifier(opset), tmp_path / "classifier.onnx"
    before = model.SerializeToString()
    x = _rows(16)
    result = quarkfast.quantize(model, path, preset, {"x": x})
    assert model.SerializeToString() == before
    assert onnx.load(path).graph.output[1] == model.graph.output[1]
    assert result.proto.graph.output[1] == model.graph.output[1]
    label, maps = exact_session(path.read_bytes()).run(None, {"x": x})
    assert label.shape == (16,)
    assert [max(each, key=each.get) for each in maps] == label.tolist()


def test_an_input_that_is_a_map_is_one_sentence():
    model = _classifier()
    model.graph.input[0].type.CopyFrom(_map_type("map"))
    with pytest.raises(ModelError, match=r"^model: expected tensors for inputs, got 'x', which is a map; export it"):
        load_model(model)


def test_such_outputs_are_left_out_where_outputs_are_judged(tmp_path):
    x, model, path = {"x": _rows(24)}, _classifier(), tmp_path / "classifier.onnx"
    model.graph.output.append(onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["N", 3]))
    summary = quarkfast.quantize(model, path, "A8W8", x, min_sqnr=10).summary
    assert "measured SQNR: 'logits'" in str(summary)
    assert compare(onnx.load(path), [x]).output in ("label", "logits")
    compared = quarkfast.compare_models(model, path, x)
    assert "maps" not in {each.tensor for each in compared.tensors}
    assert "logits" in {each.tensor for each in compared.tensors}
