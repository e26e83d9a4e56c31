"""What each field of a target does."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pkgutil import iter_modules

import numpy as np
import pytest
from onnx.numpy_helper import to_array

import quarkfast
from quarkfast import TARGETS, Flow, Rule, Target, targets
from quarkfast.config import load_config
from quarkfast.errors import ConfigError, UnsupportedError
from support.tiny_models import conv_relu_model, samples, tiny_model

LAYER = Rule(inputs=(0, 1))
PLAIN = Target(name="plain", rules={"Conv": LAYER, "Relu": Rule(Flow.ACTIVATION, inputs=(0,)), "Add": Rule()})
CONSTANT = {"c": np.arange(4, dtype=np.float32)}


def _plan(target, proto=None, preset="A8W8", **options):
    return quarkfast.plan(proto or conv_relu_model(), preset, target=target, **options)


def _quantize(target, proto=None, preset="A8W8", **options):
    return quarkfast.quantize(proto or conv_relu_model(), None, preset, samples(), target=target, **options)


def _operators(result):
    return [node.op_type for node in result.proto.graph.node]


def test_rules_decide_what_is_quantized():
    assert dict(_plan(replace(PLAIN, rules={"Conv": LAYER})).quantized) == {"conv_0": "Conv", "conv_2": "Conv"}


def test_an_operator_without_a_rule_stays_float_and_the_reason_names_the_target():
    found = _plan(replace(PLAIN, rules={"Conv": LAYER}))
    assert found.left_float["relu_1"] == "plain has no rule for Relu"


def test_no_pair_stands_between_operators_that_are_fused():
    assert "c1" in _plan(PLAIN).activations
    assert "c1" not in _plan(replace(PLAIN, fused={"Relu": frozenset({"Conv"})})).activations


@pytest.mark.parametrize(("constants", "dtype"), [("weight", "int8"), ("activation", "int16")])
def test_constants_take_the_type_of_weights_or_of_activations(constants, dtype):
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, c) }", CONSTANT)
    found = _plan(replace(PLAIN, constants=constants), proto, "A16W8", strict=True)
    assert found.weights["c"] == dtype
    assert _plan(replace(PLAIN, constants=constants), proto, "A16W8").weights["c"] == "int16"


def test_a_dynamic_target_places_weights_alone():
    target = replace(PLAIN, dynamic=True, rules={"Conv": LAYER})
    found = _plan(target, preset="DYNAMIC")
    assert not found.activations
    assert set(found.weights) == {"w1", "w2"}


@pytest.mark.parametrize(
    ("preset", "dynamic", "message"),
    [
        ("A8W8", True, "target: expected one for static quantization beside A8W8, got plain"),
        ("DYNAMIC", False, "target: expected one for dynamic quantization beside DYNAMIC, got plain"),
    ],
)
def test_a_target_for_the_other_kind_of_quantization_is_refused(preset, dynamic, message):
    with pytest.raises(ConfigError, match=message):
        _plan(replace(PLAIN, dynamic=dynamic), preset=preset)


def test_operands_alone_are_quantized():
    found = _plan(replace(PLAIN, operands_only=True, rules={"Conv": LAYER}))
    assert set(found.activations) == {"x", "r1"}


@pytest.mark.parametrize(("bias", "stored"), [(None, "int32"), ("weight", "int8"), ("float", None)])
def test_biases_are_what_the_target_says(bias, stored):
    found = _plan(replace(PLAIN, bias=bias))
    dtype = found.biases.get("b1", found.weights.get("b1"))
    assert dtype is stored or dtype.startswith(stored)


def test_a_target_of_a_registered_name_says_what_becomes_of_biases_too():
    assert _plan(replace(PLAIN, name="ryzenai-a8w8", bias="float")).scheme.bias == "float"


@pytest.mark.parametrize("preset", [name for name, scheme in quarkfast.PRESETS.items() if not scheme.weights_only])
def test_presets_state_what_their_targets_say_of_biases(preset):
    scheme = quarkfast.PRESETS[preset]
    assert scheme.bias == TARGETS[scheme.target].bias_of(scheme)


def test_the_option_for_biases_wins_over_the_target():
    assert _plan(replace(PLAIN, bias="weight"), bias="float").scheme.bias == "float"
    assert _plan(replace(PLAIN, name="ryzenai-a8w8"), bias="float").scheme.bias == "float"


def test_a_bias_that_the_types_cannot_carry_is_refused():
    with pytest.raises(ConfigError, match="bias: expected weight or float beside activations bfloat16"):
        _plan(replace(PLAIN, bias="int32"), preset="BF16")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"activation_types": ("uint8",)},
            "A8W8: expected uint8 activations, got activations int8, weights int8$",
        ),
        (
            {"activation_types": ("int8", "int16"), "weight_types": ("int4",), "alternative": "MINE"},
            "A8W8: expected int8 or int16 activations and int4 weights, got activations int8, weights int8; use MINE$",
        ),
        ({"scales": ("power_of_two",)}, "A8W8: expected power_of_two scales for plain, got float32$"),
    ],
)
def test_types_and_scales_that_the_target_does_not_take_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        _plan(replace(PLAIN, **fields))


def test_types_that_the_target_takes_pass():
    target = replace(PLAIN, activation_types=("uint8",), weight_types=("int4",), scales=("float32",))
    assert _plan(target, activation_type="uint8", weight_type="int4").scheme.target == "plain"


@pytest.mark.parametrize(("preset", "unit"), [("A8W8", "scale"), ("XINT8", "shift")])
def test_a_target_may_refuse_one_scale_for_each_channel(preset, unit):
    assert _plan(PLAIN, preset=preset, per_channel=True).weights["w1"].startswith("int8 for each index of axis 0")
    with pytest.raises(
        ConfigError, match=rf"expected False for {preset}, got True; its target has one {unit} a tensor"
    ):
        _plan(replace(PLAIN, per_channel=False), preset=preset, per_channel=True)


def test_a_model_older_than_the_target_takes_is_converted():
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, c) }", CONSTANT, opset=13)
    data = np.ones((2, 4), np.float32)
    result = quarkfast.quantize(proto, calibration_data=data, target=replace(PLAIN, lowest_opset=18))
    assert result.summary.opset == 18


def test_a_model_newer_than_the_target_takes_is_refused():
    message = "model: expected opset 16 or older for plain, got 17 with the types asked for; export it in an older one"
    with pytest.raises(UnsupportedError, match=message):
        _plan(replace(PLAIN, highest_opset=16))


def test_transforms_rewrite_the_model_before_it_is_written():
    def rename(model):
        model.graph.doc_string = "as the device needs it"

    assert _quantize(replace(PLAIN, transforms=(rename,))).proto.graph.doc_string == "as the device needs it"


def test_constraints_change_the_plan_in_order():
    def add(text):
        return lambda model, plan: replace(plan, notes=(*plan.notes, text))

    notes = _quantize(replace(PLAIN, constraints=(add("first"), add("second")))).summary.notes
    assert notes.index("second") == notes.index("first") + 1


def test_checks_are_findings_of_the_plan_and_of_the_summary():
    def one(model, placement, scheme):
        yield f"{len(placement.quantized)} nodes in {scheme.activation.dtype}"

    target = replace(PLAIN, checks=(one, one))
    assert _plan(target).preflight == ("4 nodes in int8",) * 2
    assert _quantize(target).summary.preflight == ("4 nodes in int8",) * 2


def test_weights_keep_sums_in_16_bits_where_processor_kernels_run_the_result():
    proto = conv_relu_model(w1=np.full((3, 3, 3, 3), 0.5, np.float32))
    found = [_quantize(replace(PLAIN, cpu_kernels=each), proto, "U8S8").summary for each in (True, False)]
    assert [bool(each.reductions) for each in found] == [True, False]


def test_a_name_and_its_target_are_the_same():
    first, second = (_quantize(each) for each in ("ort-cpu", TARGETS["ort-cpu"]))
    assert first.model_bytes == second.model_bytes
    assert first.summary.target == "ort-cpu"


def test_a_configuration_file_may_name_a_target(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"preset": "A8W8", "activation_type": "uint8", "target": "ryzenai-xint8"}', encoding="utf-8")
    assert quarkfast.plan(conv_relu_model(), load_config(path)).scheme.bias == "weight"
    assert quarkfast.plan(conv_relu_model(), load_config(path), target="ort-cpu").scheme.bias == "int32"


def test_the_presets_own_target_changes_nothing():
    scheme = replace(quarkfast.PRESETS["A8W8"], bias="float")
    assert _plan("ryzenai-a8w8", preset=scheme).scheme == scheme


def test_a_target_wins_over_that_of_a_chosen_type():
    assert _plan("ryzenai-a8w8", activation_type="bfloat16").scheme.target == "ryzenai-a8w8"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("ort-cpv", "target: expected one of ryzenai-a8w8, .*, got 'ort-cpv'; did you mean 'ort-cpu'?"),
        (3, "option target: expected the name of a target or a Target, got 3"),
    ],
)
def test_what_is_no_target_is_one_sentence(given, message):
    with pytest.raises(ConfigError, match=message):
        _plan(given)


def test_weights_alone_have_no_target():
    with pytest.raises(ConfigError, match="target: expected a preset that quantizes activations, got INT8_WO; leave"):
        _plan("ort-cpu", preset="INT8_WO")


def test_a_calibration_for_a_target_wants_a_preset():
    with pytest.raises(ConfigError, match="calibrate: expected a preset beside target, got none; name the one"):
        quarkfast.calibrate(conv_relu_model(), samples(), target="ort-cpu")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"constants": "weights"}, "Target: constants: expected activation or weight, got 'weights'"),
        ({"bias": "int8"}, "Target: bias: expected int32 or int16 or weight or float, got 'int8'"),
        ({"scales": ("powers",)}, "Target: scales: expected float32 or power_of_two or dyadic or half, got 'powers'"),
        ({"rules": {"Conv": (0, 1)}}, "Target: rules: Conv: expected a Rule, got tuple"),
    ],
)
def test_a_field_that_means_nothing_is_one_sentence(fields, message):
    with pytest.raises(ConfigError, match=message):
        replace(PLAIN, **fields)


def test_every_target_of_the_package_has_a_row():
    modules = [importlib.import_module(f"quarkfast.targets.{each.name}") for each in iter_modules(targets.__path__)]
    defined = {id(value) for module in modules for value in vars(module).values() if isinstance(value, Target)}
    assert defined == {id(target) for target in TARGETS.values()}


def test_every_registered_target_answers_to_its_name():
    assert all(name == target.name for name, target in TARGETS.items())
    assert {scheme.target for scheme in quarkfast.PRESETS.values()} <= set(TARGETS)


def _powers_of_two(result):
    scales = [to_array(each) for each in result.proto.graph.initializer if each.name.endswith("_scale")]
    return [bool((np.frexp(scale)[0] == 0.5).all()) for scale in scales]


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_large_bias_leaves_scales_powers_of_two(per_channel):
    proto = conv_relu_model(b1=np.float32([3e7, 0.0, -2e7]))
    result = _quantize(replace(PLAIN, scales=("power_of_two",)), proto, "XINT8", per_channel=per_channel)
    assert "weight scales of 1 layer ('conv_0') raised so that biases fit into int32" in result.summary.notes
    assert all(_powers_of_two(result))


def test_sums_that_fit_16_bits_leave_scales_powers_of_two():
    proto = conv_relu_model(w1=np.linspace(-1, 1, 81, dtype=np.float32).reshape(3, 3, 3, 3))
    result = _quantize(replace(PLAIN, cpu_kernels=True), proto, "XINT8")
    assert result.summary.reductions
    assert all(_powers_of_two(result))
