from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import conv_relu_model, samples, tiny_model

# Folding multiplies weights once more in float32: a relative error of a few units in the last place (2^-24) for each of
# at most 27 + 1 terms of a sum whose terms are below 10 in magnitude.
FOLDED = 28 * 10 * 2.0**-23


def _batch_norm_model(opset=17):
    rng = np.random.default_rng(3)
    arrays = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "gamma": rng.uniform(0.5, 2, 4).astype(np.float32),
        "beta": rng.normal(size=4).astype(np.float32),
        "mean": rng.normal(size=4).astype(np.float32),
        "var": rng.uniform(0.5, 2, 4).astype(np.float32),
    }
    text = """g (float[N, 3, 8, 8] x) => (float[N, 4, 6, 6] y) {
        c = Conv (x, w)
        y = BatchNormalization (c, gamma, beta, mean, var)
    }"""
    return tiny_model(text, arrays, opset)


def _run(proto: onnx.ModelProto | bytes, x):
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    return onnxruntime.InferenceSession(data).run(None, {"x": x})[0]


def _types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_batch_normalization_becomes_part_of_the_convolution():
    proto = _batch_norm_model()
    prepared = prepare(load_model(proto), 13)
    assert _types(prepared) == ["Conv"]
    x = samples()
    np.testing.assert_allclose(_run(serialize(prepared), x), _run(proto, x), rtol=0, atol=FOLDED)


def test_the_folded_convolution_keeps_its_name():
    prepared = prepare(load_model(_batch_norm_model()), 13)
    assert [node.name for node in prepared.graph] == ["conv_0"]


def test_a_convolution_that_others_read_is_not_folded():
    proto = _batch_norm_model()
    proto.graph.node.append(onnx.helper.make_node("Relu", ["c"], ["z"], name="other"))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    prepared = prepare(load_model(proto), 13)
    assert sorted(_types(prepared)) == ["BatchNormalization", "Conv", "Relu"]


def test_a_padding_that_the_exporter_computes_becomes_a_constant():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        zeros = ConstantOfShape <value = int64[1] {0}> (eight)
        y = Pad (x, zeros)
    }"""
    prepared = prepare(load_model(tiny_model(text, {"eight": np.int64([8])})), 13)
    assert _types(prepared) == ["Pad"]
    assert prepared.graph[0].inputs[1].const_value.numpy().tolist() == [0] * 8


def test_a_large_constant_is_not_written_out():
    text = """g (float[4096, 4096] x) => (float[4096, 4096] y) {
        ones = ConstantOfShape <value = float[1] {1.0}> (shape)
        y = Add (x, ones)
    }"""
    prepared = prepare(load_model(tiny_model(text, {"shape": np.int64([4096, 4096])})), 13)
    assert _types(prepared) == ["ConstantOfShape", "Add"]


def test_preparing_twice_changes_nothing():
    prepared = prepare(load_model(_batch_norm_model()), 13)
    once = serialize(prepared)
    assert serialize(prepare(load_model(prepared), 13)) == once


def test_initializers_listed_as_inputs_become_constants():
    proto = conv_relu_model()
    for tensor in proto.graph.initializer:
        proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    prepared = prepare(load_model(proto), 13)
    assert [value.name for value in prepared.graph.inputs] == ["x"]


def test_nodes_without_names_get_names_of_their_own():
    proto = conv_relu_model()
    for node in proto.graph.node:
        node.name = ""
    prepared = prepare(load_model(proto), 13)
    names = [node.name for node in prepared.graph]
    assert all(names)
    assert len(set(names)) == 4


def test_nodes_in_the_wrong_order_are_sorted():
    proto = conv_relu_model()
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert _types(prepare(load_model(proto), 13)) == ["Conv", "Relu", "Conv", "Add"]


def test_a_cycle_is_one_sentence():
    proto = conv_relu_model()
    proto.graph.node[0].input[0] = "c2"
    with pytest.raises(ModelError, match="model: expected a graph without cycles"):
        prepare(load_model(proto), 13)


def test_a_tensor_that_nothing_produces_is_named():
    proto = conv_relu_model()
    proto.graph.node[1].input[0] = "nowhere"
    with pytest.raises(ModelError, match="expected every input of a node to exist, got 'nowhere' as input of node"):
        prepare(load_model(proto), 13)


def test_an_output_that_nothing_produces_is_named():
    proto = conv_relu_model()
    proto.graph.output[0].name = "nowhere"
    with pytest.raises(ModelError, match="expected every output to exist, got 'nowhere', which nothing produces"):
        prepare(load_model(proto), 13)


def test_a_nan_in_a_weight_names_the_tensor():
    weights = np.ones((3, 3, 1, 1), np.float32)
    weights[1, 2] = np.nan
    with pytest.raises(ModelError, match="tensor 'w2': expected numbers, got NaN in 1 of 9 values"):
        prepare(load_model(conv_relu_model(w2=weights)), 13)


def test_a_nan_that_folding_makes_names_the_tensor():
    proto = _batch_norm_model()
    for tensor in proto.graph.initializer:
        if tensor.name == "var":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.float32([1, -1, 1, 1]), "var"))
    with (
        pytest.warns(RuntimeWarning, match="invalid value"),
        pytest.raises(ModelError, match="tensor 'w': expected numbers, got NaN in 27 of 108 values"),
    ):
        prepare(load_model(proto), 13)


def test_a_function_of_the_model_is_inlined():
    text = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]>
        twice (a) => (b) { b = Add(a, a) }"""
    assert _types(prepare(load_model(onnx.parser.parse_model(text)), 13)) == ["Add"]


def test_a_clip_is_kept():
    text = "g (float[2] x) => (float[2] y) { y = Clip(x, low, high) }"
    proto = tiny_model(text, {"low": np.float32(0), "high": np.float32(6)})
    assert _types(prepare(load_model(proto), 13)) == ["Clip"]


CALLS = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[N, 4] x) => (float[N, 4] y) { y = local.layer (x) }
<domain: "local", opset_import: ["" : 17, "local" : 1]>
layer (p) => (r) { r = Relu (p) }
"""


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("r = Relu", "r = local.layer", ModelError, "expected local functions without recursion, got some that call"),
        ('opset_import: ["" : 17, "local" : 1]>\nlayer', 'opset_import: ["" : 13]>\nlayer', UnsupportedError,
         "expected local functions that can be inlined, got: Opset mismatch when inlining"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_inlined_are_one_sentence(old, new, kind, message):
    proto = onnx.parser.parse_model(CALLS.replace(old, new))
    with pytest.raises(kind, match=message):
        prepare(load_model(proto), 13)
