"""What is in a model, by whomever it was made."""

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


def inspect(tmp_path, preset, **options):
    path = tmp_path / "model.onnx"
    quarkfast.quantize(MODEL, path, preset, {"image": load_images().calibration[:32]}, **options)
    return quarkfast.inspect_model(path)


def kinds(facts, what):
    return {(q.dtype, q.granularity, q.power_of_two, q.symmetric) for q in facts.quantized if q.what == what}


@pytest.mark.parametrize(
    ("preset", "options", "activations", "weight"),
    [
        ("A8W8", {"strict": True}, ("int8", "tensor", False, True), ("int8", "tensor", False, True)),
        ("A8W8", {"per_channel": True}, ("int8", "tensor", False, True), ("int8", "channel", False, True)),
        ("A16W8", {"strict": True}, ("int16", "tensor", False, True), ("int8", "tensor", False, True)),
        ("XINT8", {"strict": True}, ("int8", "tensor", True, True), ("int8", "tensor", True, True)),
        ("U8S8", {"strict": True}, ("uint8", "tensor", False, False), ("int8", "tensor", False, True)),
        ("INT8_WO", {}, None, ("int8", "channel", False, True)),
        ("INT4_WO", {"group_size": 32}, None, ("int4", "block", False, True)),
    ],
)
def test_pairs_are_told_by_types_and_scales(tmp_path, preset, options, activations, weight):
    data = {} if preset.endswith("_WO") else {"image": load_images().calibration[:32]}
    quarkfast.quantize(MODEL, tmp_path / "model.onnx", preset, data or None, **options)
    facts = quarkfast.inspect_model(tmp_path / "model.onnx")
    assert facts.preset == preset
    assert weight in kinds(facts, "constants")
    assert activations is None or activations in kinds(facts, "activations")
    assert sum(each.bytes for each in facts.constants) < facts.bytes == (tmp_path / "model.onnx").stat().st_size


def test_presets_without_scales_have_none(tmp_path):
    assert ("BFPQuantizeDequantize", "block", None, None) in kinds(inspect(tmp_path, "BFP16"), "activations")
    assert inspect(tmp_path, "BFP16").ours == ("com.amd.quark",)
    dynamic = inspect(tmp_path, "DYNAMIC")
    assert kinds(dynamic, "activations") == {("uint8 when the model runs", "tensor", None, None)}
    assert ("uint8", "", None, None) in kinds(dynamic, "constants")
    assert kinds(inspect(tmp_path, "MATMUL_NBITS", group_size=16), "constants") == {
        ("4 bits for MatMulNBits", "block of 16", None, None)
    }


def test_a_float_model_has_nothing_quantized():
    facts = quarkfast.inspect_model(MODEL)
    assert (facts.quantized, facts.preset, facts.ours, facts.unknown) == ((), None, (), ())
    assert facts.inputs == {"image": "float[N, 1, 8, 8]"}
    assert ("quantized", "nothing: no codes and no pairs") in facts.rows()


def test_operators_of_codes_and_unknown_domains_are_seen(tmp_path):
    text = """g (uint8[N, 4] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[N, 4] y) {
        a = QLinearMatMul (x, xs, xz, w, ws, wz, ys, yz)
        y = elsewhere.Strange (a)
    }"""
    arrays = {"w": np.ones((4, 4), np.int8), "ws": np.full(4, 0.25, np.float32), "wz": np.zeros(4, np.int8)}
    proto = tiny_model(text, arrays, opset=17)
    proto.opset_import.append(onnx.helper.make_opsetid("elsewhere", 1))
    onnx.save(proto, tmp_path / "model.onnx")
    facts = quarkfast.inspect_model(tmp_path / "model.onnx")
    assert kinds(facts, "constants") == {("int8", "channel", True, True)}
    assert facts.unknown == ("elsewhere",)
    assert facts.operators["elsewhere::Strange"] == 1


def test_constants_outside_the_file_are_counted_and_not_read(tmp_path):
    weight = np.zeros((64, 64), np.float32)
    proto = tiny_model("g (float[N, 64] x) => (float[N, 64] y) { y = MatMul (x, w) }", {"w": weight}, opset=17)
    onnx.save(proto, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    facts = quarkfast.inspect_model(tmp_path / "model.onnx")
    assert facts.external == ("model.data",)
    assert facts.bytes == sum((tmp_path / name).stat().st_size for name in ("model.onnx", "model.data"))
    assert (facts.constants[0].count, facts.constants[0].bytes) == (1, 64 * 64 * 4)


@pytest.mark.parametrize(
    ("producer", "name", "tool"),
    [
        ("quark.onnx", "x_QuantizeLinear", "AMD Quark 0.13"),
        ("onnx.quantize", "x_QuantizeLinear", "onnxruntime.quantization 0.13"),
        ("pytorch", "QuantizeLinear_x_1", "NNCF, to judge by the names of its nodes"),
        ("pytorch", "x/Q", "onnxsim, to judge by the names of its nodes"),
        ("pytorch", "x_QuantizeLinear", "onnxruntime.quantization, to judge by the names of its nodes"),
        ("pytorch", "node_7", None),
    ],
)
def test_the_tool_that_quantized_is_told_by_producer_or_names(tmp_path, producer, name, tool):
    text = "g (float[N] x) => (float[N] y) { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    proto = tiny_model(text, {"s": np.float32(0.5), "z": np.int8(0)}, opset=17)
    proto.producer_name, proto.producer_version = producer, "0.13"
    proto.graph.node[0].name = name
    onnx.save(proto, tmp_path / "model.onnx")
    facts = quarkfast.inspect_model(tmp_path / "model.onnx")
    assert facts.quantized_by == tool
    assert [text for what, text in facts.rows() if what == "quantized by"] == ([tool] if tool else [])


def test_domains_that_no_node_uses_are_counted_alone(tmp_path):
    proto = tiny_model("g (float[N] x) => (float[N] y) { y = Relu (x) }", {}, opset=17)
    proto.opset_import.extend(onnx.helper.make_opsetid(name, 1) for name in ("com.microsoft", "ai.onnx.ml"))
    onnx.save(proto, tmp_path / "model.onnx")
    facts = quarkfast.inspect_model(tmp_path / "model.onnx")
    assert dict(facts.rows())["format"].endswith(", ai.onnx 17, and 2 domains that no node uses")
    assert set(facts.opsets) == {"ai.onnx", "com.microsoft", "ai.onnx.ml"}


def test_metadata_of_another_form_is_no_preset(tmp_path):
    proto = onnx.load(MODEL)
    for text in ("[", "[1]", '{"name": 1}'):
        del proto.metadata_props[:]
        proto.metadata_props.add(key="quarkfast.scheme", value=text)
        onnx.save(proto, tmp_path / "model.onnx")
        assert quarkfast.inspect_model(tmp_path / "model.onnx").preset is None


def test_the_verb_prints_a_table_or_json(tmp_path, capsys):
    assert main(["inspect", str(MODEL)]) == ExitCode.OK
    assert "nothing: no codes and no pairs" in capsys.readouterr().out
    assert main(["inspect", str(MODEL), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["quantized"] == []


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "got no such file"), (b"", "got an empty file"), (b"x", "not ONNX")]
)
def test_what_is_no_model_gets_a_sentence(tmp_path, capsys, content, sentence):
    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    assert main(["inspect", str(tmp_path / "model.onnx")]) == ExitCode.MODEL
    assert sentence in capsys.readouterr().err


def test_an_operator_of_another_domain_has_any_inputs(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[4] x) => (float[4] y) { y = my.QLinearMatMul (x) }'
    )
    onnx.save(model, tmp_path / "m.onnx")
    assert quarkfast.inspect_model(tmp_path / "m.onnx").unknown == ("my",)
