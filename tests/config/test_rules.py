from __future__ import annotations

import json

import pytest

from quarkfast.config import PRESETS, Scheme, load_config, scheme_from
from quarkfast.errors import ConfigError, UnsupportedError

RULES = {
    "exclude": ["head*", (["conv_0"], ["add_3"])],
    "layers": [
        {"op_types": ["Gemm"], "weight": {"granularity": "channel"}, "bias": "float"},
        {"nodes": ["conv_2"], "activation": {"dtype": "int16"}, "output": {"dtype": "uint16"}},
    ],
    "tensors": {
        "x": {"dtype": "int16", "range": [-1, 2.5]},
        "y": {"scale_value": 0.5, "zero_point": 3, "symmetric": False},
    },
}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_survives_the_way_through_json(preset):
    scheme = PRESETS[preset]
    assert Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme


def test_rules_survive_the_way_through_json():
    scheme = scheme_from("A8W8", RULES)
    assert scheme.layers[0].bias == "float"
    assert scheme.tensors[0].range == (-1.0, 2.5)
    assert Scheme.from_dict(json.loads(json.dumps(scheme.to_dict()))) == scheme


@pytest.mark.parametrize("kind", ["json", "yaml", "yml"])
@pytest.mark.parametrize("whole", [False, True], ids=["preset and options", "scheme"])
def test_a_file_says_what_the_options_say(tmp_path, kind, whole):
    expected = scheme_from("A8W8", {**RULES, "per_channel": True})
    plain = expected.to_dict() if whole else {"preset": "a8w8", "per_channel": True, **RULES}
    text = json.dumps(plain)
    if kind != "json":
        text = pytest.importorskip("yaml").safe_dump(json.loads(text))
    path = tmp_path / f"config.{kind}"
    path.write_text(text, encoding="utf-8")
    assert load_config(path) == expected
    assert load_config(path, {"samples": 8}) == scheme_from(expected, {"samples": 8})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json: expected JSON, got"),
        ("[1]", "config.json: expected a mapping of options, got list"),
        ('{"per_channel": true}', "config.json: expected the name of a preset under 'preset', got None"),
        ('{"preset": "A8W8", "per_chanel": true}', "expected a known name, got 'per_chanel'; did you mean"),
        ('{"activation": {"dtype": "int8"}}', "Scheme: expected name, target, weight, got none"),
        ('{"activation": {}, "nam": "A8W8"}', "Scheme: expected known fields, got 'nam'; did you mean 'name'"),
    ],
)
def test_a_file_that_says_something_else_is_one_sentence(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "config.json")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="expected a readable configuration, got"):
        load_config(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("layers", [{}], "layers: expected nodes or op_types in each rule, got neither"),
        ("layers", [{"node": ["a"]}], "layers: expected one of nodes, .*, got 'node'; did you mean 'nodes'"),
        ("layers", [{"nodes": "a"}], "layers: nodes: expected a list of strings, got 'a'"),
        ("layers", [{"nodes": [3]}], r"layers: nodes: expected a list of strings, got \[3\]"),
        ("layers", [3], "layers: expected a mapping, got int"),
        (
            "layers",
            [{"nodes": ["a"], "bias": "int8"}],
            "layers: bias: expected int32 or int16 or weight or float, got 'int8'",
        ),
        ("layers", [{"nodes": ["a"], "weight": {"dtpe": 1}}], "layers: weight: expected one of dtype, .*, got 'dtpe'"),
        ("layers", [{"nodes": ["a"], "weight": {"dtype": "int9"}}], "dtype: expected one of int3, .*, got 'int9'"),
        ("tensors", {"x": 3}, "tensors: x: expected a mapping, got int"),
        ("tensors", {"x": {"range": [2, 1]}}, "tensors: x: range: expected two numbers, the least first, got"),
        ("tensors", {"x": {"scale_value": 0}}, "tensors: x: scale_value: expected a finite number above 0, got 0"),
        ("tensors", {"x": [{"quant_typ": 3}]}, "TensorQuantOverrides: x: expected one of quant_type, .*, got"),
        ("tensors", {"x": [{"quant_type": "int8"}]}, "TensorQuantOverrides: x: quant_type: expected a member of"),
        ("tensors", {"x": [{"rmin": 1}]}, "TensorQuantOverrides: x: expected rmin and rmax, got one of them"),
        ("tensors", {"x": {"symmetric": "x"}}, "tensors: x: symmetric: expected True or False, got 'x'"),
        ("tensors", {"x": {"range_symmetric": 1}}, "tensors: x: range_symmetric: expected True, False or None, got 1"),
        ("tensors", {"x": {"granularity": "row"}}, "x: granularity: expected tensor, channel or group, got 'row'"),
        ("tensors", {"x": {"scale": "half_float"}}, "x: scale: expected float32, power_of_two, .*, got 'half_float'"),
        ("tensors", {"x": {"group_size": "8"}}, "x: group_size: expected a whole number above 0, got '8'"),
        ("tensors", {"x": {"method": 3}}, "tensors: x: method: expected the name of one, got 3"),
        ("tensors", {"x": {"scale_value": "x"}}, "tensors: x: scale_value: expected a finite number above 0, got 'x'"),
        ("tensors", {"x": {"range": ["a", 1]}}, "tensors: x: range: expected two numbers, the least first, got"),
        ("tensors", {"x": {"zero_point": 3}}, "tensors: x: expected scale_value beside zero_point, got none"),
        ("tensors", {"x": {"scale_value": 1, "zero_point": "a"}}, "x: zero_point: expected a whole number, got 'a'"),
        ("tensors", {"x": {"axis": 0}}, "tensors: x: expected granularity 'channel' beside axis, got none"),
        ("tensors", {"x": {"granularity": "channel", "axis": "a"}}, "x: axis: expected a whole number, got 'a'"),
        (
            "tensors",
            {"w": {"granularity": "group"}},
            "tensors: w: granularity: expected tensor or channel, got group",
        ),
        ("tensors", {"x": [{"symmetric": 1}]}, "TensorQuantOverrides: x: symmetric: expected True or False, got 1"),
        ("tensors", {"x": [{"reduce_range": "x"}]}, "x: reduce_range: expected True or False, got 'x'"),
        ("tensors", {"x": [{"zero_point": 3}]}, "TensorQuantOverrides: x: expected scale beside zero_point, got none"),
        ("tensors", {"x": [{"axis": "x"}]}, "TensorQuantOverrides: x: axis: expected a number, got 'x'"),
        (
            "layers",
            [{"nodes": ["a"], "activation": {"granularity": "channel"}}],
            "layers: activation: granularity: expected tensor, got channel",
        ),
        (
            "layers",
            [{"nodes": ["a"], "weight": {"granularity": "group"}}],
            "layers: weight: granularity: expected tensor or channel, got group",
        ),
        ("exclude", [3], "exclude: expected a string or a pair of lists of strings, got 3"),
    ],
)
def test_a_rule_that_is_none_is_one_sentence(option, value, message):
    with pytest.raises(ConfigError, match=message):
        scheme_from("A8W8", {option: value})


@pytest.mark.parametrize(
    "value", [[{}, {}], [{"convert": {"quant_type": "QInt8"}}]], ids=["channel by channel", "a second type"]
)
def test_an_override_that_cannot_be_honoured_is_refused(value):
    with pytest.raises(UnsupportedError, match="TensorQuantOverrides: x: expected"):
        scheme_from("A8W8", {"TensorQuantOverrides": {"x": value}})


def test_a_rule_of_a_tensor_survives_plain_data():
    plain = {"w": {"granularity": "channel", "axis": 1}, "x": {"scale_value": 0.5, "zero_point": 3}}
    scheme = scheme_from("A8W8", {"tensors": plain})
    assert Scheme.from_dict(scheme.to_dict()) == scheme
    assert {rule.tensor: rule.to_plain() for rule in scheme.tensors} == plain


def test_dynamic_quantization_takes_no_rules():
    with pytest.raises(ConfigError, match="tensors: expected none of their own for DYNAMIC, got some"):
        scheme_from("DYNAMIC", {"tensors": {"x": {"dtype": "int8"}}})
