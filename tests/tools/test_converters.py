"""Converters: the same values, the same names of ends, a whole file or none."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast import tools
from quarkfast.errors import ConfigError, ModelError, UnsupportedError
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from support.tiny_models import conv_relu_model, run_as_written, run_exactly, samples, tiny_model


def written(convert, model, tmp_path, *arguments):
    """Returns the model that a converter writes, checked."""
    path = tmp_path / "out.onnx"
    result = convert(model, path, *arguments)
    proto = onnx.load(path)
    assert (result.path, result.bytes) == (path, path.stat().st_size)
    assert [each.name for each in tmp_path.iterdir()] == ["out.onnx"]
    onnx.checker.check_model(proto, full_check=not {node.domain for node in proto.graph.node} - {""})
    return proto


def types_of(values) -> list[int]:
    return [value.type.tensor_type.elem_type for value in values]


def rounded(array):
    return np.asarray(array, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def halves() -> onnx.ModelProto:
    """A float16 model, inputs and outputs too."""
    text = "g (float16[N, 3, 8, 8] x) => (float16[N, 4, 6, 6] y) { c = Conv (x, w) y = Relu (c) }"
    return tiny_model(text, {"w": np.random.default_rng(3).normal(size=(4, 3, 3, 3)).astype(np.float16)})


# bfloat16


@pytest.mark.parametrize("form", tools.BFLOAT16_FORMS)
@pytest.mark.parametrize("model", [conv_relu_model(), halves()], ids=["float32", "float16"])
def test_every_form_of_bfloat16_is_near_the_model(form, model, tmp_path):
    proto = written(tools.to_bfloat16, model, tmp_path, form)
    assert types_of(proto.graph.input) == types_of(model.graph.input)
    assert types_of(proto.graph.output)[0] in (types_of(model.graph.output)[0], 0)
    if form == "plain":  # which no processor's runtime computes
        return
    x = samples().astype(np.float16 if types_of(model.graph.input) == [10] else np.float32)
    expected = np.asarray(run_exactly(model, {"x": x})[0], np.float64)
    found = np.asarray(run_as_written(proto.SerializeToString(), x), np.float64)
    assert 10 * np.log10((expected**2).sum() / ((found - expected) ** 2).sum()) > 40  # 8 bits, three layers


def test_no_float32_is_left_in_a_plain_one(tmp_path):
    proto = written(tools.to_bfloat16, conv_relu_model(), tmp_path, "plain")
    assert {each.data_type for each in proto.graph.initializer} == {onnx.TensorProto.BFLOAT16}
    assert proto.opset_import[0].version == 22  # from which Conv has bfloat16
    casts = [node for node in proto.graph.node if node.op_type == "Cast"]
    assert [(node.input[0], node.output[0]) for node in casts] == [("x", "x_bfloat16"), ("y_bfloat16", "y")]


def test_what_must_be_float32_stays_so_in_a_plain_one(tmp_path):
    text = "g (float[1, 3, 8, 8] x) => (float[1, 3, 16, 16] y) { r = Resize (x, , scales) y = Relu (r) }"
    arrays = {"scales": np.float32([1, 1, 2, 2])}
    proto = written(tools.to_bfloat16, tiny_model(text, arrays), tmp_path, "plain")
    assert [each.data_type for each in proto.graph.initializer] == [onnx.TensorProto.FLOAT]


def test_what_has_no_bfloat16_computes_in_float32_between_casts(tmp_path):
    text = """g (float[1, 3, 8, 8] x, float[1, 3, 4, 4] z) => (float[1, 3, 8, 8] y, float[1, 3, 4, 4] w) {
        r = Relu (x)
        c = Celu (r)
        y = Mul (c, r)
        w = Celu (z)
    }"""
    graph = written(tools.to_bfloat16, tiny_model(text), tmp_path, "plain").graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.input, *graph.output)}
    wide, narrow = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
    for node in graph.node:
        wanted = {"Celu": wide, "Relu": narrow, "Mul": narrow}.get(node.op_type)
        assert wanted is None or {kinds[name] for name in (*node.input, *node.output)} == {wanted}
    assert types_of(graph.output) == [wide, wide]


def test_constants_of_vaiml_are_float32_that_bfloat16_holds(tmp_path):
    model = conv_relu_model()
    proto = written(tools.to_bfloat16, model, tmp_path, "rounded")
    given = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    found = [onnx.numpy_helper.to_array(each) for each in proto.graph.initializer]
    assert sorted(each.tobytes() for each in found) == sorted(rounded(each).tobytes() for each in given.values())
    assert [node.op_type for node in proto.graph.node] == ["Cast", "Cast", "Conv", "Relu", "Conv", "Add"]


def test_bfloat16_and_back_leaves_the_rounded_constants(tmp_path):
    model = conv_relu_model()
    narrow = tools.to_bfloat16(model, tmp_path / "narrow.onnx", "plain").path
    result = tools.to_float32(narrow, tmp_path / "wide.onnx")
    proto = onnx.load(result.path)
    assert [node.op_type for node in proto.graph.node] == [node.op_type for node in model.graph.node]
    assert dict(result.facts) == {"Casts that went": "2"}
    expected = {each.name: rounded(onnx.numpy_helper.to_array(each)) for each in model.graph.initializer}
    for each in proto.graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(each), expected[each.name])


def test_casts_around_tensors_go_on_the_way_back(tmp_path):
    narrow = tools.to_bfloat16(conv_relu_model(), tmp_path / "narrow.onnx", "cast").path
    proto = onnx.load(tools.to_float32(narrow, tmp_path / "wide.onnx").path)
    assert "Cast" not in {node.op_type for node in proto.graph.node}


def test_a_form_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"form: expected cast, qdq, plain, rounded, got 'bf16'"):
        tools.to_bfloat16(conv_relu_model(), tmp_path / "out.onnx", "bf16")


def test_bfp16_is_that_of_the_preset(tmp_path):
    proto = written(tools.to_bfp16, conv_relu_model(), tmp_path)
    assert "BFPQuantizeDequantize" in {node.op_type for node in proto.graph.node}


# float32


def test_a_float16_model_becomes_float32_with_its_ends(tmp_path):
    model = halves()
    proto = written(tools.to_float32, model, tmp_path)
    assert types_of(proto.graph.input) == [onnx.TensorProto.FLOAT]
    (weight,) = proto.graph.initializer
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(weight), onnx.numpy_helper.to_array(model.graph.initializer[0]).astype(np.float32)
    )
    x = samples()
    exact = np.asarray(run_exactly(proto, {"x": x})[0])
    assert exact.dtype == np.float32


@pytest.mark.parametrize(("preset", "stays"), [("BF16", False), ("FP16", False), ("A8W8", True), ("BFP16", True)])
def test_pairs_that_round_to_narrow_floats_go_and_others_stay(preset, stays, tmp_path):
    model = quantized(preset)
    del model.graph.value_info[:]  # other tools write no types of what custom operators give
    proto = written(tools.to_float32, model, tmp_path)
    x = samples()
    found = run_as_written(proto.SerializeToString(), x)
    if stays:
        assert [node.op_type for node in proto.graph.node] == [node.op_type for node in model.graph.node]
        np.testing.assert_array_equal(found, run_as_written(model.SerializeToString(), x))
    else:
        assert {node.op_type for node in proto.graph.node} == {"Conv", "Relu", "Add"}
        assert np.isfinite(found).all()


def test_a_float32_model_stays_as_it_is(tmp_path):
    assert not tools.to_float32(conv_relu_model(), tmp_path / "out.onnx").changed


# Shapes


OPEN = """g (float[N, 3, H, W] x, float[N, 4] z) => (float[N, C, P, Q] y, float[N, K] w) {
    y = Conv <pads = [1, 1, 1, 1]> (x, k)
    w = Relu (z)
}"""
KERNEL = {"k": np.ones((5, 3, 3, 3), np.float32)}


def shapes_of(proto):
    values = [*proto.graph.input, *proto.graph.output]
    return {
        value.name: [each.dim_value or each.dim_param for each in value.type.tensor_type.shape.dim] for value in values
    }


def test_a_symbol_becomes_the_same_number_everywhere(tmp_path):
    proto = written(tools.fix_input_shapes, tiny_model(OPEN, KERNEL), tmp_path, {"x": [2, 3, 8, 6]})
    assert shapes_of(proto) == {"x": [2, 3, 8, 6], "z": [2, 4], "y": [2, 5, 8, 6], "w": [2, 4]}


def test_a_question_mark_is_no_symbol(tmp_path):
    """PaddlePaddle's exporter calls each open dimension so."""
    proto = tiny_model("g (float[N, 3, H, W] x) => (float[N, 3, H, W] y) { y = Relu (x) }")
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim[2:]:
            dim.dim_param = "?"
    found = written(tools.fix_input_shapes, proto, tmp_path, {"x": [2, 3, 8, 24]})
    assert shapes_of(found) == {"x": [2, 3, 8, 24], "y": [2, 3, 8, 24]}


def test_what_depends_on_shapes_is_computed(tmp_path):
    text = """g (float[N, 3, H, W] x) => (float[A, B, C] y) {
        s = Shape (x)
        n = Slice (s, zero, two)
        t = Concat <axis = 0> (n, rest)
        y = Reshape (x, t)
    }"""
    arrays = {"zero": np.array([0]), "two": np.array([2]), "rest": np.array([-1])}
    proto = written(tools.fix_input_shapes, tiny_model(text, arrays), tmp_path, {"x": [2, 3, 4, 5]})
    assert shapes_of(proto)["y"] == [2, 3, 20]


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ({"q": [1]}, ConfigError, "shapes: expected x, z, y, w, got 'q'"),
        ({"x": [1, 3, 8, 0]}, ConfigError, "shapes: x: expected whole numbers greater than 0, got 0"),
        ({"x": [1, 3, 8, 2**40]}, ConfigError, "shapes: x: expected at most"),
        ({"x": [1, 3, 8]}, ModelError, r"shapes: expected 'x' to be \[N, 3, H, W\], got \[1, 3, 8\]"),
        ({"x": [1, 4, 8, 8]}, ModelError, r"shapes: expected 'x' to be \[N, 3, H, W\], got \[1, 4, 8, 8\]"),
        ({"x": [1, 3, 8, 8], "z": [2, 4]}, ModelError, "shapes: expected one size for 'N', got 1 and 2"),
        ({"x": [1, 3, 8, 8], "y": [1, 5, 8, 9]}, ModelError, r"shapes: expected 'y' to be \[1, 5, 8, 8\]"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shapes, error, message, tmp_path):
    with pytest.raises(error, match=message):
        tools.fix_input_shapes(tiny_model(OPEN, KERNEL), tmp_path / "out.onnx", shapes)
    assert not list(tmp_path.iterdir())


# Values of inputs

# A voice activity detector: layers for each sampling rate.
RATES = """g (float[N, 8] x, int64 sr, float[4] gain) => (float[N, 4] y) {
    fast = Equal (sr, rate)
    found = If (fast) <
        then_branch = t () => (float[N, 4] a) { a = MatMul (x, near) },
        else_branch = e () => (float[N, 4] b) { b = MatMul (x, far) }
    >
    y = Mul (found, gain)
}"""


def _rates():
    rng = np.random.default_rng(2)
    near, far = (rng.standard_normal((8, 4)).astype(np.float32) for _ in range(2))
    return tiny_model(RATES, {"near": near, "far": far, "rate": np.int64(16000)})


@pytest.mark.parametrize("rate", [8000, 16000])
def test_an_if_that_a_value_decides_becomes_its_branch(tmp_path, rate):
    proto = written(tools.fix_input_values, _rates(), tmp_path, {"sr": rate})
    assert [value.name for value in proto.graph.input] == ["x", "gain"]
    assert [node.op_type for node in proto.graph.node] == ["MatMul", "Mul"]
    assert {each.name for each in proto.graph.initializer} == {"near" if rate == 16000 else "far"}
    feed = {"x": samples(6, (8,)), "gain": samples(1, (4,))[0]}
    expected = run_exactly(_rates(), {**feed, "sr": np.array(rate)})
    np.testing.assert_array_equal(run_exactly(proto, feed)[0], expected[0])


def test_one_number_fills_an_input_and_an_array_is_taken_as_it_is(tmp_path):
    for gains in (2, [2, 2, 2, 2], np.full(4, 2, np.float16)):
        proto = written(tools.fix_input_values, _rates(), tmp_path, {"gain": gains})
        (gain,) = (each for each in proto.graph.initializer if each.name == "gain")
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(gain), np.full(4, 2, np.float32))
        assert [value.name for value in proto.graph.input] == ["x", "sr"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"srr": 1}, "inputs: expected x, sr, gain, got 'srr'; did you mean 'sr'"),
        ({"sr": 0.5}, "inputs: sr: expected numbers that int64 holds, got 0.5"),
        ({"sr": "fast"}, "inputs: sr: expected numbers that int64 holds, got fast"),
        ({"gain": 1e39}, "inputs: gain: expected numbers that float32 holds, got 1e[+]39"),
        ({"sr": [1, 2]}, r"inputs: sr: expected values of shape \[\], got \[2\]"),
        ({"gain": [1, 2]}, r"inputs: gain: expected values of shape \[4\], got \[2\]"),
        ({"x": 1}, r"inputs: x: expected values of shape \[\?, 8\], got \[\]"),
        ({"x": np.zeros((1, 8)), "sr": 1, "gain": 1}, "inputs: expected an input that stays one, got values for all"),
    ],
)
def test_values_that_do_not_fit_are_refused(values, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        tools.fix_input_values(_rates(), tmp_path / "out.onnx", values)
    assert not list(tmp_path.iterdir())


def test_quantizing_bodies_alone_names_what_helps():
    with pytest.warns(UserWarning, match="lie in bodies of If, .* quarkfast convert fixed-inputs"):
        quarkfast.quantize(_rates(), preset="A8W8", calibration_data="random", exclude_op_types=["Mul"])


# Operator set


@pytest.mark.parametrize("version", [14, 17, 21])
def test_the_operator_set_may_go_up_and_down(version, tmp_path):
    proto = written(tools.convert_operator_set, conv_relu_model(), tmp_path, version)
    assert [each.version for each in proto.opset_import if each.domain == ""] == [version]
    x = samples()
    np.testing.assert_array_equal(run_exactly(proto, {"x": x})[0], run_exactly(conv_relu_model(), {"x": x})[0])


def test_an_operator_set_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="version: expected an operator set from 1 to"):
        tools.convert_operator_set(conv_relu_model(), tmp_path / "out.onnx", 99)
    with pytest.raises(UnsupportedError, match="expected one that onnx can convert to operator set 7"):
        tools.convert_operator_set(
            tiny_model("g (float[4] x) => (float y) { y = Gelu (x) }", opset=20), tmp_path / "o", 7
        )


# Layout


@settings(max_examples=20, deadline=None)
@given(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)))
def test_images_go_in_and_come_out_with_channels_last(tmp_path_factory, size):
    batch, height, width = size
    ends = (
        f"(float[{batch}, 3, {height}, {width}] x, float[2] b) => (float[{batch}, 3, {height}, {width}] y, float[2] z)"
    )
    text = f"g {ends} {{ y = Mul (x, x) z = Relu (b) }}"
    model = tiny_model(text)
    proto = written(tools.to_channels_last, model, tmp_path_factory.mktemp("channels"))
    assert shapes_of(proto)["x"] == [batch, height, width, 3]
    assert [each.name for each in proto.graph.output] == ["y_transpose", "z"]
    x, b = np.random.default_rng(3).normal(size=(batch, 3, height, width)).astype(np.float32), np.ones(2, np.float32)
    found = run_exactly(proto, {"x": x.transpose(0, 2, 3, 1), "b": b})[0]
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), run_exactly(model, {"x": x, "b": b})[0])


def test_a_model_without_images_is_refused(tmp_path):
    with pytest.raises(ModelError, match="expected an input or output of 4 dimensions, got none"):
        tools.to_channels_last(tiny_model("g (float[4] x) => (float y) { y = Relu (x) }"), tmp_path / "out.onnx")
    assert not list(tmp_path.iterdir())


# Q/DQ nodes


def quantized(preset: str, **options) -> onnx.ModelProto:
    return quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples(), **options).proto


@pytest.mark.parametrize(
    ("preset", "options"), [("A8W8", {}), ("A8W8", {"per_channel": True}), ("A16W8", {}), ("U8S8", {}), ("XINT8", {})]
)
def test_to_quarks_nodes_and_back_gives_the_same_values(preset, options, tmp_path):
    model = quantized(preset, **options)
    custom = written(tools.to_custom_qdq, model, tmp_path)
    assert not {node.op_type for node in custom.graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    back = tools.to_standard_qdq(custom, tmp_path / "back.onnx")
    x = samples()
    expected = run_as_written(model.SerializeToString(), x)
    for proto in (custom, onnx.load(back.path)):
        np.testing.assert_array_equal(run_as_written(proto.SerializeToString(), x), expected)
    assert {node.domain for node in onnx.load(back.path).graph.node} == {""}


@pytest.mark.parametrize("code", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("channels", [False, True])
def test_each_code_is_the_same_in_every_domain(code, channels, tmp_path):
    limits = np.iinfo(code)
    rng = np.random.default_rng(5)
    scale = rng.uniform(0.01, 1, 3 if channels else ()).astype(np.float32)
    zero = np.asarray(np.full(3, limits.min // 2 + 3) if channels else limits.min // 2 + 3, code)
    text = "g (float[64, 3] x) => (float y) { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    model = tiny_model(text, {"s": scale, "z": zero}, opset=21, ir_version=10)
    custom = written(tools.to_custom_qdq, model, tmp_path)
    values = (rng.normal(size=(64, 3)) * limits.max / 4).astype(np.float32)
    values[:8] = (np.arange(-4, 4)[:, None] + 0.5) * scale  # halves
    back = tools.to_standard_qdq(custom, tmp_path / "back.onnx")
    found = [run_as_written(each.SerializeToString(), values) for each in (model, custom, onnx.load(back.path))]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_sixteen_bits_below_operator_set_21_are_those_of_onnxruntime(tmp_path):
    custom = tools.to_custom_qdq(quantized("A16W8"), tmp_path / "custom.onnx").path
    proto = onnx.load(custom)
    for each in proto.opset_import:
        each.version = 17 if each.domain == "" else each.version
    back = onnx.load(tools.to_standard_qdq(proto, tmp_path / "back.onnx").path)
    domains = {(node.op_type, node.domain) for node in back.graph.node if "Linear" in node.op_type}
    assert ("QuantizeLinear", "com.microsoft") in domains
    x = samples()
    np.testing.assert_array_equal(
        run_as_written(back.SerializeToString(), x), run_as_written(quantized("A16W8").SerializeToString(), x)
    )


def test_what_has_no_standard_form_stays(tmp_path):
    model = quantized("BF16")
    result = tools.to_standard_qdq(model, tmp_path / "out.onnx")
    assert not result.changed
    assert int(dict(result.facts)["left as they are"].split()[0]) > 0


@pytest.mark.parametrize("preset", ["BFP16", "MX9", "FP16"])
def test_older_names_and_back_give_the_same_values(preset, tmp_path):
    model = quantized(preset)
    older = written(tools.change_custom_domain, model, tmp_path, "com.vai.quantize")
    assert "com.amd.quark" not in {node.domain for node in older.graph.node}
    assert "com.vai.quantize" in {node.domain for node in older.graph.node}
    back = onnx.load(tools.change_custom_domain(older, tmp_path / "back.onnx", "com.amd.quark").path)
    assert [(node.op_type, node.domain) for node in back.graph.node] == [
        (node.op_type, node.domain) for node in model.graph.node
    ]
    x = samples()
    np.testing.assert_array_equal(
        run_as_written(older.SerializeToString(), x), run_as_written(model.SerializeToString(), x)
    )


def test_a_domain_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"domain: expected com.amd.quark or com.vai.quantize, got 'amd'"):
        tools.change_custom_domain(conv_relu_model(), tmp_path / "out.onnx", "amd")


# Without pairs


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        *[(preset, {}) for preset in ("A8W8", "A16W8", "U8S8", "XINT8", "BF16", "FP16", "BFP16", "MX9", "MXFP8E4M3")],
        ("A8W8", {"per_channel": True}),
        ("BF16", {"bf16_qdq_to_cast": True}),
        ("A8W8", {"keep_float_weights": True}),
        ("INT8_WO", {}),
    ],
    ids=str,
)
def test_without_pairs_a_model_is_the_float_one_with_rounded_constants(preset, options, tmp_path):
    model = quantized(preset, **options)
    proto = written(tools.remove_qdq, model, tmp_path)
    assert {node.op_type for node in proto.graph.node} <= {"Conv", "Relu", "Add", "Identity"}
    assert not [each.key for each in proto.metadata_props if each.key.startswith("quarkfast.")]
    x = samples()
    float_one = run_exactly(conv_relu_model(), {"x": x})[0].astype(np.float64)
    found = run_as_written(proto.SerializeToString(), x).astype(np.float64)
    noise, signal = ((found - float_one) ** 2).sum(), (float_one**2).sum()
    assert noise < signal / 1000  # 8 bits of a weight; blocks leave constants as they were


def test_a_float_model_is_left_as_it_is(tmp_path):
    assert not tools.remove_qdq(conv_relu_model(), tmp_path / "out.onnx").changed


def test_codes_that_something_else_reads_stay(tmp_path):
    text = """g (float[4] x) => (float[4] y, int8[4] q) {
        q = QuantizeLinear (x, s, z)
        y = DequantizeLinear (q, s, z)
    }"""
    model = tiny_model(text, {"s": np.float32(0.5), "z": np.int8(0)})
    proto = written(tools.remove_qdq, model, tmp_path)
    assert [node.op_type for node in proto.graph.node] == ["QuantizeLinear", "DequantizeLinear"]


# Files


def test_data_outside_the_file_stays_outside(tmp_path):
    path, data = tmp_path / "model.onnx", {"save_as_external_data": True, "location": "model.data", "size_threshold": 0}
    model = conv_relu_model(w1=np.random.default_rng(3).normal(size=(3, 3, 64, 64)).astype(np.float32)[..., :3, :3])
    onnx.save(model, path, **data)
    result = tools.convert_operator_set(path, tmp_path / "out.onnx", 18)
    assert load_model(result.path) is not None
    x = samples()
    found, expected = (exact_session(each).run(None, {"x": x})[0] for each in (result.path, path))
    np.testing.assert_array_equal(found, expected)
