"""Rules for single layers and tensors reach the nodes that they name, by the names of the user's file."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.config.quark.enums import ExtendedQuantType, QuantType
from quarkfast.errors import ConfigError
from support.graph_text import parse_model
from support.tiny_models import conv_relu_model, samples, tiny_model


def _quantize(proto=None, **options):
    result = quarkfast.quantize(proto or conv_relu_model(), calibration_data=samples(), **options)
    onnx.checker.check_model(result.proto, full_check=True)
    ort.inference_session(result.model_bytes).run(None, {"x": samples()})
    return result


def _types(result):
    return {each.name: onnx.TensorProto.DataType.Name(each.data_type) for each in result.proto.graph.initializer}


def test_a_layers_own_types_reach_what_it_reads_and_writes():
    rule = {
        "nodes": ["conv_2"],
        "activation": {"dtype": "int16"},
        "weight": {"dtype": "int4", "granularity": "channel"},
        "output": {"dtype": "uint16"},
    }
    types = _types(_quantize(layers=[rule]))
    assert types["r1_zero_point"] == "INT16"
    assert types["w2_quantized"] == "INT4"
    assert types["c2_zero_point"] == "UINT16"
    assert types["x_zero_point"] == types["w1_quantized"] == types["y_zero_point"] == "INT8"


def test_a_later_rule_wins_and_a_tensors_own_rule_wins_over_both():
    layers = [{"op_types": ["Conv"], "weight": {"dtype": "int16"}}, {"nodes": ["conv_2"], "weight": {"dtype": "int4"}}]
    types = _types(_quantize(layers=layers))
    assert (types["w1_quantized"], types["w2_quantized"]) == ("INT16", "INT4")
    types = _types(_quantize(layers=layers, tensors={"w2": {"dtype": "uint8"}}))
    assert types["w2_quantized"] == "UINT8"


def test_the_output_of_a_layer_is_that_of_the_activation_computed_along():
    types = _types(_quantize(layers=[{"nodes": ["conv_0"], "output": {"dtype": "int16"}}]))
    assert types["r1_zero_point"] == "INT16"


def test_integers_in_a_model_of_floats_are_calibrated():
    result = _quantize(preset="BF16", layers=[{"nodes": ["conv_0"], "activation": {"dtype": "int8"}}])
    assert result.summary.samples == 8
    assert _types(result)["x_zero_point"] == "INT8"


def test_a_block_format_for_one_layer():
    result = _quantize(layers=[{"nodes": ["conv_2"], "weight": {"dtype": "mx9"}}])
    nodes = [node.input[0] for node in result.proto.graph.node if node.op_type == "BFPQuantizeDequantize"]
    assert nodes == ["w2"]


def test_biases_keep_their_floats_where_a_layers_own_types_do_not_go_with_int32():
    result = _quantize(layers=[{"nodes": ["conv_0"], "weight": {"dtype": "int16"}}])
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    given = {each.name: onnx.numpy_helper.to_array(each) for each in conv_relu_model().graph.initializer}
    np.testing.assert_array_equal(stored["b1_quantized"] * stored["b1_quantized_scale"], given["b1"])
    types = _types(_quantize(layers=[{"nodes": ["conv_0"], "bias": "weight"}]))
    assert types["b1_quantized"] == "INT8"


def test_a_tensors_range_and_scale_are_taken_as_given():
    result = _quantize(tensors={"x": {"range": [-4, 4]}, "w1": {"range": [-1.27, 1.27]}, "y": {"scale_value": 0.125}})
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    assert stored["x_scale"] == np.float32(4 / 127)
    assert stored["w1_scale"] == np.float32(0.01)
    assert stored["y_scale"] == 0.125


def test_a_zero_point_is_taken_as_given():
    rule = {"dtype": "uint8", "scale_value": 0.25, "zero_point": 17}
    stored = {
        each.name: onnx.numpy_helper.to_array(each) for each in _quantize(tensors={"x": rule}).proto.graph.initializer
    }
    assert (stored["x_scale"], stored["x_zero_point"]) == (0.25, 17)


def test_overrides_of_onnxruntime_and_quark_mean_the_same():
    overrides = {
        "r1": [{"quant_type": ExtendedQuantType.QInt16, "symmetric": True}],
        "x": [{"quant_type": QuantType.QUInt8, "rmin": -1.0, "rmax": 2.0}],
        "w1": [{"axis": 0}],
    }
    result = _quantize(TensorQuantOverrides=overrides)
    types = _types(result)
    assert (types["r1_zero_point"], types["x_zero_point"]) == ("INT16", "UINT8")
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    assert stored["x_scale"] == np.float32(3 / 255)
    assert stored["w1_scale"].shape == (3,)


@pytest.mark.parametrize(
    ("tensor", "axis", "message"),
    [
        ("w1", 1, "tensors: w1: expected 0 as axis, that of the output channels of conv_0, got 1"),
        ("w1", 7, "tensors: w1: expected 0 as axis, that of the output channels of conv_0, got 7"),
        ("x", 0, "tensors: x: expected one scale for an activation, got one for each channel; leave axis out"),
    ],
)
def test_an_axis_that_is_not_the_channels_is_refused(tensor, axis, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        _quantize(TensorQuantOverrides={tensor: [{"axis": axis}]})


def test_an_axis_may_count_from_the_end():
    result = _quantize(TensorQuantOverrides={"w1": [{"axis": -4}]})
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    assert stored["w1_scale"].shape == (3,)


def test_a_rule_for_a_bias_is_refused_where_its_scale_is_that_of_products():
    message = "tensors: b1: expected an activation or a weight, got a bias, which follows them; "
    with pytest.raises(quarkfast.ConfigError, match=message):
        _quantize(tensors={"b1": {"dtype": "int16"}})
    assert _types(_quantize(tensors={"b1": {}}))["b1_quantized"] == "INT32"  # It asks for nothing.
    stored = _types(_quantize(tensors={"b1": {"dtype": "int16"}}, layers=[{"nodes": ["conv_0"], "bias": "weight"}]))
    assert stored["b1_quantized"] == "INT16"


def test_an_entry_for_what_is_not_quantized_is_told():
    """Its own name counts for what a function is computed along with: the pair stands behind that."""
    entries = {name: {"dtype": "int16"} for name in ("c1", "c2", "y", "w1")}
    result = _quantize(tensors=entries, exclude=["add_3"])
    told = [note for note in result.summary.notes if note.startswith("tensors: ")]
    assert told == ["tensors: expected quantized tensors, got 'y', which stay float; their entries change nothing"]
    assert not [note for note in _quantize(tensors=entries).summary.notes if note.startswith("tensors: ")]


def test_a_tensor_that_is_carried_along_may_have_a_type_of_its_own():
    proto = tiny_model("g (float[N, 3, 8, 8] x) => (float[N, 192] y) { r = Relu(x) y = Flatten(r) }")
    assert "y_scale" not in _types(_quantize(proto))
    assert _types(_quantize(proto, tensors={"y": {"dtype": "int16"}}))["y_zero_point"] == "INT16"


def test_layer_configurations_of_quark_hold_for_their_layers():
    layer = quarkfast.QLayerConfig(quarkfast.Int8Spec(calibration_method=quarkfast.CalibMethod.MinMax),
                                   weight=quarkfast.Int8Spec())  # fmt: skip
    wide = quarkfast.QLayerConfig(
        quarkfast.Int16Spec(calibration_method=quarkfast.CalibMethod.MinMax), weight=quarkfast.Int8Spec()
    )
    config = quarkfast.QConfig(
        layer, specific_layer_config={wide: ["^conv_2.*"]}, layer_type_config={None: ["Add"]}, exclude=[(["x"], ["c1"])]
    )
    result = quarkfast.ModelQuantizer(config)
    proto = result.quantize_model(conv_relu_model(), None, [{"x": samples()}])
    types = {each.name: each.data_type for each in proto.graph.initializer}
    assert types["r1_zero_point"] == onnx.TensorProto.INT16
    assert "x_scale" not in types
    assert "y_scale" not in types


def test_a_subgraph_between_nodes_or_tensors_stays_float():
    for ends in ((["conv_0"], ["conv_2"]), (["x"], ["c2"]), (["conv_0"], ["c2"])):
        result = _quantize(exclude=[ends])
        left = {node.name for node in result.summary.left_float if node.reason == "excluded"}
        assert {"conv_0", "relu_1", "conv_2"} <= left


def test_a_branch_beside_the_way_is_on_it_too():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c = Conv(x, w)
        s = Sigmoid(c)
        m = Mul(c, s)
        y = Relu(m)
    }"""
    proto = tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32)})
    result = _quantize(proto, exclude=[(["conv_0"], ["mul_2"])])
    assert {node.name for node in result.summary.left_float} == {"conv_0", "sigmoid_1", "mul_2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"exclude": [(["add_3"], ["conv_0"])]},
            r"exclude: expected a path from .* to .*, got none",
        ),
        (
            {"exclude": [(["conv"], ["add_3"])]},
            "exclude: expected the name of a node or tensor as start .*, got",
        ),
        (
            {"layers": [{"nodes": ["cnv_2"], "bias": "float"}]},
            "layers: nodes: expected the name of a node, got",
        ),
        (
            {"layers": [{"op_types": ["Gem"], "bias": "float"}]},
            "layers: op_types: expected operator types of",
        ),
        (
            {"tensors": {"r2": {"dtype": "int16"}}},
            "tensors: expected the name of a tensor, got 'r2'; did",
        ),
        ({"include": ["none"]}, "include: expected the name of a node, got 'none'"),
    ],
)
def test_what_matches_nothing_is_one_sentence(options, message):
    with pytest.raises(ConfigError, match=message):
        quarkfast.quantize(conv_relu_model(), calibration_data=samples(), **options)


def _batch_norm_model():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c = Conv(x, w)
        b = BatchNormalization(c, s, o, m, v)
        i = Identity(b)
        y = Relu(i)
    }"""
    ones = np.ones(3, np.float32)
    return tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32), "s": ones, "o": ones, "m": ones, "v": ones})


def test_a_node_that_preparation_folds_away_is_no_mistake():
    result = _quantize(_batch_norm_model(), exclude=["batchnormalization_1", "identity_2"])
    assert result.summary.quantized == {"Conv": 1, "Relu": 1}
    assert _quantize(_batch_norm_model(), exclude=["conv_0"]).summary.quantized == {"Relu": 1}
    assert _quantize(_batch_norm_model(), exclude_op_types=["BatchNormalization"]).summary.quantized["Conv"] == 1
    _quantize(_batch_norm_model(), tensors={"c": {"dtype": "int16"}})


def test_nodes_that_share_a_name_are_all_meant_by_it():
    proto = conv_relu_model()
    proto.graph.node[2].name = "conv_0"
    result = _quantize(proto, exclude=["conv_0"])
    assert [node.op_type for node in result.summary.left_float if node.reason == "excluded"] == ["Conv", "Conv"]


def test_nodes_without_a_name_are_quantized_and_not_excluded_by_an_empty_one():
    proto = conv_relu_model()
    for node in proto.graph.node:
        node.name = ""
    assert _quantize(proto).summary.quantized == {"Conv": 2, "Relu": 1, "Add": 1}
    assert _quantize(proto, exclude_op_types=["Add"]).summary.quantized == {"Conv": 2, "Relu": 1}


def test_the_scheme_in_the_model_makes_the_same_model_again():
    options = {
        "layers": [{"nodes": ["conv_2"], "activation": {"dtype": "int16"}}],
        "tensors": {"x": {"range": [-1, 1]}},
    }
    first = _quantize(**options)
    (text,) = [each.value for each in first.proto.metadata_props if each.key == "quarkfast.scheme"]
    again = _quantize(preset=quarkfast.Scheme.from_dict(json.loads(text)))
    assert again.model_bytes == first.model_bytes


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w = {1, 0, 0, 0.5, 0, 1, 0, 0, 0, 0.3, 1, 0, 0, 0, 0, 1}> {
    a = local.outer (x, w)
    [second] y = local.layer (a, w)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]>
outer (p, q) => (r) { [nested] r = local.layer (p, q) }
<domain: "local", opset_import: ["" : 17]>
layer (p, q) => (r) {
    [product] m = MatMul (p, q)
    [limit] r = Relu (m)
}
"""


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ([], []),
        (["product"], ["MatMul", "MatMul"]),
        (["second"], ["MatMul", "Relu"]),
        (["nested", "limit"], ["MatMul", "Relu", "Relu"]),
    ],
)
@pytest.mark.parametrize("preset", ["A8W8", "A16W8"], ids=["as it is", "converted to opset 21"])
def test_nodes_of_local_functions_answer_to_their_names_and_to_those_of_the_calls(names, left, preset):
    x = samples(8, (4,))
    result = quarkfast.quantize(parse_model(FUNCTIONS), preset=preset, calibration_data=x, exclude=names)
    assert [node.op_type for node in result.summary.left_float] == left
    assert not any(prop.key.startswith("quarkfast") for node in result.proto.graph.node for prop in node.metadata_props)
    ort.inference_session(result.model_bytes).run(None, {"x": x})
