"""Rules of a target that are turned on and off: the option ``constraints``, and the keys of Quark's that mean it."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.graph.load import load_model
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import compute_qparams, place
from quarkfast.targets import CONVERSIONS, TARGETS
from quarkfast.targets.constraints.shift_limits import FixedPointPositions
from quarkfast.targets.conversions import SIMULATIONS
from support.tiny_models import conv_relu_model, samples, tiny_model

JOINED = "g (float[N, 4] a, float[N, 4] b) => (float[N, 12] y) { y = Concat<axis = 1>(a, b, c) }"
C = np.full((1, 4), 0.5, np.float32)


def plan_of(proto, ranges, preset="A8W8", **constraints):
    scheme, target = resolve(preset, {"constraints": constraints})
    model = prepare(load_model(proto), 21 if scheme.activation.dtype == "int16" else 13)
    placement = place(model, scheme, target)
    known = {name: Range(*ends, 10, 0, 0, 0) for name, ends in ranges.items()}
    return model, target.refine(model, compute_qparams(model, placement, scheme, target, known))


def scales_of(plan):
    constants = {slot.tensor: quantizer for slot, quantizer in plan.constants}
    return {name: float(each.scale) for name, each in (dict(plan.quantizers) | constants).items()}


RANGES = {"a": (-1.0, 2.0), "b": (-8.0, 4.0), "y": (-8.0, 4.0)}


def test_inputs_of_a_concatenation_take_the_scale_of_its_output():
    _, apart = plan_of(tiny_model(JOINED.replace("N", "1"), {"c": C}), RANGES)
    _, joined = plan_of(tiny_model(JOINED.replace("N", "1"), {"c": C}), RANGES, concat=True)
    assert len(set(scales_of(apart).values())) == 3
    assert set(scales_of(joined).values()) == {float(np.float32(8 / 127))}


def test_zero_points_are_joined_too():
    _, joined = plan_of(tiny_model(JOINED.replace("N", "1"), {"c": C}), RANGES, preset="U8S8", concat=True)
    found = [*joined.quantizers.values(), *(quantizer for _, quantizer in joined.constants)]
    assert {(each.dtype, float(each.scale), int(each.zero_point)) for each in found} == {
        ("uint8", float(np.float32(12 / 255)), 170)
    }


def test_concatenations_that_share_an_input_have_one_range():
    text = """g (float[1, 4] a, float[1, 4] b, float[1, 4] d) => (float[1, 8] y, float[1, 8] z) {
        y = Concat<axis = 1>(a, b)
        z = Concat<axis = 1>(b, d)
    }"""
    ranges = {"a": (-1, 1), "b": (-2, 2), "d": (-5, 5), "y": (-2, 2), "z": (-5, 5)}
    _, joined = plan_of(tiny_model(text), ranges, concat=True)
    assert set(scales_of(joined).values()) == {float(np.float32(5 / 127))}


def test_a_bias_follows_the_scale_that_its_layer_reads():
    text = """g (float[1, 2, 4, 4] x) => (float[1, 4, 4, 4] y) {
        c = Conv(x, w, b)
        y = Concat<axis = 1>(c, x)
    }"""
    arrays = {"w": np.ones((2, 2, 1, 1), np.float32), "b": np.ones(2, np.float32)}
    ranges = {"x": (-1, 1), "c": (-3, 3), "y": (-3, 3)}
    _, plan = plan_of(tiny_model(text, arrays), ranges, concat=True)
    scales = scales_of(plan)
    ((_, bias),) = plan.biases
    assert scales["x"] == scales["y"]
    assert float(bias.scale) == pytest.approx(scales["x"] * scales["w"], rel=2**-23)


def test_a_pool_keeps_the_scale_of_its_input():
    text = "g (float[1, 2, 4, 4] x) => (float[1, 2, 1, 1] y) { y = GlobalAveragePool(x) }"
    for on, count in ((False, 2), (True, 1)):
        _, plan = plan_of(tiny_model(text), {"x": (-4, 4), "y": (-1, 1)}, pool=on)
        assert len(plan.quantizers) == count


def test_a_constant_operand_takes_the_type_of_activations():
    text = "g (float[N, 4] x) => (float[N, 4] y) { y = Mul(x, c) }"
    for on, dtype in ((False, "int8"), (True, "int16")):
        _, plan = plan_of(tiny_model(text, {"c": C}), {"x": (-1, 1), "y": (-1, 1)}, "A16W8", elementwise_constants=on)
        assert [quantizer.dtype for _, quantizer in plan.constants] == [dtype]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_a_product_of_two_activations_stays_float_if_only_weights_may_be_multiplied(preset):
    text = "g (float[4, 4] x) => (float[4, 4] y) { p = MatMul(x, w) y = MatMul(p, x) }"
    proto = tiny_model(text, {"w": np.eye(4, dtype=np.float32)})
    for on, count in ((False, 2), (True, 1)):
        plan = quarkfast.plan(proto, preset=preset, constraints={"constant_matmul": on})
        assert len(plan.quantized) == count


@pytest.mark.parametrize("preset", ["A8W8", "BF16", "XINT8", "U8S8"])
def test_a_pair_stands_in_front_of_an_activation_that_is_not_computed_along(preset):
    for on, tensors in ((True, {"x", "r1", "c2", "y"}), (False, {"x", "c1", "r1", "c2", "y"})):
        scheme, target = resolve(preset, {"constraints": {"fuse_relu": on}})
        assert set(place(prepare(load_model(conv_relu_model()), 17), scheme, target).activations) == tensors


def test_gelu_is_computed_along_where_that_is_asked_for():
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { c = Conv(x, w) y = Gelu(c) }"
    proto = tiny_model(text, {"w": np.ones((3, 3, 1, 1), np.float32)}, opset=20)
    for on in (False, True):
        scheme, target = resolve("A8W8", {"constraints": {"fuse_gelu": on}})
        assert ("c" in place(prepare(load_model(proto), 20), scheme, target).activations) is not on


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "BF16"])
@pytest.mark.parametrize("text", ["y = Add(m, x)", "y = Add(x, m)"])
def test_no_pair_stands_between_a_product_and_its_sum_where_that_is_asked_for(preset, text):
    proto = tiny_model(f"g (float[N, 4] x) => (float[N, 4] y) {{ m = Mul(x, x) {text} }}")
    for on in (False, True):
        scheme, target = resolve(preset, {"constraints": {"fuse_mul_add": on}})
        assert ("m" in place(prepare(load_model(proto), 17), scheme, target).activations) is not on


def test_no_pair_stands_behind_a_normalization_where_that_is_asked_for():
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { i = InstanceNormalization(x, s, b) y = Relu(i) }"
    proto = tiny_model(text, {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32)})
    for on in (False, True):
        scheme, target = resolve("A8W8", {"constraints": {"fuse_instance_norm": on}})
        assert ("i" in place(prepare(load_model(proto), 17), scheme, target).activations) is not on


# A model, ranges that break a limit, and what is then out of reach of the shifters.
CONV = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Conv(x, w, b) }"
SMALL = {"w": np.full((3, 3, 1, 1), 1e-3, np.float32), "b": np.full(3, 60, np.float32)}
SUM = "g (float[N, 4] a, float[N, 4] b) => (float[N, 4] y) { y = Add(a, b) }"
LIMITS = {
    "concat": (JOINED.replace("c)", "b)"), {}, RANGES, lambda i, o: len({*i, o}) == 1),
    "pool": (
        "g (float[N, 2, 4, 4] x) => (float[N, 2, 1, 1] y) { y = GlobalAveragePool(x) }",
        {}, {"x": (-100, 100), "y": (-1, 1)}, lambda i, o: i[0] == o,
    ),
    "shift_read": (
        SUM, {}, {"a": (-100, 100), "b": (-0.01, 0.01), "y": (-100, 100)}, lambda i, o: max(i) - min(i) <= 7,
    ),
    "shift_write": (
        SUM.replace("Add", "Mul"), {}, {"a": (-100, 100), "b": (-100, 100), "y": (-0.001, 0.001)},
        lambda i, o: sum(i) - o >= 0,
    ),
    "shift_cut": (
        CONV, {**SMALL, "b": np.full(3, 0.1, np.float32)}, {"x": (-0.9, 0.9), "y": (-120, 120)},
        lambda i, o: i[0] + i[1] - o <= 16,
    ),
    "shift_bias": (CONV, SMALL, {"x": (-0.9, 0.9), "y": (-120, 120)}, lambda i, o: i[0] + i[1] - i[2] <= 15),
    "hard_sigmoid": (
        "g (float[N, 4] x) => (float[N, 4] y) { y = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) }",
        {}, {"x": (-1e6, 1e6), "y": (0, 1)}, lambda i, o: i[0] >= 0,
    ),
    "shift_swish": (
        "g (float[N, 4] x) => (float[N, 4] y) { h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(h, x) }",
        {}, {"x": (-0.01, 0.01), "h": (0, 1), "y": (-100, 100)}, lambda i, o: sum(i) - o <= 15,
    ),
}  # fmt: skip


def test_every_limit_of_the_shifters_can_be_turned_off():
    others = {"constant_matmul", *CONVERSIONS, *SIMULATIONS}
    assert set(LIMITS) | others == {name for name in TARGETS["ryzenai-xint8"].switches if "fuse" not in name}


def test_other_products_are_no_swish():
    """A factor that is the HardSigmoid of something else, as in squeeze-and-excite, is shifted by more."""
    text, _, ranges, _ = LIMITS["shift_swish"]
    text = text.replace("x) =>", "x, float[N, 4] z) =>").replace("Mul(h, x)", "Mul(h, z)")
    model, plan = plan_of(tiny_model(text, {}), {**ranges, "z": ranges["x"]}, "XINT8")
    node = list(model.graph)[-1]
    positions = FixedPointPositions(plan)
    assert positions.of_input(node, 0) + positions.of_input(node, 1) - positions.of_output(node) > 15


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_off_moves_nothing(name):
    text, arrays, ranges, keeps = LIMITS[name]
    for on in (True, False):
        model, plan = plan_of(tiny_model(text, arrays), ranges, "XINT8", **{name: on})
        node = list(model.graph)[-1]
        positions = FixedPointPositions(plan)
        inputs = [positions.of_input(node, index) for index in range(len(node.inputs))]
        assert keeps(inputs, positions.of_output(node)) is on


def test_an_int32_bias_has_the_scale_of_products_whose_scales_moved():
    scheme, target = resolve("XINT8", {"bias": "int32"})
    model = prepare(load_model(tiny_model(CONV, SMALL)), 13)
    placement = place(model, scheme, target)
    known = {"x": Range(-0.9, 0.9, 10, 0, 0, 0), "y": Range(-1000, 1000, 10, 0, 0, 0)}
    before = compute_qparams(model, placement, scheme, target, known)
    plan = target.refine(model, before)
    ((_, old),), ((_, bias),) = before.biases, plan.biases
    assert float(old.scale) != float(bias.scale) == scales_of(plan)["x"] * scales_of(plan)["w"]


def test_a_rule_that_the_target_does_not_have_is_named():
    message = "constraints: expected constant_matmul, concat, .* for ryzenai-a8w8, got 'shift_cut'"
    with pytest.raises(quarkfast.ConfigError, match=message):
        quarkfast.plan(conv_relu_model(), preset="A8W8", constraints={"shift_cut": False})
    with pytest.raises(quarkfast.ConfigError, match="constraints: expected a mapping from names to True or False"):
        quarkfast.plan(conv_relu_model(), preset="A8W8", constraints={"concat": "yes"})


def test_constraints_survive_plain_data():
    scheme, _ = resolve("A8W8", {"constraints": {"pool": True, "concat": True}})
    assert scheme.constraints == (("concat", True), ("pool", True))
    assert quarkfast.Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme
    assert "constraints" not in quarkfast.PRESETS["A8W8"].to_dict()


def quark(preset, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return scheme_of(config)


@pytest.mark.parametrize(
    ("preset", "key", "value", "constraint"),
    [
        ("S8S8_AAWS", "AlignConcat", True, "concat"),
        ("A8W8", "AlignPool", True, "pool"),
        ("XINT8", "AlignConcat", False, "concat"),
        ("XINT8", "AlignPool", False, "pool"),
        ("XINT8", "AdjustShiftCut", False, "shift_cut"),
        ("XINT8", "AdjustShiftBias", False, "shift_bias"),
        ("XINT8", "AdjustShiftRead", False, "shift_read"),
        ("XINT8", "AdjustShiftWrite", False, "shift_write"),
        ("XINT8", "AdjustHardSigmoid", False, "hard_sigmoid"),
        ("XINT8", "AdjustShiftSwish", False, "shift_swish"),
        ("S16S8_ASWS", "AlignEltwiseQuantType", True, "elementwise_constants"),
        ("A8W8", "MatMulConstBOnly", True, "constant_matmul"),
        ("INT8_TRANSFORMER_DEFAULT", "MatMulConstBOnly", False, "constant_matmul"),
        ("XINT8", "RemoveQDQConvRelu", False, "fuse_relu"),
        ("A8W8", "RemoveQDQConvClip", False, "fuse_clip"),
        ("BF16", "RemoveQDQConvLeakyRelu", False, "fuse_leaky_relu"),
        ("INT8_CNN_DEFAULT", "RemoveQDQConvPRelu", False, "fuse_prelu"),
        ("XINT8", "RemoveQDQConvGelu", True, "fuse_gelu"),
        ("XINT8", "RemoveQDQInstanceNorm", True, "fuse_instance_norm"),
        ("S8S8_AAWS", "RemoveQDQMulAdd", True, "fuse_mul_add"),
    ],
)
def test_a_key_of_quark_turns_a_rule_on_or_off(preset, key, value, constraint):
    found = quark(preset, **{key: value})
    assert dict(found.constraints)[constraint] is value
    assert constraint not in dict(quark(preset).constraints)
    resolve(found, {})


def test_the_presets_of_quark_join_what_their_documents_say():
    assert quark("A8W8").constraints == (("concat", True),)
    assert quark("A16W8").constraints == (("concat", True), ("elementwise_constants", True))


def test_the_result_of_quarks_a8w8_has_one_scale_around_a_concatenation():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 6, 8, 8] y) {
        c = Conv(x, w)
        j = Concat<axis = 1>(c, x)
        y = Relu(j)
    }"""
    proto = tiny_model(text, {"w": np.full((3, 3, 1, 1), 0.9, np.float32)})
    result = quarkfast.quantize(proto, preset=quark("A8W8"), calibration_data=samples()).proto
    scales = {each.name: onnx.numpy_helper.to_array(each) for each in result.graph.initializer}
    pairs = {node.output[0]: node.input[1] for node in result.graph.node if node.op_type == "DequantizeLinear"}
    (concat,) = [node for node in result.graph.node if node.op_type == "Concat"]
    assert len({float(scales[pairs[name]]) for name in concat.input}) == 1
