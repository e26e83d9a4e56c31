"""Quark's preset VINT8: powers of two and biases of 8 bits, as VAIML takes them, and what breaks that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config.quark import QuantizationConfig, get_default_config, ready_made, scheme_of
from quarkfast.config.quark.enums import PowerOfTwoMethod, QuantType
from quarkfast.errors import ConfigError
from support.tiny_models import conv_relu_model, samples

TARGET = "ryzenai-vint8"


def written(**options):
    config = get_default_config("VINT8")
    config.extra_options |= options
    found = quarkfast.ModelQuantizer(quarkfast.Config(config)).quantize_model(conv_relu_model(), None, samples())
    assert found is not None
    return found


def rules(proto, target=TARGET):
    return {each.rule for each in quarkfast.check_model(proto, target).errors}


def edited(name, change):
    """The model with a changed constant."""
    proto = written()
    (tensor,) = [each for each in proto.graph.initializer if each.name == name]
    array = np.asarray(change(onnx.numpy_helper.to_array(tensor)))
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    return proto


def test_quarks_names_of_it_are_for_this_device():
    for config in (get_default_config("VINT8"), ready_made("VINT8_QCONFIG")):
        scheme = scheme_of(config)
        assert (scheme.name, scheme.target, scheme.bias) == ("VINT8", TARGET, "weight")


def test_its_result_keeps_the_rules_of_its_device_alone():
    proto = written()
    assert quarkfast.check_model(proto, TARGET).quantized.get("Conv") == 2
    assert rules(proto) == set()
    assert rules(proto, "ryzenai-a8w8") == {"type"}


def test_xint8_for_this_device_has_its_biases_and_no_shift_limits():
    proto = quarkfast.quantize(conv_relu_model(), None, "XINT8", samples(), target=TARGET).proto
    assert rules(proto) == set()
    with pytest.raises(ConfigError, match=f"constraints: expected .* for {TARGET}, got 'shift_cut'"):
        quarkfast.quantize(conv_relu_model(), None, "XINT8", samples(), target=TARGET, constraints={"shift_cut": False})


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("w1_scale", lambda scale: scale * np.float32(3), "power-of-two"),
        ("b1_scale", lambda scale: scale * np.float32(0.75), "power-of-two"),
        ("x_scale", lambda _: np.float32(np.inf), "scale"),
        ("x_zero_point", lambda point: point + np.int8(1), "zero-point"),
    ],
)
def test_a_constant_that_breaks_a_rule_is_found(name, change, rule):
    assert rule in rules(edited(name, change))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"Int32Bias": True}, "expected int8 for biases, got int32"),
        ({"Int16Bias": True}, "expected int8 for biases, got int16"),
    ],
)
def test_a_bias_of_more_bits_is_found(options, text):
    """Such a model is for the devices of A8W8, and is no result of this preset any more."""
    proto = written(**options)
    found = quarkfast.check_model(proto, TARGET).errors
    assert {each.rule for each in found} == {"type"}
    assert all(each.text.endswith(text) for each in found)
    assert rules(proto, "ryzenai-a8w8") == set()


def test_layers_in_other_types_are_found():
    proto = quarkfast.quantize(conv_relu_model(), None, "A16W8", samples()).proto
    assert rules(proto) >= {"type", "power-of-two"}
    assert rules(conv_relu_model()) == {"float"}


@pytest.mark.parametrize(
    "changed",
    [
        {"Int32Bias": True}, {"PerChannel": True}, {"ActivationSymmetric": False}, {"QuantizeBias": False}, {},
    ],
)  # fmt: skip
def test_what_differs_from_the_preset_keeps_the_device_that_takes_it(changed):
    changed = dict(changed)
    config = get_default_config("VINT8")
    config.per_channel = changed.pop("PerChannel", False)
    config.extra_options |= changed
    target = scheme_of(config).target
    assert (target == TARGET) == (not changed and not config.per_channel)


def test_power_of_two_methods_with_wide_biases_are_for_a8w8():
    config = QuantizationConfig(
        calibrate_method=PowerOfTwoMethod.MinMSE,
        activation_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True},
    )
    assert scheme_of(config).target == "ryzenai-a8w8"
    config.extra_options["Int32Bias"] = False
    assert scheme_of(config).target == TARGET


def test_the_command_says_where(tmp_path, capsys):
    onnx.save(edited("b1_scale", lambda scale: scale * np.float32(0.75)), tmp_path / "model.onnx")
    status = main(["check", str(tmp_path / "model.onnx"), "--target", TARGET])
    assert status == ExitCode.BROKEN_RULE
    assert "'b1" in capsys.readouterr().out
