"""Dynamic quantization: no data, integer products, close to the float model."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.errors import CalibrationError, ConfigError
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import conv_relu_model, samples, tiny_model

FLOOR = 28.0


def _run(model, feed):
    return run_exact(model, feed)[0]


def _close(proto, feed, **options):
    result = quarkfast.quantize(proto, preset="DYNAMIC", **options)
    onnx.checker.check_model(result.proto, full_check=True)
    assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > FLOOR
    return result


def _matrices(expression, rng, **shapes):
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return tiny_model(f"g (float[N, 16] x) => (float[N, 8] y) {{ y = {expression} }}", arrays)


@pytest.mark.parametrize(
    "options",
    [{}, {"per_channel": False}, {"weight_type": "uint8"}, {"weight_type": "uint8", "weight_symmetric": True}],
    ids=["int8", "int8 per tensor", "uint8", "uint8 symmetric"],
)
@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("MatMul(x, w)", {"w": (16, 8)}),
        ("Gemm(x, w, b)", {"w": (16, 8), "b": (8,)}),
        ("Gemm<transB = 1, alpha = -0.5, beta = 2.0>(x, w, b)", {"w": (8, 16), "b": (8,)}),
        ("Gemm<transB = 1>(x, w)", {"w": (8, 16)}),
    ],
)
def test_products_of_matrices_are_integer_and_stay_close(expression, shapes, options, rng):
    result = _close(_matrices(expression, rng, **shapes), {"x": samples(64, (16,))}, **options)
    counts = Counter(node.op_type for node in result.proto.graph.node)
    assert counts["MatMulInteger"] == 1
    assert counts["MatMul"] == counts["Gemm"] == 0


@pytest.mark.parametrize("options", [{}, {"per_channel": False}, {"weight_type": "uint8"}])
def test_convolutions_are_integer_and_stay_close(options):
    result = _close(conv_relu_model(), {"x": samples()}, **options)
    assert Counter(node.op_type for node in result.proto.graph.node)["ConvInteger"] == 2
    assert [node.op_type for node in result.summary.left_float] == ["Relu", "Add"]


def test_int8_weights_of_convolutions_are_stored_as_the_uint8_that_every_onnxruntime_takes():
    result = quarkfast.quantize(conv_relu_model(), preset="DYNAMIC")
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    names = [node.input[1] for node in result.proto.graph.node if node.op_type == "ConvInteger"]
    for name in names:
        codes, zero_point = stored[name], stored[name.replace("quantized", "zero_point")]
        assert codes.dtype == zero_point.dtype == np.uint8
        assert zero_point.tolist() == 128
        assert np.abs(codes.astype(int) - 128).max() == 127
    assert len(names) == 2


STATE, INPUTS, STEPS = 24, 16, 9


def _lstm(rng, inputs="x, w, r, b", outputs="y", direction="forward", **attributes):
    directions = 1 + (direction == "bidirectional")
    given = "".join(f", {name} = {value}" for name, value in attributes.items())
    text = f"""g (float[T, N, {INPUTS}] x, int32[N] lengths) => (float[T, D, N, {STATE}] y, float[D, N, {STATE}] c) {{
        {outputs} = LSTM <hidden_size = {STATE}, direction = "{direction}"{given}> ({inputs})
        y = Identity (states)
        c = Identity (last)
    }}"""
    shapes = {"w": (4 * STATE, INPUTS), "r": (4 * STATE, STATE), "b": (8 * STATE,), "p": (3 * STATE,)}
    arrays = {name: rng.normal(0, 0.2, (directions, *shape)).astype(np.float32) for name, shape in shapes.items()}
    arrays["h"] = rng.normal(0, 0.2, (directions, 5, STATE)).astype(np.float32)
    return tiny_model(text, {name: array for name, array in arrays.items() if name in inputs.split(", ")})


def _sequences(rng):
    return {"x": rng.standard_normal((STEPS, 5, INPUTS)).astype(np.float32), "lengths": np.int32([9, 4, 9, 1, 7])}


@pytest.mark.parametrize(
    "options",
    [{}, {"per_channel": False}, {"weight_type": "uint8", "weight_symmetric": True}],
    ids=["int8", "one scale", "uint8"],
)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("inputs", ["x, w, r, b", "x, w, r", "x, w, r, b, lengths, h, h, p"])
def test_an_lstm_is_integer_and_stays_close(rng, inputs, direction, options):
    proto = _lstm(rng, inputs, "states, hidden, last", direction)
    result = _close(proto, _sequences(rng), **options)
    (node,) = (node for node in result.proto.graph.node if node.op_type == "DynamicQuantizeLSTM")
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    directions = 1 + (direction == "bidirectional")
    rows = () if options.get("per_channel") is False else (4 * STATE,)
    assert stored[node.input[1]].shape == (directions, INPUTS, 4 * STATE)
    assert stored[node.input[2]].shape == (directions, STATE, 4 * STATE)
    assert all(stored[node.input[index]].shape == (directions, *rows) for index in range(8, 12))
    assert result.summary.quantized == {"LSTM": 1}


def test_sums_of_an_lstm_stay_in_sixteen_bits(rng):
    proto = _lstm(rng, outputs="states, , last")
    result = quarkfast.quantize(proto, preset="DYNAMIC")
    for each in result.proto.graph.initializer:
        if each.name.endswith("_quantized"):
            codes = onnx.numpy_helper.to_array(each).astype(int)
            for limit, side in ((2**15 - 1, codes.clip(min=0)), (2**15, -codes.clip(max=0))):
                assert (255 * (side[:, 0::2] + side[:, 1::2])).max() <= limit
    assert {each.node for each in result.summary.reductions} == {"lstm_0"}
    whole = quarkfast.quantize(proto, preset="DYNAMIC", portable=False)  # which processors without VNNI may saturate
    assert not whole.summary.reductions
    codes = [onnx.numpy_helper.to_array(each) for each in whole.proto.graph.initializer if "_quantized" in each.name]
    assert [np.abs(each.astype(int)).max() for each in codes] == [127, 127]


@pytest.mark.parametrize(
    ("inputs", "attributes", "reason"),
    [
        ("x, w, r, b", {"layout": 1}, "DynamicQuantizeLSTM has no layout"),
        ("x, w, moved", {}, "its weight is no constant"),
    ],
)
@pytest.mark.filterwarnings("ignore:quantize. nothing in the model")
def test_other_lstms_stay_float(rng, inputs, attributes, reason):
    proto = _lstm(rng, "x, w, r, b", "states, hidden, last", **attributes)
    if "moved" in inputs:
        proto.graph.node[0].input[2] = "moved"
        proto.graph.input.append(onnx.helper.make_tensor_value_info("moved", 1, [1, 4 * STATE, STATE]))
    summary = quarkfast.quantize(proto, preset="DYNAMIC").summary
    assert [(each.op_type, each.reason) for each in summary.left_float][:1] == [("LSTM", reason)]


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_over_a_line_and_a_volume(rank, rng):
    text = f"""g (float[N, 4, {", ".join("6" * rank)}] x) => (float[N, 6, {", ".join("4" * rank)}] y) {{
        y = Conv<group = 2, strides = [{", ".join("1" * rank)}], pads = [{", ".join("1" * 2 * rank)}]> (x, w, b)
    }}"""
    weight = rng.standard_normal((6, 2, *((5,) * rank))).astype(np.float32)
    proto = tiny_model(text, {"w": weight, "b": rng.standard_normal(6).astype(np.float32)})
    _close(proto, {"x": samples(4, (4, *((6,) * rank)))})


EMBEDDING = "g (int64[N, 3] x) => (float[N, 3, 16] y) { y = Gather(table, x) }"


def test_an_embedding_gathers_codes(rng):
    table = rng.standard_normal((50, 16)).astype(np.float32)
    feed = {"x": rng.integers(0, 50, (8, 3))}
    result = _close(tiny_model(EMBEDDING, {"table": table}), feed, per_channel=False)
    stored = {each.name: each for each in result.proto.graph.initializer}
    assert stored["table_quantized"].data_type == onnx.TensorProto.INT8
    assert [node.op_type for node in result.proto.graph.node] == ["Gather", "DequantizeLinear"]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("options", [{}, {"weight_type": "uint8", "weight_symmetric": True}], ids=["int8", "uint8"])
def test_each_row_that_gather_picks_has_a_scale(rng, axis, options):
    table = (rng.standard_normal((50, 16)) * np.logspace(-3, 3, 50)[:, None]).astype(np.float32)
    table[7] = 0
    text = EMBEDDING.replace("Gather", f"Gather<axis = {axis}>")
    proto, feed = tiny_model(text, {"table": table}), {"x": rng.integers(0, 50, (8, 3))}
    if axis:
        text = text.replace("[N, 3, 16]", "[16, N, 3]")
        proto = tiny_model(text, {"table": table.T.copy()})
    result = quarkfast.quantize(proto, preset="DYNAMIC", **options)
    onnx.checker.check_model(result.proto, full_check=True)
    assert [node.op_type for node in result.proto.graph.node] == ["Gather", "DequantizeLinear", "Gather", "Mul"]
    got, expected = _run(result.model_bytes, feed), _run(proto, feed)
    along = 0 if axis else -1
    # Half a step of the row's own scale, and the rounding of the product.
    step = np.abs(expected).max(axis=along, keepdims=True) / 127
    assert (np.abs(got - expected) <= step * (0.5 + 2**-12)).all()


def test_a_table_of_one_number_a_row_has_one_scale(rng):
    text = "g (int64[N] x) => (float[N] y) { y = Gather(table, x) }"
    proto = tiny_model(text, {"table": rng.standard_normal(50).astype(np.float32)})
    result = _close(proto, {"x": np.arange(50)})
    assert [node.op_type for node in result.proto.graph.node] == ["Gather", "DequantizeLinear"]


def test_a_table_that_a_product_reads_too_is_stored_once(rng):
    text = """g (int64[N] i) => (float[N, 50] y) {
        e = Gather(w, i)
        y = Gemm<transB = 1>(e, w)
    }"""
    proto = tiny_model(text, {"w": rng.standard_normal((50, 16)).astype(np.float32)})
    result = _close(proto, {"i": np.arange(50)})
    sizes = [onnx.numpy_helper.to_array(each).size for each in result.proto.graph.initializer]
    assert sizes.count(50 * 16) == 1


def test_a_tensor_that_several_layers_read_is_quantized_once(rng):
    text = "g (float[N, 16] x) => (float[N, 8] y) { a = MatMul(x, v) b = MatMul(x, w) y = Add(a, b) }"
    proto = tiny_model(text, {name: rng.standard_normal((16, 8)).astype(np.float32) for name in "vw"})
    result = _close(proto, {"x": samples(64, (16,))})
    assert Counter(node.op_type for node in result.proto.graph.node)["DynamicQuantizeLinear"] == 1


def test_a_tied_weight_is_stored_once(rng):
    text = "g (float[N, 16] x) => (float[N, 16] y) { a = MatMul(x, w) y = MatMul(a, w) }"
    proto = tiny_model(text, {"w": rng.standard_normal((16, 16)).astype(np.float32)})
    result = _close(proto, {"x": samples(64, (16,))})
    assert [each.name for each in result.proto.graph.initializer] == ["w_quantized", "w_scale"]


def test_a_weight_with_two_ways_to_be_cut_into_channels_keeps_both(rng):
    text = """g (int64[N] i, float[N, 16] x) => (float[N, 16] y) {
        e = Gather(w, i)
        a = MatMul(e, w)
        b = Gemm<transB = 1>(x, w)
        y = Add(a, b)
    }"""
    weight = (rng.standard_normal((16, 16)) * np.logspace(0, 1, 16)).astype(np.float32)
    _close(tiny_model(text, {"w": weight}), {"i": np.arange(16), "x": samples(16, (16,))})


def test_what_has_no_constant_weight_stays_float_and_says_so(rng):
    text = "g (float[4, 4] x) => (float[4, 4] y) { a = MatMul(x, x) b = Gemm<transA = 1>(a, w) y = MatMul(b, w) }"
    proto = tiny_model(text, {"w": rng.standard_normal((4, 4)).astype(np.float32)})
    result = quarkfast.quantize(proto, preset="DYNAMIC")
    assert [node.reason for node in result.summary.left_float] == [
        "its weight is no constant",
        "it transposes its first operand",
    ]
    assert result.summary.quantized == {"MatMul": 1}


@pytest.mark.parametrize("transposed", [0, 1])
def test_onnxruntime_fuses_products_and_their_scales(rng, tmp_path, transposed):
    shape = (8, 16) if transposed else (16, 8)
    proto = _matrices(f"Gemm<transB = {transposed}>(x, w, b)", rng, w=shape, b=(8,))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(quarkfast.quantize(proto, preset="DYNAMIC").model_bytes, options)
    assert [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node] == ["DynamicQuantizeMatMul"]


def test_graph_inputs_and_outputs_keep_names_and_types():
    proto = conv_relu_model()
    result = quarkfast.quantize(proto, preset="DYNAMIC").proto
    assert list(result.graph.input) == list(proto.graph.input)
    assert list(result.graph.output) == list(proto.graph.output)


def test_the_model_is_quantized_as_onnxruntime_does_it(rng, tmp_path):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    proto, feed = _matrices("MatMul(x, w)", rng, w=(16, 8)), {"x": samples(64, (16,))}
    onnx.save(proto, tmp_path / "model.onnx")
    quantize_dynamic(tmp_path / "model.onnx", tmp_path / "theirs.onnx", weight_type=QuantType.QInt8)
    ours = quarkfast.quantize(proto, preset="DYNAMIC", per_channel=False, portable=False).model_bytes
    np.testing.assert_array_equal(_run(ours, feed), _run((tmp_path / "theirs.onnx").read_bytes(), feed))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation_type": "int8"}, "DYNAMIC: expected uint8 activations, asymmetric, .*, got int8, symmetric"),
        ({"activation_symmetric": True}, "DYNAMIC: expected uint8 activations, .*, got uint8, symmetric"),
        ({"weight_type": "int4"}, "DYNAMIC: expected int8 or uint8 weights, got int4"),
        ({"weight_type": "uint8", "per_channel": True}, "DYNAMIC: expected symmetric weights where each channel"),
        ({"keep_float_weights": True}, "DYNAMIC: expected keep_float_weights left out, got True"),
    ],
)
def test_what_dynamic_quantization_cannot_do_is_one_sentence(options, message):
    with pytest.raises(ConfigError, match=message):
        quarkfast.quantize(conv_relu_model(), preset="DYNAMIC", **options)


RESIDUAL = """g (float[N, 128] x) => (float[N, 128] y) {
    n = LayerNormalization (x, gain, offset)
    a = MatMul (n, v)
    s = Add (a, n)
    m = LayerNormalization (s, gain, offset)
    y = MatMul (m, w)
}"""


def _residual(rng):
    arrays = {name: rng.standard_normal((128, 128)).astype(np.float32) for name in "vw"}
    return tiny_model(RESIDUAL, arrays | {"gain": np.ones(128, np.float32), "offset": np.zeros(128, np.float32)})


def test_samples_tell_which_channels_stand_out(rng):
    """A large value among small ones is large behind the normalization too: a gain of 1 does not tell."""
    x = rng.standard_normal((64, 128)).astype(np.float32)
    x[0, 5], x[1, 6] = 60, -60
    proto = _residual(rng)
    expected = _run(proto, {"x": x})
    without = quarkfast.quantize(proto, preset="DYNAMIC")
    result = quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=x)
    assert without.summary.samples == 0
    assert result.summary.samples == 64
    assert without.summary.notes == ()
    assert result.summary.notes == (
        "smoothing: 1 of 2 tensors have smaller channels in front of matrix products, as seen in the samples",
    )
    assert "quarkfast.calibration_sha256" in {each.key for each in result.proto.metadata_props}
    noise = [np.square(expected - _run(each.model_bytes, {"x": x})).sum() for each in (without, result)]
    # Those two reach almost sqrt(127) = 11.3 behind the normalization, the other channels about 2.5. In two parts they
    # reach half as far, and the noise of a step half as wide is a quarter; that of the weights stays.
    assert noise[1] < noise[0] / 2


def test_random_samples_tell_nothing(rng):
    proto = _residual(rng)
    assert (
        quarkfast.quantize(proto, preset="DYNAMIC", calibration_data="random").model_bytes
        == quarkfast.quantize(proto, preset="DYNAMIC").model_bytes
    )


def test_samples_that_do_not_fit_the_model_are_refused(rng):
    with pytest.raises(CalibrationError, match="calibration data: sample 1"):
        quarkfast.quantize(_residual(rng), preset="DYNAMIC", calibration_data=np.ones((4, 127), np.float32))


def test_memory_that_does_not_suffice_for_samples_is_refused(rng):
    with pytest.raises(CalibrationError, match="max_memory: expected at least"):
        quarkfast.quantize(
            _residual(rng), preset="DYNAMIC", calibration_data=np.ones((4, 128), np.float32), max_memory="1 MB"
        )
