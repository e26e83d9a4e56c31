from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.graph.load import load_model
from quarkfast.graph.opset import choose_ir_version, convert_opset, opset_version
from support.tiny_models import conv_relu_model, operators_of, tiny_model

# The newest operator set of the oldest onnxruntime, and the newest whose QuantizeLinear onnxruntime has.
EVERYWHERE, NEWEST_PAIRS = 21, 27
NEWEST = onnx.defs.onnx_opset_version()
too_old_onnx = pytest.mark.skipif(
    NEWEST <= NEWEST_PAIRS, reason=f"the installed onnx knows operator sets up to {NEWEST}"
)


def test_a_model_that_has_the_opset_is_not_converted():
    model = load_model(conv_relu_model())
    assert convert_opset(model, 13) is model


def test_an_older_model_is_converted():
    model = load_model(tiny_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=7, ir_version=3))
    assert opset_version(convert_opset(model, 10)) == 10


@pytest.mark.parametrize("drops", [False, True])
def test_a_converted_model_has_its_large_constants(monkeypatch, drops):
    """onnx 1.17 drops references to data outside a protobuf, and leaves tensors without numbers."""
    convert = onnx.version_converter.convert_version

    def convert_as_1_17(proto, version):
        result = convert(proto, version)
        for graph in (result.graph, *(attribute.g for node in result.graph.node for attribute in node.attribute)):
            for tensor in graph.initializer:
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
        return result

    if drops:
        monkeypatch.setattr(onnx.version_converter, "convert_version", convert_as_1_17)
    text = """g (float[N, 64] x, bool b) => (float[N, 64] y) {
        a = MatMul(x, w)
        c = If(b) <then_branch = yes () => (float[N, 64] d) { d = MatMul(a, v) },
                   else_branch = no () => (float[N, 64] e) { e = Relu(a) }>
        y = Relu(c)
    }"""
    weights = {name: np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32) for name in "wv"}
    proto = tiny_model(text, {"w": weights["w"]}, opset=11, ir_version=4)
    proto.graph.node[1].attribute[0].g.initializer.append(onnx.numpy_helper.from_array(weights["v"], "v"))
    converted = convert_opset(load_model(proto), 13)
    found = {
        name: value.const_value.numpy() for each in converted.graphs() for name, value in each.initializers.items()
    }
    assert opset_version(converted) == 13
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize("version", [-1, 1000])
def test_an_opset_that_onnx_does_not_know_is_one_sentence(version):
    model = load_model(conv_relu_model())
    model.opset_imports[""] = version
    with pytest.raises(ModelError, match=f"expected an operator set version from 1 to .*, got {version}"):
        opset_version(model)


def test_a_model_without_standard_operators_is_one_sentence():
    model = load_model(conv_relu_model())
    model.opset_imports.clear()
    model.opset_imports["ai.onnx.ml"] = 3
    with pytest.raises(
        ModelError, match=r"expected operators of the ONNX standard, got an import of 'ai.onnx.ml' alone"
    ):
        opset_version(model)


@pytest.mark.parametrize(("opset", "expected"), [(7, 4), (10, 5), (13, 7), (17, 8), (21, 10)])
def test_the_ir_version_is_the_lowest_that_goes_with_the_opset(opset, expected):
    model = load_model(conv_relu_model())
    model.opset_imports[""], model.ir_version = opset, 14
    choose_ir_version(model)
    assert model.ir_version == expected


def test_converting_keeps_weights_that_lie_on_disk(tmp_path):
    path = tmp_path / "model.onnx"
    ir.save(ir.serde.deserialize_model(conv_relu_model()), path, external_data="model.data", size_threshold_bytes=0)
    converted = convert_opset(load_model(path), 21)
    assert converted.graph.initializers["w1"].const_value.numpy().shape == (3, 3, 3, 3)


def test_a_newer_model_is_stamped_with_the_oldest_set_that_has_its_operators():
    model = load_model(tiny_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=NEWEST))
    assert opset_version(convert_opset(model, 13)) == EVERYWHERE
    model = load_model(tiny_model("g (float[2] x) => (float[2] y) { y = Sin(x) }", opset=NEWEST))
    assert opset_version(convert_opset(model, 13)) == 22  # which has Sin of bfloat16


def test_a_body_counts_too():
    text = """g (float[2] x, bool b) => (float[2] y) {
        y = If (b) <
            then_branch = yes () => (float[2] p) { p = Sin(x) },
            else_branch = no () => (float[2] q) { q = Neg(x) }
        >
    }"""
    model = load_model(tiny_model(text, opset=NEWEST))
    last = onnx.defs.get_schema("If", NEWEST, "").since_version  # new types of its outputs make new versions
    assert opset_version(convert_opset(model, 13)) == max(22, last)


def test_an_operator_that_onnx_does_not_know_keeps_its_set():
    model = load_model(tiny_model("g (float[2] x) => (float[2] y) { y = Later(x) }", opset=22))
    assert opset_version(convert_opset(model, 13)) == 22


def test_types_that_the_converter_loses_are_kept():
    """onnx calls sequences tensors when it converts, and in 1.17 drops their types."""
    text = """g (float[n] x, int64[3] parts, seq(float[m]) z) => (seq(float[n]) s, seq(float[m]) t, float[1, k] y) {
        s = SplitToSequence (x, parts)
        t = SequenceErase (z, one)
        a = SequenceAt (s, one)
        y = Unsqueeze <axes = [0]> (a)
    }"""
    model = load_model(tiny_model(text, {"one": np.int64(1)}, opset=12))
    before = [value.type for value in (*model.graph.inputs, *model.graph.outputs)]
    converted = convert_opset(model, 13)
    assert opset_version(converted) == 13
    assert [value.type for value in (*converted.graph.inputs, *converted.graph.outputs)] == before
    assert all(isinstance(value.type, ir.SequenceType) for value in converted.graph.outputs[:2])


def test_a_scan_with_a_batch_is_refused():
    """Converted, it would take inputs without their first axis."""
    text = """g (float[1, 2] start, float[1, 3, 2] x) => (float[1, 2] last, float[1, 3, 2] all) {
        last, all = Scan <num_scan_inputs = 1, body = step (float[2] a, float[2] b) => (float[2] c, float[2] d) {
            c = Add (a, b)
            d = Neg (b)
        }> (lengths, start, x)
    }"""
    proto = tiny_model(text, opset=8, ir_version=3)
    proto.graph.node[0].input[0] = ""
    model = load_model(proto)
    with pytest.raises(UnsupportedError, match="expected opset 9 or newer for Scan, got 8, whose Scan has a batch"):
        convert_opset(model, 13)


def _run(data, x):
    return ort.run(ort.inference_session(data), {"x": x})[0]


@too_old_onnx
@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "XINT8", "BF16", "MX9"])
def test_operators_of_a_set_without_pairs_are_converted_down(preset):
    text = "g (float[N, 4, 2, 2] x) => (float[N, A, B, C] y) { a = DepthToSpace<blocksize = 2>(x) y = MatMul(a, w) }"
    proto = tiny_model(text, {"w": np.eye(4, dtype=np.float32)}, opset=28)
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 4, 2, 2)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[{"x": x}])
    assert result.summary.opset == NEWEST_PAIRS
    # The widest step is that of MX9's blocks: 2^-6 of their largest value, which is at most 1, for both operands.
    np.testing.assert_allclose(_run(result.model_bytes, x), _run(proto.SerializeToString(), x), rtol=0, atol=2**-5)


@too_old_onnx
@pytest.mark.parametrize("preset", ["A8W8", "BF16"])
def test_operators_that_no_older_set_has_are_one_sentence(preset):
    text = "g (float[1, 4, 2, 2] x) => (float[A, B, C, D] y) { a = Relu(x) y = SwiGLU(a, x) }"
    proto = tiny_model(text, opset=28)
    with pytest.raises(UnsupportedError, match="expected operators of opset 27 or older, got SwiGLU 'swiglu_1' of"):
        quarkfast.quantize(proto, preset=preset, calibration_data=[{"x": np.ones((1, 4, 2, 2), np.float32)}])


@too_old_onnx
def test_operators_of_our_own_are_written_in_any_set():
    text = "g (float[N, 4] x) => (float[A, B] y) { a = MatMul(x, w) y = SwiGLU(a, a) }"
    proto = tiny_model(text, {"w": np.eye(4, dtype=np.float32)}, opset=28)
    assert quarkfast.quantize(proto, preset="MX9", calibration_data=None).summary.opset == 28


def test_what_onnx_cannot_convert_stays_as_it_was():
    text = "g (float[N, 64] x) => (float[A, B] y) { a = MatMul(x, w) y = Unknown(a) }"
    model = load_model(tiny_model(text, {"w": np.ones((64, 64), np.float32)}, opset=9))
    with pytest.raises(UnsupportedError, match="expected opset 13 or newer, got 9, which onnx cannot convert"):
        convert_opset(model, 13)
    assert operators_of(model) == ["MatMul", "Unknown"]
    assert model.graph.initializers["w"].const_value.numpy().shape == (64, 64)
