"""What a check finds in models that are quantized already."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.demo.data import MODEL, load_images
from support.tiny_models import tiny_model
from tests.recorded.cases import built_cases, quantized

BUILT = {case.name: case for case in built_cases()}
# Cases whose options ask for weights in int4, for float8, for biases like weights, and for layers in other types.
OTHER_TYPES = {
    *("demo-types", "layers-types", "demo-float8", "layers-float8"),
    *("demo-bias_weight", "layers-bias_weight", "demo-layers"),
}
DEVICES = ("XINT8", "A8W8", "A16W8", "BF16")
XINT8, A8W8, BF16 = "ryzenai-xint8", "ryzenai-a8w8", "ryzenai-bf16"
TEXT = """g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y) {
    a = Conv <kernel_shape = [1, 1]> (x, w, b)
    r = Relu (a)
    s = Add (r, x)
    c = Concat <axis = 1> (s, x)
    d = Conv <kernel_shape = [1, 1]> (c, v)
    p = MaxPool <kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]> (d)
    h = HardSigmoid (p)
    y = Mul (p, h)
}"""


@pytest.fixture
def written(tmp_path, rng):
    """Writes a model in a preset, and returns its path; `edit` changes constants by name before that."""

    def write(preset, edit=None, **options):
        shapes = {"w": (4, 4, 1, 1), "b": (4,), "v": (4, 8, 1, 1)}
        arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        x = rng.standard_normal((8, 1, 4, 6, 6)).astype(np.float32)
        feeds = None if preset == "BF16" else [{"x": each} for each in x]
        result = quarkfast.quantize(tiny_model(TEXT, arrays, opset=17), None, preset, feeds, **options)
        proto = result.proto
        for tensor in proto.graph.initializer:
            if edit is not None and tensor.name in edit:
                changed = edit[tensor.name](onnx.numpy_helper.to_array(tensor))
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(changed), tensor.name))
        onnx.save(proto, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return write


def rules(path, target):
    return {each.rule for each in quarkfast.check_model(path, target).errors}


@pytest.mark.parametrize(
    ("preset", "options", "target"),
    [
        ("XINT8", {}, XINT8), ("A8W8", {}, A8W8), ("A8W8", {"per_channel": True}, A8W8), ("A16W8", {}, A8W8),
        ("BF16", {}, BF16), ("XINT8", {"rounding": "descent"}, XINT8),
    ],
)  # fmt: skip
def test_our_own_results_break_no_rule(written, preset, options, target):
    found = quarkfast.check_model(written(preset, **options), target)
    assert found.errors == ()
    assert {"Conv": 2, "Concat": 1}.items() <= found.quantized.items()


@pytest.mark.parametrize("name", [name for name, case in BUILT.items() if case.preset in DEVICES])
def test_recorded_results_break_rules_only_where_their_options_say_so(name):
    """Every small model with every kind of operator in each preset for the NPU."""
    case = BUILT[name]
    target = case.options.get("target", quarkfast.PRESETS[case.preset].target)
    assert bool(quarkfast.check_model(quantized(case), target).errors) == (name in OTHER_TYPES)


@pytest.mark.parametrize(
    ("tensor", "factor", "rule"),
    [
        ("w_scale", 3, "power-of-two"),
        ("w_scale", 2**-30, "shift-cut"),
        ("b_scale", 2.0**20, "shift-bias"),
        ("s_scale", 2.0**30, "shift-write"),
        ("x_scale", 2.0**12, "shift-read"),
        ("x_scale", 2, "concat"),
        ("h_scale", 2.0**12, "hard-sigmoid"),
    ],
)
def test_a_scale_that_breaks_a_rule_is_found(written, tensor, factor, rule):
    path = written("XINT8")
    names = {each.name for each in onnx.load(path).graph.initializer}
    assert tensor in names, sorted(names)
    assert rule in rules(written("XINT8", {tensor: lambda scale: (scale * factor).astype(np.float32)}), XINT8)


def test_a_pool_with_two_scales_is_found(written):
    path = written("XINT8")
    proto = onnx.load(path)
    (scale,) = (onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name == "d_scale")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(2 * scale, "p_scale"))
    for node in proto.graph.node:
        if node.name.startswith("p_"):
            node.input[1] = "p_scale"
    onnx.save(proto, path)
    assert rules(path, XINT8) == {"pool"}


@pytest.mark.parametrize(
    ("node", "constants", "rule"),
    [
        ("m = Pad (x, pads)", {"pads": np.int64([0, 0, 1, 1])}, "pad"),
        ("m = Slice (x, starts, ends, axes)", {"starts": np.int64([0]), "ends": [2], "axes": [1]}, "slice"),
        ("h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) m = Mul (x, h)", {}, "shift-swish"),
    ],
    ids=["pad", "slice", "swish"],
)
def test_a_node_between_scales_too_far_apart_is_found(node, constants, rule):
    text = f"g (float[4, 4] x) => (float[n, m] y) {{ {node} y = Neg (m) }}"
    arrays = {name: np.int64(each) for name, each in constants.items()}
    data = np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 4, 4)
    proto = quarkfast.quantize(tiny_model(text, arrays, opset=17), None, "XINT8", list(data), strict=True).proto
    assert quarkfast.check_model(proto, XINT8).errors == ()
    (quantize,) = [each for each in proto.graph.node if each.op_type == "QuantizeLinear" and each.input[0] == "m"]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2**20), "other"))
    for each in proto.graph.node:
        if quantize.output[0] in (*each.output, *each.input[:1]):
            each.input[1] = "other"
    assert rule in {each.rule for each in quarkfast.check_model(proto, XINT8).errors}


def test_a_zero_point_is_found(written):
    path = written("XINT8", {"x_zero_point": lambda point: point + 1})
    (finding,) = [each for each in quarkfast.check_model(path, XINT8).errors if "x_" in each.text]
    assert (finding.rule, finding.node) == ("zero-point", "conv_0")
    assert finding.text.endswith("expected 0 as zero point, got 1")


def test_types_of_another_device_are_found(written):
    assert "type" in rules(written("A16W8"), XINT8)
    assert rules(written("A8W8", per_channel=True), XINT8) >= {"type", "per-tensor", "power-of-two"}
    # Its weights of 4 bits are what the device does not take.
    assert "type" in rules(written("A8W8", weight_type="int4"), A8W8)


@pytest.mark.parametrize("preset", ["A8W8", "A16W8"])
def test_the_bias_of_a_matmul_with_weights_of_16_bits_breaks_no_rule(rng, preset):
    """It is written as int32 codes, and the Add behind a MatMul that has it is no layer by itself."""
    text = """g (float[1, 6, 8] x) => (float[1, 6, 4] y) {
        p = MatMul (x, w)
        y = Add (p, b)
    }"""
    arrays = {"w": rng.normal(size=(8, 4)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)}
    feeds = [{"x": each} for each in rng.normal(size=(4, 1, 6, 8)).astype(np.float32)]
    model = tiny_model(text, arrays)
    proto = quarkfast.quantize(model, None, preset, feeds, tensors={"w": {"dtype": "int16"}}).proto
    assert quarkfast.check_model(proto, quarkfast.PRESETS[preset].target).errors == ()


def test_a_bias_with_another_scale_than_its_products_is_found(written):
    path = written("A8W8", {"b_quantized_scale": lambda scale: scale * np.float32(1.001)})
    (finding,) = quarkfast.check_model(path, A8W8).errors
    assert finding.rule == "bias-scale"
    assert "expected the scale of the products" in finding.text


def test_models_of_other_domains_are_read(written):
    """Quark writes 8 bits in the domain of ONNX Runtime too."""
    path = written("XINT8", {"w_scale": lambda scale: scale * np.float32(3)})
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.domain = "com.microsoft" if node.op_type in ("QuantizeLinear", "DequantizeLinear") else ""
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, path)
    assert "power-of-two" in rules(path, XINT8)


@pytest.mark.parametrize("target", [XINT8, A8W8])
def test_a_float_model_is_one_error(target):
    found = quarkfast.check_model(MODEL, target)
    assert found.quantized == {}
    assert [each.rule for each in found.errors] == ["float"]


@pytest.mark.parametrize("target", [XINT8, A8W8])
def test_layers_that_stay_float_are_a_warning(written, target):
    found = quarkfast.check_model(written({XINT8: "XINT8", A8W8: "A8W8"}[target], exclude=["conv_0"]), target)
    assert found.errors == ()
    (finding,) = [each for each in found.findings if each.rule == "float"]
    assert (finding.node, finding.text) == ("conv_0", "1 Conv read floats and run on the CPU; the first is 'conv_0'")


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_scale_that_is_none_is_found(written, scale):
    found = quarkfast.check_model(written("A8W8", {"s_scale": lambda _: np.float32(scale)}), A8W8)
    (finding,) = [each for each in found.errors if each.rule == "scale"]
    assert finding.text == f"'s_scale': expected positive, finite scales, got {scale:g}"


def test_a_scale_that_is_computed_is_found(written):
    path = written("A8W8")
    proto = onnx.load(path)
    proto.graph.node.insert(0, onnx.helper.make_node("Abs", ["s_scale"], ["computed"], "abs"))
    for node in proto.graph.node:
        node.input[:] = ["computed" if name == "s_scale" and node.name != "abs" else name for name in node.input]
    onnx.save(proto, path)
    (finding,) = [each for each in quarkfast.check_model(path, A8W8).errors if each.rule == "scale"]
    assert "expected a constant scale and zero point" in finding.text


def test_codes_in_a_body_are_checked(written):
    """A Conv and its pairs, put into both branches of an If."""
    proto = onnx.load(written("XINT8", {"w_scale": lambda scale: scale * np.float32(3)}))
    graph = proto.graph
    body = onnx.helper.make_graph(list(graph.node), "body", [], list(graph.output))
    whole = onnx.helper.make_graph(
        [onnx.helper.make_node("If", ["choose"], [graph.output[0].name], "if", then_branch=body, else_branch=body)],
        "g",
        [*graph.input, onnx.helper.make_tensor_value_info("choose", onnx.TensorProto.BOOL, [])],
        list(graph.output),
        list(graph.initializer),
    )
    proto.graph.CopyFrom(whole)
    found = quarkfast.check_model(proto, XINT8)
    assert "power-of-two" in {each.rule for each in found.errors}
    assert "Conv" in found.quantized


def test_a_target_of_ones_own_brings_its_own_audits(written):
    finding = quarkfast.Finding("never", "error", "", "expected another model")
    target = quarkfast.Target(name="mine", rules={}, audits=(lambda model, target: [finding],))
    assert quarkfast.check_model(written("A8W8"), target).errors == (finding,)


@pytest.mark.parametrize(
    ("preset", "more", "status"),
    [("XINT8", [], ExitCode.OK), ("A8W8", [], ExitCode.BROKEN_RULE), ("XINT8", ["--strict"], ExitCode.BROKEN_RULE)],
)
def test_the_exit_status_tells(tmp_path, capsys, preset, more, status):
    path = tmp_path / "digits.onnx"
    quarkfast.quantize(MODEL, path, preset, {"image": load_images().calibration[:32]})
    assert main(["check", str(path), "--target", XINT8, *more]) == status
    out = capsys.readouterr().out
    assert "warning: device" in out  # the number of rows is open
    assert ("error: type" in out) == (preset == "A8W8")
    assert main(["check", str(path), "--target", XINT8, "--json", *more]) == status
    assert json.loads(capsys.readouterr().out)["target"] == XINT8


@pytest.mark.parametrize(
    ("model", "target", "status", "sentence"),
    [
        ("none.onnx", XINT8, ExitCode.MODEL, "got no such file"),
        (str(MODEL), "ryzen", ExitCode.USAGE, "target: expected one of"),
    ],
)
def test_bad_arguments_get_a_sentence(capsys, model, target, status, sentence):
    assert main(["check", model, "--target", target]) == status
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("preset", ["XINT8", "A8W8", "A16W8"])
def test_integers_are_no_floats(preset, written):
    found = quarkfast.check_model(written(preset), BF16)
    assert {each.rule for each in found.errors} == {"type"}
    assert all(": expected floats of 16 bits or blocks, got " in each.text for each in found.errors)
    assert len(found.errors) > 5


@pytest.mark.parametrize("preset", ["BF16", "FP16", "BFP16", "MXINT8"])
def test_floats_and_blocks_are_no_integers(preset):
    result = quarkfast.quantize(MODEL, None, preset, load_images().calibration)
    assert not quarkfast.check_model(result.proto, BF16).errors


@pytest.mark.parametrize(
    ("preset", "options", "version", "expected"),
    [
        ("XINT8", {}, 7, "expected operator set 10, which has QuantizeLinear with int8, or newer, got 7"),
        (
            "A8W8",
            {"per_channel": True},
            12,
            "expected operator set 13, which has DequantizeLinear with a scale for each",
        ),
        ("A16W8", {}, 17, "expected operator set 21, which has QuantizeLinear with int16, or newer, got 17"),
    ],
)
def test_pairs_that_the_operator_set_lacks_are_found(written, preset, options, version, expected):
    proto = onnx.load(written(preset, **options))
    for each in proto.opset_import:
        each.version = version if each.domain == "" else each.version
    found = [each for each in quarkfast.check_model(proto, A8W8).errors if each.rule == "opset"]
    assert len(found) == 1
    assert expected in found[0].text
    for node in proto.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.domain = "com.microsoft"
    assert not [each for each in quarkfast.check_model(proto, A8W8).errors if each.rule == "opset"]
