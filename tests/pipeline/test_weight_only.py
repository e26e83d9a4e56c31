"""Weights alone: what the presets write computes what the same model computes with its weights rounded."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast import kernels, ort
from quarkfast.config import PRESETS
from quarkfast.errors import ConfigError
from quarkfast.quantization.weight_only.codes import scales_of
from support.tiny_models import conv_relu_model, tiny_model
from support.weight_models import changed_weights, weight_layers

_PRESETS = [name for name, scheme in PRESETS.items() if scheme.weights_only]
_EPSILON = float(np.finfo(np.float32).eps)


def _run(model, x, optimize=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def _fake(array, axis, code, symmetric, size=0):
    """Quantizes and turns back along `axis`: channels, or groups of `size`, whose 4-bit scales may have a sign."""
    if size:
        parts = np.split(array, range(size, array.shape[axis], size), axis)
        low, high = (np.stack([each(part, axis) for part in parts], axis) for each in (np.min, np.max))
    else:
        others = tuple(each for each in range(array.ndim) if each != axis)
        low, high = array.min(axis=others), array.max(axis=others)
    mirrored = bool(size) and symmetric and not code.endswith("int8")
    found = scales_of(low, high, code, symmetric=symmetric, dtype=array.dtype, mirrored=mirrored)
    scale = np.abs(found.scale).astype(np.float32)
    sign = np.ones_like(array)
    if mirrored:
        groups = np.sign(found.scale).astype(array.dtype)
        sign = np.take(np.repeat(groups, size, axis), range(array.shape[axis]), axis)
    codes = kernels.quantize_linear(array * sign, scale, found.zero_point, dtype=code, axis=axis, block_size=size)
    zero = found.zero_point.astype(codes.dtype)
    return sign * kernels.dequantize_linear(codes, scale, zero, dtype=array.dtype, axis=axis, block_size=size)


def _faking(axes, code, symmetric, size=0):
    return lambda name, array: _fake(array, axes[name], code, symmetric, size) if name in axes else array


def _with_table(others, symmetric):
    """Tables have 8 bits, with a scale for each column, also beside groups and fewer bits."""
    table = _faking({"table": 1}, "int8", symmetric)
    return lambda name, array: table(name, others(name, array))


_CHANNELS = {"table": 1, "w1": 1, "w2": 1, "w3": 0, "w4": 0}
_SUMS = {"w1": 0, "w2": 0, "w3": 1, "w4": 1}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_int8_channels_compute_what_rounded_weights_compute(rng, dtype, symmetric):
    proto, x, axes = weight_layers(rng, dtype), rng.integers(0, 50, 9), dict(_CHANNELS)
    left = []
    if dtype == np.float16:
        # onnxruntime drops casts between float16 operators where it can, and finds others behind a looked-up table.
        left = ["Gather"]
        del axes["table"]
    result = quarkfast.quantize(proto, preset="INT8_WO", weight_symmetric=symmetric, exclude_op_types=left)
    onnx.checker.check_model(result.proto)
    assert result.summary.quantized == {"MatMul": 2, "Gemm": 2} | ({} if left else {"Gather": 1})
    rounded = changed_weights(proto, _faking(axes, "int8", symmetric), result.summary.opset)
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("size", [16, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("code", ["int4", "int3"])
def test_int4_groups_compute_what_rounded_weights_compute(rng, code, dtype, size, symmetric):
    proto, x = weight_layers(rng, dtype), rng.integers(0, 50, 9)
    left = ["Gather"] if dtype == np.float16 else []  # as above
    options = {"group_size": size, "weight_symmetric": symmetric, "weight_type": code, "exclude_op_types": left}
    result = quarkfast.quantize(proto, preset="INT4_WO", **options)
    onnx.checker.check_model(result.proto)
    assert result.summary.opset == 21
    groups = _faking(_SUMS, code, symmetric, size)
    rounded = changed_weights(proto, groups if left else _with_table(groups, symmetric), 21)
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


@pytest.mark.parametrize("symmetric", [True, False])
def test_tables_have_a_scale_for_each_column_beside_groups(rng, symmetric):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    result = quarkfast.quantize(proto, preset="INT8_WO", group_size=16, weight_symmetric=symmetric)
    onnx.checker.check_model(result.proto)
    groups = _with_table(_faking(_SUMS, "int8", symmetric, 16), symmetric)
    rounded = changed_weights(proto, groups, result.summary.opset)
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


@pytest.mark.parametrize("symmetric", [True, False])
def test_channels_of_three_bits_compute_what_rounded_weights_compute(rng, symmetric):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    result = quarkfast.quantize(proto, preset="INT8_WO", weight_type="int3", weight_symmetric=symmetric)
    onnx.checker.check_model(result.proto)
    stored = {each.name: each for each in result.proto.graph.initializer}
    assert stored["w1_quantized"].data_type == onnx.TensorProto.INT4
    codes = onnx.numpy_helper.to_array(stored["w1_quantized"]).astype(int)
    assert (codes.min(), codes.max()) == (-4, 3)
    axes = {name: axis for name, axis in _CHANNELS.items() if name != "table"}
    rounded = changed_weights(proto, _with_table(_faking(axes, "int3", symmetric), symmetric), result.summary.opset)
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("size", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("code", ["uint4", "uint8"])
def test_matmul_nbits_computes_what_rounded_weights_compute(rng, code, size, symmetric, optimize):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    options = {"weight_type": code.removeprefix("u"), "group_size": size, "weight_symmetric": symmetric}
    result = quarkfast.quantize(proto, preset="MATMUL_NBITS", **options)
    onnx.checker.check_model(result.proto)
    types = [node.op_type for node in result.proto.graph.node]
    assert types == ["Gather", "DequantizeLinear", "MatMulNBits", "MatMulNBits", "Add", "MatMulNBits", "MatMulNBits"]
    rounded = changed_weights(proto, _with_table(_faking(_SUMS, code, symmetric, size), symmetric))
    # Sums of products in another order differ by at most 2 K eps times the sum of magnitudes; over the four layers,
    # each of at most 64 terms, errors are carried along by weights whose magnitudes the same sum bounds.
    magnitudes = _run(changed_weights(rounded, lambda _, w: np.abs(w)), x)
    bound = 2 * 4 * 64 * _EPSILON * magnitudes
    assert (np.abs(_run(result.model_bytes, x, optimize) - _run(rounded, x)) <= bound).all()


@pytest.mark.parametrize(("preset", "dtype"), [("BF16_WO", ml_dtypes.bfloat16), ("FP16_WO", np.float16)])
def test_16_bit_storage_computes_what_rounded_weights_compute(rng, preset, dtype):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    result = quarkfast.quantize(proto, preset=preset)
    onnx.checker.check_model(result.proto)
    # b2 is too small to be worth it.
    rounded = changed_weights(proto, lambda name, w: w if name == "b2" else w.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))
    assert [value.type for value in result.proto.graph.output] == [value.type for value in proto.graph.output]


def test_convolutions_are_stored_per_channel(rng):
    proto = conv_relu_model(w1=rng.normal(size=(3, 3, 3, 3)).astype(np.float32))
    result = quarkfast.quantize(proto, preset="INT8_WO")
    x = rng.normal(size=(2, 3, 8, 8)).astype(np.float32)
    rounded = changed_weights(proto, lambda name, w: w if name == "b1" else _fake(w, 0, "int8", True))
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))
    assert result.summary.quantized == {"Conv": 2}


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("op_type", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
@pytest.mark.parametrize("code", ["int8", "int4"])
def test_recurrent_weights_are_stored_for_each_row_of_a_gate(rng, op_type, gates, direction, code):
    directions, state, inputs = 1 + (direction == "bidirectional"), 24, 16
    text = f"""g (float[T, N, {inputs}] x) => (float[T, D, N, {state}] y) {{
        y = {op_type} <hidden_size = {state}, direction = "{direction}"> (x, w, r, b)
    }}"""
    shapes = {"w": (gates * state, inputs), "r": (gates * state, state), "b": (2 * gates * state,)}
    arrays = {name: rng.normal(0, 0.3, (directions, *shape)).astype(np.float32) for name, shape in shapes.items()}
    proto, x = tiny_model(text, arrays), rng.normal(size=(7, 2, inputs)).astype(np.float32)
    result = quarkfast.quantize(proto, preset="INT8_WO", weight_type=code)
    onnx.checker.check_model(result.proto)
    assert (result.summary.quantized, result.summary.weights) == ({op_type: 1}, 2)
    rounded = changed_weights(proto, _faking({"w": 1, "r": 1}, code, True), result.summary.opset)
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


@pytest.mark.parametrize("preset", ["INT8_WO", "BF16_WO", "FP16_WO"])  # which store weights of convolutions
def test_batch_normalization_becomes_part_of_the_layer(rng, preset):
    text = """g (float[N, 3, 8, 8] x) => (float[A, B, C, D] y) {
        c = Conv (x, w)
        y = BatchNormalization (c, s, b, m, v)
    }"""
    arrays = {"w": (8, 3, 4, 4), "s": (8,), "b": (8,), "m": (8,), "v": (8,)}
    constants = {name: rng.uniform(0.5, 1, shape).astype(np.float32) for name, shape in arrays.items()}
    result = quarkfast.quantize(tiny_model(text, constants), preset=preset)
    assert "BatchNormalization" not in [node.op_type for node in result.proto.graph.node]


def test_a_weight_that_is_shared_is_stored_once(rng):
    text = """g (float[N, 32] x) => (float[N, 32] y) {
        a = MatMul (x, w)
        y = MatMul (a, w)
    }"""
    proto = tiny_model(text, {"w": rng.normal(size=(32, 32)).astype(np.float32)})
    for preset in ("INT8_WO", "INT4_WO", "MATMUL_NBITS"):
        result = quarkfast.quantize(proto, preset=preset)
        assert (result.summary.weights, result.summary.quantized) == (1, {"MatMul": 2})
        assert len(result.proto.graph.initializer) == 2


def test_a_weight_that_is_read_along_two_axes_is_stored_along_the_first(rng):
    text = """g (float[N, 32] x) => (float[N, 32] y) {
        a = MatMul (x, w)
        y = Gemm <transB = 1> (a, w)
    }"""
    proto = tiny_model(text, {"w": rng.normal(size=(32, 32)).astype(np.float32)})
    result = quarkfast.quantize(proto, preset="INT8_WO")
    assert [str(node.reason) for node in result.summary.left_float] == [
        "its weight 'w' is stored along the axis of 'matmul_0'"
    ]
    onnx.checker.check_model(result.proto)


def test_a_table_that_is_a_weight_too_is_turned_back_as_a_whole(rng):
    text = """g (int64[N] x) => (float[N, 40] y) {
        e = Gather (w, x)
        y = Gemm <transB = 1> (e, w)
    }"""
    proto, x = tiny_model(text, {"w": rng.normal(size=(40, 32)).astype(np.float32)}), rng.integers(0, 40, 5)
    result = quarkfast.quantize(proto, preset="INT8_WO")
    assert result.summary.quantized == {"Gather": 1, "Gemm": 1}
    rounded = changed_weights(proto, lambda _, w: _fake(w, 0, "int8", True))
    np.testing.assert_array_equal(_run(result.model_bytes, x), _run(rounded, x))


def test_a_table_that_is_handed_out_keeps_the_name_of_the_output(rng):
    proto = tiny_model(
        "g (int64[N] x) => (float[N, 32] y) { y = Gather (w, x) }", {"w": rng.normal(size=(40, 32)).astype(np.float32)}
    )
    result = quarkfast.quantize(proto, preset="INT8_WO")
    assert [value.name for value in result.proto.graph.output] == ["y"]
    assert _run(result.model_bytes, rng.integers(0, 40, 5)).dtype == np.float32


@pytest.mark.parametrize(
    ("preset", "options", "text", "reason"),
    [
        ("INT8_WO", {}, "y = MatMul (x, x)", "its weight is not constant"),
        ("INT8_WO", {}, "y = MatMul (x, v)", r"its weight has the shape \[32\]"),
        ("INT8_WO", {"exclude": ["matmul_0"]}, "y = MatMul (x, w)", "excluded"),
        ("INT8_WO", {"exclude_op_types": ["MatMul"]}, "y = MatMul (x, w)", "excluded"),
        ("INT8_WO", {"op_types": ["Relu"]}, "r = Relu (x) y = MatMul (r, w)", "not among op_types"),
        ("INT8_WO", {}, "y = Add (x, w)", "weights of Add are not stored as codes"),
        (
            "INT4_WO",
            {"strict": True},
            "y = Gather (w, i)",
            "onnxruntime looks up rows of 8-bit codes, not of fewer bits",
        ),
        ("INT8_WO", {}, "y = Gather <axis = 1> (w, i)", "it does not look up rows of a table"),
        ("INT8_WO", {}, "y = GRU <hidden_size = 3> (c, u, c)", "its weight is not constant"),
        ("INT4_WO", {}, "y = GRU <hidden_size = 3> (c, u, s)", "groups lie along .*, which GRU has no axis for"),
        ("MATMUL_NBITS", {}, "y = LSTM <hidden_size = 3> (c, u, s)", "MatMulNBits does not compute LSTM"),
        ("INT4_WO", {}, "y = Conv (q, k)", "groups lie along the sum of a product, which Conv has no axis for"),
        ("MATMUL_NBITS", {}, "y = Conv (q, k)", "MatMulNBits does not compute Conv"),
        ("MATMUL_NBITS", {}, "y = MatMul (x, t)", "MatMulNBits takes a weight of 2 dimensions, not of 3"),
        ("MATMUL_NBITS", {}, "y = Gemm <transA = 1> (x, w)", "MatMulNBits has no transA, alpha and beta"),
        ("MATMUL_NBITS", {}, "y = Gemm <alpha = 2.0> (x, w)", "MatMulNBits has no transA, alpha and beta"),
        ("BF16_WO", {"exclude_op_types": ["MatMul"]}, "y = MatMul (x, w)", "excluded"),
    ],
)
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight")
def test_what_stays_float_is_told_with_the_reason(rng, preset, options, text, reason):
    arrays = {"w": (32, 32), "v": (32,), "t": (2, 32, 32), "k": (4, 4, 4, 4), "u": (1, 9, 4), "s": (1, 9, 3)}
    names = re.findall(r"\w+", text)
    constants = {name: rng.normal(size=arrays[name]).astype(np.float32) for name in names if name in arrays}
    inputs = "float[32, 32] x, int64[3] i, float[1, 4, 9, 9] q, float[1, 9, 3] c"
    proto = tiny_model(f"g ({inputs}) => (float y) {{ {text} }}", constants)
    summary = quarkfast.quantize(proto, preset=preset, **options).summary
    assert summary.quantized == {}
    assert summary.left_float
    assert all(re.fullmatch(reason, node.reason) for node in summary.left_float)


def test_a_model_without_weights_is_written_with_a_warning():
    proto = tiny_model("g (float[N] x) => (float[N] y) { y = Relu (x) }")
    with pytest.warns(UserWarning, match="quantize: the model has no weight that can be stored so; all of them stay"):
        result = quarkfast.quantize(proto, preset="INT8_WO")
    assert result.model_bytes == proto.SerializeToString(deterministic=True)
    assert result.summary.opset == 17


@pytest.mark.filterwarnings("ignore:quantize. the model has no weight")
def test_a_model_without_weights_is_an_unchanged_copy(tmp_path):
    """Constants folded in float16 are not what ONNX Runtime computes, and in old operator sets it has other kernels."""
    text = "g (float16[2, 4] x) => (float16[2, 4] y) { r = Sqrt (d) s = Sqrt (r) t = Div (x, s) y = Identity (t) }"
    proto = tiny_model(text, {"d": np.float16(3)}, opset=12)
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(proto, source)
    result = quarkfast.quantize(source, target, preset="BF16_WO")
    assert target.read_bytes() == source.read_bytes() == result.model_bytes
    assert result.summary.opset == 12


@pytest.mark.filterwarnings("ignore:quantize. the model has no weight")
def test_a_model_without_weights_keeps_what_lies_in_files(tmp_path):
    proto = tiny_model("g (float[8] x) => (float[8] y) { y = Add (x, c) }", {"c": np.arange(8, dtype=np.float32)})
    source, target = tmp_path / "model.onnx", tmp_path / "out" / "model.onnx"
    target.parent.mkdir()
    onnx.save(proto, source, save_as_external_data=True, size_threshold=0, location="weights")
    quarkfast.quantize(source, target, preset="INT8_WO")
    x = np.ones(8, np.float32)
    expected = np.arange(8, dtype=np.float32) + 1
    np.testing.assert_array_equal(ort.run(ort.inference_session(target), {"x": x})[0], expected)


def test_weights_of_bodies_are_stored(rng):
    then, other = (
        onnx.parser.parse_graph(f"{name} () => (float[N, 32] {name}_y) {{ {name}_y = MatMul (x, w_{name}) }}")
        for name in ("then", "other")
    )
    for body, name in ((then, "then"), (other, "other")):
        body.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(32, 32)).astype(np.float32), f"w_{name}"))
    condition = onnx.helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    info = [onnx.helper.make_tensor_value_info(name, 1, ["N", 32]) for name in "xy"]
    chosen = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    graph = onnx.helper.make_graph([condition], "g", [info[0], chosen], [info[1]])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    x = rng.normal(size=(3, 32)).astype(np.float32)
    for preset in _PRESETS:
        result = quarkfast.quantize(proto, preset=preset)
        assert result.summary.weights == 2
        session = onnxruntime.InferenceSession(result.model_bytes, providers=["CPUExecutionProvider"])
        assert session.run(None, {"x": x, "c": np.array(True)})[0].shape == (3, 32)


@pytest.mark.parametrize("preset", _PRESETS)
def test_the_same_input_gives_the_same_bytes(rng, preset):
    proto = weight_layers(rng)
    first = quarkfast.quantize(proto, preset=preset)
    assert quarkfast.quantize(proto, preset=preset).model_bytes == first.model_bytes
    assert first.summary.bytes_after == len(first.model_bytes)


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("A8W8", {"group_size": 32}, "group_size: expected a preset of integer weights alone, got A8W8"),
        ("BF16_WO", {"group_size": 32}, "group_size: expected a preset of integer weights alone, got BF16_WO"),
        ("INT4_WO", {"group_size": 48}, "option group_size: expected 16, 32, 64, 128 or 256, got 48"),
        ("MATMUL_NBITS", {"per_channel": True}, "MATMUL_NBITS: expected groups of weights, got one scale a channel"),
        (
            "MATMUL_NBITS",
            {"weight_type": "int3"},
            "weight_type: expected int4, uint4, int8 or uint8 for MATMUL_NBITS, got int3",
        ),
        ("INT8_WO", {"weight_type": "mx9"}, "weight_type: expected int3, int4, uint4, int8 or uint8 for INT8_WO"),
        ("INT8_WO", {"keep_float_weights": True}, "keep_float_weights: expected a preset that quantizes activations"),
        ("INT8_WO", {"reduce_range": True}, "INT8_WO: expected weights with float32 scales from their extremes, got"),
        ("INT8_WO", {"activation_scaled": True}, "INT8_WO: expected no options of activations, which stay as they are"),
        ("BF16_WO", {"per_channel": True}, "BF16_WO: expected bfloat16 without scales, got"),
        ("INT4_WO", {"activation_type": "int8"}, "INT4_WO: expected one scale a tensor or channel beside int8 activ"),
    ],
)
def test_options_that_do_not_fit_are_refused(preset, options, message):
    with pytest.raises(ConfigError, match=message):
        quarkfast.quantize(conv_relu_model(), preset=preset, **options)


def test_calibration_for_weights_alone_is_refused():
    with pytest.raises(ConfigError, match="calibrate: expected a preset that quantizes activations, got INT8_WO"):
        quarkfast.calibrate(conv_relu_model(), "random", preset="INT8_WO")
