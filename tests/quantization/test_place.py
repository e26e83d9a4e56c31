from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.errors import ConfigError, ModelError
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import place
from quarkfast.targets import TARGETS, Flow
from support.tiny_models import conv_relu_model, run_exactly, tiny_model


def _place(proto, preset="A8W8", **options):
    return place(prepare(load_model(proto), 13), *resolve(preset, options))


def test_no_pair_stands_between_a_convolution_and_its_relu():
    placement = _place(conv_relu_model())
    assert dict(placement.activations) == {"x": "x", "r1": "r1", "c2": "c2", "y": "y"}


def test_a_convolution_that_others_read_too_keeps_its_pair():
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { c = Conv(x, w) r = Relu(c) y = Add(r, c) }"
    placement = _place(tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32)}))
    assert set(placement.activations) == {"x", "c", "r", "y"}


def test_weights_and_biases_have_slots():
    placement = _place(conv_relu_model(), per_channel=True)
    assert [(slot.tensor, slot.role, slot.axis) for slot in placement.constants] == [
        ("w1", "weight", 0),
        ("w2", "weight", 0),
    ]
    assert [(bias.tensor, bias.data, bias.weight_tensor) for bias in placement.biases] == [("b1", "x", "w1")]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_what_a_target_fuses_has_rules(target):
    for activation, producers in target.fused.items():
        assert target.rules[activation].flow is Flow.ACTIVATION
        assert all(producer in target.rules for producer in producers)


@pytest.mark.parametrize(
    ("expression", "shared"),
    [
        ("MaxPool<kernel_shape = [2, 2]>(r)", True),
        ("Transpose<perm = [0, 1, 3, 2]>(r)", True),
        ("Flatten(r)", True),
        ("Pad(r, pads)", True),
        ("Pad(r, pads, one)", False),
        ("Pad(r, pads, zero)", True),
        ("Resize<mode = 'linear'>(r, , scales)", True),
        ("Sigmoid(r)", False),
    ],
)
def test_what_only_moves_values_carries_the_scale(expression, shared):
    arrays = {
        "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]),
        "one": np.float32(1),
        "zero": np.float32(0),
        "scales": np.float32([1, 1, 2, 2]),
    }
    used = {name: array for name, array in arrays.items() if name in expression}
    text = f"g (float[N, 3, 8, 8] x) => (float y) {{ r = Relu(x) y = {expression.replace(chr(39), chr(34))} }}"
    placement = _place(tiny_model(text, used))
    assert placement.activations["y"] == ("r" if shared else "y")


def test_a_chain_of_movers_shares_one_scale_and_is_observed_once():
    text = """g (float[N, 3, 8, 8] x) => (float y) {
        r = Relu(x)
        t = Transpose<perm = [0, 1, 3, 2]>(r)
        y = Flatten(t)
    }"""
    placement = _place(tiny_model(text))
    assert placement.activations["y"] == "r"
    assert placement.observed == ("x", "r")


def test_on_cpus_a_mover_of_floats_stays_float():
    text = "g (float[N, 3, 8, 8] x) => (float[N, 192] y) { y = Flatten(x) }"
    placement = _place(tiny_model(text), "U8S8")
    assert [left.reason for left in placement.left_float] == ["its input is float"]
    assert set(_place(tiny_model(text), "A8W8").activations) == {"x", "y"}


def test_integer_arithmetic_of_shapes_is_left_alone():
    text = """g (float[N, 4] x) => (float[M] y) {
        s = Shape(x)
        flat = ReduceProd<keepdims = 1>(s)
        y = Reshape(x, flat)
    }"""
    placement = _place(tiny_model(text))
    assert set(placement.activations) == {"x", "y"}
    assert placement.left_float == ()


def test_an_operator_without_a_rule_says_so():
    placement = _place(tiny_model("g (float[N, 4] x) => (float[N, 4] y) { r = Relu(x) y = Cos(r) }"))
    assert [(left.op_type, left.reason) for left in placement.left_float] == [
        ("Cos", "ryzenai-a8w8 has no rule for Cos")
    ]


def test_an_excluded_node_stays_float_and_its_producer_keeps_a_pair():
    placement = _place(conv_relu_model(), exclude=["relu_1"])
    assert [(left.node, left.reason) for left in placement.left_float] == [("relu_1", "excluded")]
    assert "c1" in placement.activations


def test_only_the_asked_op_types_are_quantized():
    placement = _place(conv_relu_model(), op_types=["Conv"])
    assert set(placement.quantized.values()) == {"Conv"}
    assert {left.reason for left in placement.left_float} == {"not among op_types"}


def test_excluding_a_node_that_does_not_exist_is_one_sentence():
    message = r"exclude: expected the name of a node, got 'relu_2'; did you mean 'relu_1'\?"
    with pytest.raises(ConfigError, match=message):
        _place(conv_relu_model(), exclude=["relu_2"])


def test_a_subgraph_cannot_begin_at_a_node_that_became_part_of_another():
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { c = Conv(x, w) m = Mul(c, two) y = Relu(m) }"
    model = tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32), "two": np.float32(2)})
    message = "exclude: expected a node that preparation leaves as start of a subgraph, got 'mul_1', which is part of"
    with pytest.raises(ConfigError, match=message):
        quarkfast.quantize(model, preset="BF16", exclude=[(["mul_1"], ["relu_2"])])


def test_an_operator_type_that_does_not_exist_is_one_sentence():
    message = r"op_types: expected operator types of the model \(Add, Conv, Relu\), got 'Gemm'"
    with pytest.raises(ConfigError, match=message):
        _place(conv_relu_model(), op_types=["Gemm"])


def test_an_infinite_weight_is_one_sentence():
    weight = np.ones((3, 3, 1, 1), np.float32)
    weight[0, 0] = -np.inf
    with pytest.raises(ModelError, match="tensor 'w2': expected finite weights, got infinity in 1 of 9 values"):
        _place(conv_relu_model(w2=weight))


def test_a_node_with_an_infinite_constant_stays_float():
    text = "g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, mask) }"
    placement = _place(tiny_model(text, {"mask": np.float32([0, -np.inf, 0, 0])}))
    assert [left.reason for left in placement.left_float] == ["its constant 'mask' is infinite"]


def test_a_tied_weight_has_one_slot():
    text = "g (float[N, 4] x) => (float[N, 4] y) { a = MatMul(x, w) y = MatMul(a, w) }"
    placement = _place(tiny_model(text, {"w": np.ones((4, 4), np.float32)}))
    assert [len(slot.edges) for slot in placement.constants] == [2]


@pytest.mark.parametrize(
    ("expression", "shape", "axis"),
    [
        ("Conv(x, w)", (6, 4, 1, 1), 0),
        ("ConvTranspose(x, w)", (4, 6, 1, 1), 1),
        ("MatMul(x, w)", (5, 7), 1),
        ("MatMul(x, w)", (4, 5, 7), 2),
        ("Gemm(z, w)", (4, 7), 1),
        ("Gemm<transB = 1>(z, w)", (7, 4), 0),
    ],
)
def test_channels_lie_on_the_right_axis(expression, shape, axis):
    text = f"g (float[N, 4, 5, 5] x, float[N, 4] z) => (float y) {{ y = {expression} }}"
    placement = _place(tiny_model(text, {"w": np.ones(shape, np.float32)}), per_channel=True)
    assert [slot.axis for slot in placement.constants] == [axis]


def test_the_range_of_softmax_is_known():
    placement = _place(tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Softmax(x) }"))
    assert placement.fixed == {"y": (0.0, 1.0)}
    assert placement.observed == ("x",)


def test_the_range_of_a_softmax_that_stays_float_is_calibrated():
    text = "g (float[N, 4] x) => (float[N, 4] y) { s = Softmax(x) y = Relu(s) }"
    placement = _place(tiny_model(text), exclude_op_types=["Softmax"])
    assert not placement.fixed
    assert placement.bounds == {"s": (0.0, 1.0)}
    assert placement.observed == ("s", "y")


def test_a_constant_of_an_addition_takes_the_type_that_the_target_fuses():
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, c) }", {"c": np.ones(4, np.float32)})
    assert [slot.role for slot in _place(proto, "A8W8").constants] == ["weight"]
    assert [slot.role for slot in _place(proto, "U8S8").constants] == ["activation"]


def test_for_transformers_only_products_with_constant_weights_are_quantized():
    text = "g (float[N, 4, 4] x) => (float[N, 4, 4] y) { a = MatMul(x, w) r = Relu(a) y = MatMul(a, r) }"
    proto = tiny_model(text, {"w": np.ones((4, 4), np.float32)})
    placement = _place(proto, "U8S8", target="ryzenai-transformer")
    assert dict(placement.quantized) == {"matmul_0": "MatMul"}
    assert [left.reason for left in placement.left_float] == [
        "ryzenai-transformer has no rule for Relu",
        "its weight is no constant",
    ]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_a_comparison_reads_an_input_as_it_came(preset):
    """In 8 bits 2.0 becomes 2.0016, which is more than 2."""
    text = "g (float[N, 5] x) => (float[N, 5] y) { c = Less(two, x) y = Where(c, x, zero) }"
    proto = tiny_model(text, {"two": np.float32(2), "zero": np.float32(0)})
    x = np.float32([[-1.5, 0, 1.2, 2, 2.2]])
    found = quarkfast.quantize(proto, preset=preset, calibration_data=x).proto
    (less,) = (node for node in found.graph.node if node.op_type == "Less")
    assert list(less.input) == ["two", "x"]


@pytest.mark.parametrize("preset", ["A8W8", "A16W8"])
def test_a_range_ends_where_the_float_one_does(preset):
    text = """g (float x) => (float[N] y, float z) {
        y = Range(zero, x, one)
        z = Mul(x, one)
    }"""
    proto = tiny_model(text, {"zero": np.float32(0), "one": np.float32(1)})
    found = quarkfast.quantize(proto, preset=preset, calibration_data=[{"x": np.float32(10)}]).proto
    (counted,) = (node for node in found.graph.node if node.op_type == "Range")
    assert list(counted.input) == ["zero", "x", "one"]


EXTRA = """g (float[1, 4] x) => (float[1, 4] y) {
    a = Exp(x)
    b = Cast<to = 6>(a)
    c = Cast<to = 1>(b)
    d = Pow(a, two)
    e = Mul(c, d)
    y = Softplus(e)
}"""


def extra_plan(**options):
    proto = tiny_model(EXTRA, {"two": np.full((), 2, np.float32)})
    return quarkfast.plan(proto, preset="A8W8", **options)


def test_operators_without_a_rule_are_quantized_where_that_is_asked_for():
    assert set(extra_plan().quantized.values()) == {"Mul"}
    assert set(extra_plan(extra_op_types=["Exp"]).quantized.values()) == {"Mul", "Exp"}
    assert set(extra_plan(extra_op_types=["*"]).quantized.values()) == {"Mul", "Exp", "Pow", "Softplus"}


def test_further_operators_join_those_that_are_named():
    assert set(extra_plan(op_types=["Mul"], extra_op_types=["Pow"]).quantized.values()) == {"Mul", "Pow"}


def test_further_operators_have_to_be_in_the_model():
    with pytest.raises(quarkfast.ConfigError, match="extra_op_types: expected operator types of the model"):
        extra_plan(extra_op_types=["Exq"])


@pytest.mark.parametrize("preset", ["DYNAMIC", "INT8_WO"])
def test_further_operators_need_scales(preset):
    message = f"extra_op_types: expected a preset that quantizes activations before the model runs, got {preset}"
    with pytest.raises(quarkfast.ConfigError, match=message):
        quarkfast.plan(tiny_model(EXTRA, {"two": np.ones((), np.float32)}), preset=preset, extra_op_types=["Exp"])


def test_a_model_whose_every_operator_is_quantized_runs():
    x = np.linspace(0.5, 2, 4, dtype=np.float32).reshape(1, 4)
    proto = tiny_model(EXTRA, {"two": np.full((), 2, np.float32)})
    result = quarkfast.quantize(proto, preset="BF16", calibration_data=x, extra_op_types=["*"], bf16_qdq_to_cast=True)
    onnx.checker.check_model(result.proto, full_check=True)
    (expected,) = run_exactly(proto, {"x": x})
    # Each of six results is rounded to 8 significant bits, and the errors of the factors of a square add up.
    np.testing.assert_allclose(run_exactly(result.proto, {"x": x})[0], expected, rtol=12 * 2**-9)


ENDS = """g (float[1, 4] x, float[1, 4] z) => (float[1, 4] y, float[1, 4] w) {
    a = Sigmoid(x)
    b = Mul(a, z)
    c = Tanh(b)
    d = Add(c, a)
    y = Sigmoid(d)
    w = Tanh(a)
}"""


def test_what_lies_in_front_of_input_nodes_stays_float():
    names = ["sigmoid_0", "mul_1", "tanh_2", "add_3", "sigmoid_4", "tanh_5"]
    proto = tiny_model(ENDS)
    assert [node.name for node in proto.graph.node] == names
    for options, left in (
        ({"input_nodes": ["mul_1"]}, {"sigmoid_0"}),
        ({"input_nodes": ["sigmoid_0", "mul_1"]}, set()),
        ({"output_nodes": ["add_3"]}, {"sigmoid_4"}),
        ({"output_nodes": ["mul_1"]}, {"tanh_2", "add_3", "sigmoid_4"}),
        ({"input_nodes": ["tanh_2"], "output_nodes": ["add_3"]}, {"sigmoid_0", "mul_1", "sigmoid_4"}),
    ):
        placement = _place(proto, **options)
        assert {each.node for each in placement.left_float} == left
        assert set(placement.quantized) == set(names) - left


def test_an_end_that_is_no_node_is_an_error():
    with pytest.raises(ConfigError, match=r"output_nodes: expected .*'mul_2'"):
        _place(tiny_model(ENDS), output_nodes=["mul_2"])


@pytest.mark.parametrize("options", [{"exclude_outputs": ["add_3"]}, {"exclude_output_types": ["Add"]}])
def test_a_result_that_is_excluded_has_a_pair_only_for_quantized_readers(options):
    assert set(_place(tiny_model(ENDS), **options).activations) == {"x", "z", "a", "b", "c", "d", "y", "w"}
    apart = _place(tiny_model(ENDS), **options, exclude=["sigmoid_4"])
    assert "d" not in apart.activations
    assert "add_3" in apart.quantized
    assert "d" in _place(tiny_model(ENDS), exclude=["sigmoid_4"]).activations


def test_an_excluded_result_has_to_be_in_the_model():
    with pytest.raises(ConfigError, match=r"exclude_outputs: expected .*'add_9'"):
        _place(tiny_model(ENDS), exclude_outputs=["add_9"])
    with pytest.raises(ConfigError, match="exclude_output_types: expected operator types of the model"):
        _place(tiny_model(ENDS), exclude_output_types=["Adds"])


def test_types_of_onnx_that_a_model_has_not_are_left_out_of_it_anyway():
    without = _place(tiny_model(ENDS))
    assert _place(tiny_model(ENDS), exclude_output_types=["Gemm"]).activations == without.activations
    assert _place(tiny_model(ENDS), exclude_op_types=["Gemm"]).quantized == without.quantized


def test_no_pair_stands_between_operators_that_are_named():
    assert "d" not in _place(tiny_model(ENDS), fuse=[("Add", "Sigmoid")]).activations
    placement = _place(tiny_model(ENDS), fuse=[("Tanh", "Add"), ("Sigmoid", "Mul")])
    assert "c" not in placement.activations
    assert "a" in placement.activations  # which others read too
    assert "c" in _place(tiny_model(ENDS), fuse=[("Tanh", "Add")], exclude=["add_3"]).activations
