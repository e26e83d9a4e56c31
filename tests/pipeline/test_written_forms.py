"""How a result is written, by options: operator set, domain of pairs, shapes, constants of their own, VAIML's form."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.errors import ConfigError, ModelError, UnsupportedError
from support.tiny_models import conv_relu_model, run_as_written, samples, tiny_model


def quantized(preset: str, model=None, **options) -> onnx.ModelProto:
    proto = conv_relu_model() if model is None else model
    result = quarkfast.quantize(proto, preset=preset, calibration_data=samples(), **options)
    onnx.checker.check_model(result.proto)
    return result.proto


def by_quark(preset: str, **keys) -> onnx.ModelProto:
    config = get_default_config(preset)
    config.extra_options |= keys
    quantizer = quarkfast.ModelQuantizer(Config(config))
    return quantizer.quantize_model(conv_relu_model(), None, [{"x": each[None]} for each in samples()])


def opset_of(proto: onnx.ModelProto) -> int:
    return next(each.version for each in proto.opset_import if each.domain == "")


def domains_of(proto: onnx.ModelProto) -> set[str]:
    return {node.domain for node in proto.graph.node if "Linear" in node.op_type}


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("A16W8", {}),
        ("A8W8", {}),
        ("A8W8", {"per_channel": True}),
        ("U8S8", {}),
        ("XINT8", {}),
        ("A8W8", {"bias": "weight"}),
    ],
    ids=str,
)
def test_pairs_of_onnxruntime_compute_what_those_of_onnx_do(preset, options):
    plain, contrib = quantized(preset, **options), quantized(preset, contrib_pairs=True, **options)
    assert (domains_of(plain), domains_of(contrib)) == ({""}, {"com.microsoft"})
    assert opset_of(contrib) == 17  # the model's own
    x = samples(4)
    np.testing.assert_array_equal(*(run_as_written(each.SerializeToString(), x) for each in (plain, contrib)))
    session = ort.InferenceSession(contrib.SerializeToString())  # with all optimizations
    assert np.isfinite(session.run(None, {"x": x})[0]).all()


def test_types_that_onnxruntime_has_no_pairs_of_are_written_as_before():
    found = quantized("A8W8", contrib_pairs=True, weight_type="int4")
    assert domains_of(found) == {"", "com.microsoft"}


def test_quarks_key_writes_a16w8_at_the_models_own_operator_set():
    found = by_quark("A16W8", UseQDQContribOps=True)
    assert (opset_of(found), domains_of(found)) == (17, {"com.microsoft"})
    assert not quarkfast.check_model(found, "ryzenai-a8w8").errors


@pytest.mark.parametrize("option", ["contrib_pairs", "unshare_constants"])
@pytest.mark.parametrize("preset", ["INT8_WO", "DYNAMIC"])
def test_presets_without_such_pairs_refuse_the_option(option, preset):
    value = True if option == "contrib_pairs" else ["Conv"]
    with pytest.raises(
        ConfigError, match=f"{option}: expected a preset that quantizes activations before the model runs"
    ):
        quarkfast.quantize(conv_relu_model(), preset=preset, **{option: value})


@pytest.mark.parametrize(("preset", "asked", "found"), [("A8W8", 19, 19), ("A8W8", 15, 15), ("A16W8", 15, 21)])
def test_the_operator_set_is_the_one_asked_for_or_the_oldest_with_the_types(preset, asked, found):
    assert opset_of(quantized(preset, opset=asked)) == found
    assert opset_of(by_quark(preset, ConvertOpsetVersion=asked)) == found


def test_an_operator_set_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="version: expected an operator set from 1 to"):
        quantized("A8W8", opset=999)
    with pytest.raises(UnsupportedError, match="expected one that onnx can convert to operator set 7"):
        quantized("A8W8", opset=7)


def test_shapes_are_fixed_and_samples_run_one_by_one():
    found = quantized("A8W8", shapes={"x": [1, 3, 8, 8]})
    for value in (*found.graph.input, *found.graph.output):
        assert [size.dim_value for size in value.type.tensor_type.shape.dim] == [1, 3, 8, 8]
    same = by_quark("A8W8", FixShapes="x:[1,3,8,8];y:[1,3,8,8]")
    assert [size.dim_value for size in same.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 8, 8]


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ({"x": [1, 3, 8]}, ModelError, r"shapes: expected 'x' to be \[N, 3, 8, 8\], got \[1, 3, 8\]"),
        ({"q": [1]}, ConfigError, "shapes: expected x, y, got 'q'"),
        (
            {"x": [1, -1, 8, 8]},
            ConfigError,
            r"shapes: x: expected a list of whole numbers greater than 0, got",
        ),
        ("x=1", ConfigError, r"shapes: expected 'x:\[1,3,224,224\];y:\[1,10\]', got 'x=1'"),
        ({}, ConfigError, "shapes: expected sizes by name"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shapes, error, message):
    with pytest.raises(error, match=message):
        quantized("A8W8", shapes=shapes)


@pytest.mark.parametrize("options", [{}, {"per_channel": True}, {"contrib_pairs": True}], ids=str)
def test_biases_may_have_16_bits(options):
    wide, narrow = quantized("A8W8", **options), quantized("A8W8", bias="int16", **options)
    assert opset_of(narrow) == (17 if "contrib_pairs" in options else 21)
    codes = {each.name: onnx.numpy_helper.to_array(each) for each in narrow.graph.initializer}
    assert codes["b1_quantized"].dtype == np.int16
    x = samples(4)
    np.testing.assert_array_equal(*(run_as_written(each.SerializeToString(), x) for each in (wide, narrow)))
    assert not quarkfast.check_model(narrow, "ryzenai-a8w8").errors
    assert np.isfinite(ort.InferenceSession(narrow.SerializeToString()).run(None, {"x": x})[0]).all()


def test_a_bias_that_16_bits_do_not_hold_raises_the_scale_of_its_weight():
    large = conv_relu_model(b1=np.full(3, 300, np.float32))
    result = quarkfast.quantize(large, preset="A8W8", calibration_data=samples(), bias="int16", bias_correction=False)
    assert "weight scales of 1 layer ('conv_0') raised so that biases fit into int16" in result.summary.notes
    codes = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    decoded = codes["b1_quantized"] * codes["b1_quantized_scale"]
    np.testing.assert_allclose(decoded, 300, rtol=1e-4)


def test_quarks_key_for_narrow_biases():
    codes = {each.name: each.data_type for each in by_quark("A8W8", Int16Bias=True).graph.initializer}
    assert codes["b1_quantized"] == onnx.TensorProto.INT16
    with pytest.raises(
        ConfigError, match="bias: expected weight or float beside activations bfloat16 and weights bfloat16"
    ):
        quantized("BF16", bias="int16")


def test_vaiml_rounds_constants_and_inputs_alone():
    model, found = conv_relu_model(), quantized("BF16", vaiml=True)
    assert [node.op_type for node in found.graph.node] == ["Cast", "Cast", "Conv", "Relu", "Conv", "Add"]
    given = [onnx.numpy_helper.to_array(each) for each in model.graph.initializer]
    rounded = [each.astype(ml_dtypes.bfloat16).astype(np.float32).tobytes() for each in given]
    constants = [onnx.numpy_helper.to_array(each) for each in found.graph.initializer]
    assert sorted(each.tobytes() for each in constants) == sorted(rounded)
    assert by_quark("BF16", EnableVaimlBF16=True).graph.node[2].op_type == "Conv"
    with pytest.raises(ConfigError, match="vaiml: expected bfloat16, got A8W8; use the preset BF16"):
        quantized("A8W8", vaiml=True)


SHARED = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    b = Conv <pads = [1, 1, 1, 1]> (a, w)
    c = Mul (b, k)
    y = Mul (c, k)
}"""


def test_shared_constants_may_be_copied():
    rng = np.random.default_rng(3)
    arrays = {
        "w": rng.normal(0, 0.3, (3, 3, 3, 3)).astype(np.float32),
        "k": rng.normal(size=(8, 8)).astype(np.float32),
    }
    model = tiny_model(SHARED.replace("    z = Mul (a, w1)\n", ""), arrays)
    plain, copied = quantized("A8W8", model), quantized("A8W8", model, unshare_constants=["Conv"])

    def codes(proto):
        return [each.name for each in proto.graph.initializer if len(each.dims) == 4]

    assert (len(codes(plain)), len(codes(copied))) == (1, 2)
    assert "duplicatedw_quantized" in codes(copied)
    assert len(codes(quantized("A8W8", model, unshare_constants=["Mul"]))) == 1
    x = samples(4)
    np.testing.assert_array_equal(*(run_as_written(each.SerializeToString(), x) for each in (plain, copied)))


def test_a_scheme_with_all_of_it_is_plain_data_both_ways():
    found = quantized("A16W8", contrib_pairs=True, opset=17, shapes={"x": [1, 3, 8, 8]}, unshare_constants=["Conv"])
    (text,) = [each.value for each in found.metadata_props if each.key == "quarkfast.scheme"]
    scheme = quarkfast.Scheme.from_dict(json.loads(text))
    assert (scheme.contrib_pairs, scheme.opset, scheme.shapes) == (True, 17, (("x", (1, 3, 8, 8)),))
    assert scheme.unshare_constants == ("Conv",)
    assert quarkfast.Scheme.from_dict(scheme.to_dict()) == scheme


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
@pytest.mark.parametrize(
    "options",
    [
        {"weight_type": "int16"},
        {"tensors": {"w1": {"dtype": "int16", "granularity": "channel"}}},
        {"layers": [{"op_types": ["Conv"], "weight": {"dtype": "int16"}}]},
        {"weight_type": "int16", "keep_float_weights": True},
    ],
    ids=["all", "one", "of layers", "floats"],
)
def test_weights_of_16_bits_do_not_raise_the_operator_set(preset, options):
    """onnxruntime's domain has a DequantizeLinear for them in any operator set, and the same bits."""
    result, newer = (
        quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples(), **options, **more)
        for more in ({}, {"opset": 21})
    )
    assert (result.summary.opset, newer.summary.opset) == (17, 21)
    assert domains_of(result.proto) == {"", "com.microsoft"}
    assert domains_of(newer.proto) == {""}
    onnx.checker.check_model(result.proto, full_check=True)
    outputs = [run_as_written(each.model_bytes, samples()) for each in (result, newer)]
    np.testing.assert_array_equal(*outputs)
    for level in ort.GraphOptimizationLevel.__members__.values():
        chosen = ort.SessionOptions()
        chosen.graph_optimization_level = level
        ort.InferenceSession(result.model_bytes, chosen, providers=["CPUExecutionProvider"])


def test_activations_of_16_bits_raise_the_operator_set_and_the_summary_says_so():
    wide = quarkfast.quantize(conv_relu_model(), preset="A16W8", calibration_data=samples()).summary
    assert (wide.opset_before, wide.opset) == (17, 21)
    assert ("opset", "21, raised from 17") in wide.rows()
    same = quarkfast.quantize(conv_relu_model(), preset="A8W8", calibration_data=samples()).summary
    assert ("opset", "17") in same.rows()


def test_weights_that_get_16_bits_unasked_keep_the_operator_set(rng):
    """Rows so uneven that no scale of a channel carries them, in front of a layer of more bytes."""
    rows = np.float32([1, 1000] * 16)
    arrays = {"w": rng.standard_normal((32, 16)) * rows[:, None], "v": rng.standard_normal((16, 256))}
    proto = tiny_model(
        "g (float[N, 32] x) => (float[N, 256] y) { m = MatMul(x, w) y = MatMul(m, v) }",
        {name: array.astype(np.float32) for name, array in arrays.items()},
        opset=13,
    )
    x = (rng.standard_normal((16, 32)) / rows).astype(np.float32)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=x)
    assert any("1 ('w'; 11 % of their bytes) has 16 bits" in note for note in result.summary.notes)
    assert result.summary.opset == 13
    assert domains_of(result.proto) == {"", "com.microsoft"}
