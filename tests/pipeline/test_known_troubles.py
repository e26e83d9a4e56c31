"""Models and inputs that broke other quantizers, rebuilt small: each from the thread that its test names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import quarkfast
from quarkfast import ort
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import conv_relu_model, samples, tiny_model

INTEGER_PRESETS = ["A8W8", "U8S8", "XINT8", "A16W8"]


def _run(model, feed):
    return run_exact(model, feed)[0]


def _stored(result):
    return {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}


def _quantize(proto, feed, preset="A8W8", **options):
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed], **options)
    onnx.checker.check_model(result.proto, full_check=True)
    for name, array in _stored(result).items():
        if name.endswith("_scale"):
            assert np.isfinite(array).all()
            assert (array > 0).all()
    return result


@pytest.mark.parametrize("preset", INTEGER_PRESETS)
@pytest.mark.parametrize("bias", [(), (1,), (8,), (1, 8), (1, 1), (4, 1), (4, 8)], ids=str)
def test_a_gemm_takes_a_bias_of_any_shape_that_can_be_broadcast(preset, bias, rng):
    """onnxruntime#24815: a crash where the bias is no vector."""
    arrays = {"w": rng.standard_normal((16, 8)).astype(np.float32), "b": np.float32(rng.standard_normal(bias))}
    proto = tiny_model("g (float[4, 16] x) => (float[4, 8] y) { y = Gemm(x, w, b) }", arrays)
    feed = {"x": rng.standard_normal((4, 16)).astype(np.float32)}
    for options in [{}] + ([{"per_channel": True}] if preset != "XINT8" else []):
        result = _quantize(proto, feed, preset, **options)
        assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 20


def test_a_bias_that_layers_share_and_names_that_are_taken():
    """onnxruntime#24705: one bias for two layers beside a tensor that has the name of its copy."""
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        b0 = Conv(x, v, b)
        b_quantized = Relu(b0)
        y = Conv(b_quantized, w, b)
    }"""
    rng = np.random.default_rng(1)
    arrays = {name: rng.standard_normal((3, 3, 1, 1)).astype(np.float32) for name in "vw"}
    proto = tiny_model(text, arrays | {"b": np.float32([0.1, 0.2, 0.3])})
    feed = {"x": samples()}
    result = _quantize(proto, feed)
    assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 20
    names = [value for node in result.proto.graph.node for value in node.output] + list(_stored(result))
    assert len(names) == len(set(names))


def test_a_transposed_convolution_has_a_scale_for_each_output_channel():
    """onnxruntime#19694: ConvTranspose(3 -> 64) got one for each input channel."""
    rng = np.random.default_rng(1)
    arrays = {"w": rng.standard_normal((3, 64, 3, 3)).astype(np.float32), "b": rng.standard_normal(64).astype("f4")}
    proto = tiny_model("g (float[N, 3, 8, 8] x) => (float[N, 64, 10, 10] y) { y = ConvTranspose(x, w, b) }", arrays)
    stored = _stored(_quantize(proto, {"x": samples()}, per_channel=True))
    assert stored["w_scale"].shape == stored["b_quantized"].shape == stored["b_quantized_scale"].shape == (64,)


@pytest.mark.parametrize("preset", INTEGER_PRESETS)
@pytest.mark.parametrize(
    "broken",
    [
        {"w1": np.zeros((3, 3, 3, 3), np.float32)},
        {"w1": np.float32([0, 1, 1])[:, None, None, None] * np.ones((3, 3, 3, 3), np.float32)},
        {"w1": np.full((3, 3, 3, 3), 1e-42, np.float32)},
        {"b1": np.float32([1e9, 0, -1e9])},
    ],
    ids=["zero weight", "dead channel", "subnormal weight", "huge bias"],
)
def test_dead_and_extreme_constants_have_finite_positive_scales(preset, broken):
    """TensorRT#1826 and its kin: scales of zero, infinite ones, biases that wrap around."""
    proto, feed = conv_relu_model(**broken), {"x": samples()}
    for options in [{}] + ([{"per_channel": True}] if preset != "XINT8" else []):
        result = _quantize(proto, feed, preset, **options)
        assert np.isfinite(_run(result.model_bytes, feed)).all()


@pytest.mark.parametrize("preset", INTEGER_PRESETS)
@pytest.mark.parametrize("value", [0.0, 3.0, -2.5, 1e-30, 1e30])
def test_a_constant_activation_has_a_finite_positive_scale(preset, value):
    feed = {"x": np.full((2, 3, 8, 8), value, np.float32)}
    assert np.isfinite(_run(_quantize(conv_relu_model(), feed, preset).model_bytes, feed)).all()


def test_what_is_not_finite_is_counted_and_left_out_of_ranges():
    feed = {"x": samples()}
    feed["x"][0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    result = _quantize(conv_relu_model(), feed)
    assert any("1 NaN and 2 infinite values" in note for note in result.summary.notes)
    assert _stored(result)["x_scale"] == np.float32(np.nanmax(np.abs(feed["x"][np.isfinite(feed["x"])])) / 127)


@pytest.mark.parametrize("preset", ["A8W8", "DYNAMIC", "BF16", "INT8_WO"])
def test_an_embedding_that_is_the_last_layer_too_is_stored_once(preset, rng):
    """onnxruntime#21277: a tied table was stored twice, and the model grew."""
    text = """g (int64[N] x) => (float[N, 200] y) {
        e = Gather(table, x)
        r = Relu(e)
        y = Gemm<transB = 1>(r, table)
    }"""
    proto = tiny_model(text, {"table": rng.standard_normal((200, 64)).astype(np.float32)})
    feed = {"x": np.arange(50)}
    result = _quantize(proto, feed, preset)
    floats = 200 * 64 * 4
    limit = floats / 2 if preset == "BF16" else floats / 4
    # Codes once, and for each row a scale as the product reads it and one as Gather does; little else.
    assert sum(array.nbytes for array in _stored(result).values()) < 1.05 * limit + 2 * 200 * 4
    assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 25


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "INT8_WO"])
def test_a_weight_in_a_node_is_stored_as_one_in_an_initializer(preset, rng):
    """onnxruntime#17944: two gigabytes of Constant nodes, which no tool could move out of the graph."""
    weight = rng.standard_normal((64, 64)).astype(np.float32)
    text = "g (float[N, 64] x) => (float[N, 64] y) { y = MatMul(x, w) }"
    stored = tiny_model(text, {"w": weight})
    node = helper.make_node("Constant", [], ["w"], "constant", value=onnx.numpy_helper.from_array(weight))
    inline = tiny_model(text)
    inline.graph.node.insert(0, node)
    feed = {"x": rng.standard_normal((8, 64)).astype(np.float32)}
    data = {} if preset == "INT8_WO" else {"calibration_data": [feed]}
    results = [quarkfast.quantize(proto, preset=preset, **data) for proto in (inline, stored)]
    assert "Constant" not in [node.op_type for node in results[0].proto.graph.node]
    assert [array.itemsize for array in _stored(results[0]).values() if array.shape == (64, 64)] == [1]
    first, second = (_run(result.model_bytes, feed) for result in results)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "MX9"])
def test_a_channel_shuffle_is_quantized(preset, rng):
    """onnxruntime#11634: shufflenet did not survive static quantization."""
    text = """g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {
        a, b = Split<axis = 1>(x, halves)
        c = Conv<group = 2, pads = [1, 1, 1, 1]>(b, w)
        j = Concat<axis = 1>(a, c)
        r = Reshape(j, groups)
        t = Transpose<perm = [0, 2, 1, 3, 4]>(r)
        y = Reshape(t, flat)
    }"""
    arrays = {
        "halves": np.int64([2, 2]), "groups": np.int64([-1, 2, 2, 8, 8]), "flat": np.int64([-1, 4, 8, 8]),
        "w": rng.standard_normal((2, 1, 3, 3)).astype(np.float32) * 0.3,
    }  # fmt: skip
    proto, feed = tiny_model(text, arrays), {"x": samples(8, (4, 8, 8))}
    assert sqnr(_run(proto, feed), _run(_quantize(proto, feed, preset).model_bytes, feed)) > 28


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_samples_may_have_different_lengths(method, rng):
    """onnxruntime#18792, optimum#409: histogram methods wanted equal shapes."""
    proto = tiny_model(
        "g (float[N, T, 8] x) => (float[N, T, 8] y) { m = MatMul(x, w) y = Relu(m) }",
        {"w": rng.standard_normal((8, 8)).astype(np.float32)},
    )
    data = [{"x": rng.standard_normal((1 + i % 3, 4 + i, 8)).astype(np.float32)} for i in range(6)]
    result = quarkfast.quantize(proto, calibration_data=data, method=method)
    assert sqnr(_run(proto, data[0]), _run(result.model_bytes, data[0])) > 20


@pytest.mark.parametrize("cell", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "BF16", "MX9"])
def test_a_recurrent_model_with_its_state_as_input_says_what_stays_float(cell, preset, rng):
    """RyzenAI-SW#152: a convolution in front of a GRU whose state goes in and out."""
    gates, hidden = {"GRU": 3, "LSTM": 4, "RNN": 1}[cell], 6
    shapes = {"k": (8, 8, 1), "w": (1, gates * hidden, 8), "r": (1, gates * hidden, hidden)}
    constants = [
        onnx.numpy_helper.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv"),
        helper.make_node("Transpose", ["c"], ["t"], "transpose", perm=[2, 0, 1]),
        helper.make_node(cell, ["t", "w", "r", "", "", "state"], ["ys", "next"], "cell", hidden_size=hidden),
    ]
    tensor = helper.make_tensor_value_info
    inputs = [tensor("x", TensorProto.FLOAT, [2, 8, 5]), tensor("state", TensorProto.FLOAT, [1, 2, hidden])]
    outputs = [tensor("next", TensorProto.FLOAT, [1, 2, hidden]), tensor("ys", TensorProto.FLOAT, [5, 1, 2, hidden])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"x": rng.standard_normal((2, 8, 5)).astype(np.float32), "state": np.zeros((1, 2, hidden), np.float32)}
    result = _quantize(proto, feed, preset)
    assert result.summary.quantized["Conv"] == 1
    left = [node.name for node in result.summary.left_float if node.op_type == cell]
    assert left == ([] if (cell, preset) == ("LSTM", "DYNAMIC") else ["cell"])
    assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 28


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "minmse", "auto"])
def test_the_size_of_batches_changes_no_scale(method, rng):
    """neural-compressor#619: other scales for batches of 1, 2, 3 and 6 images of a super resolution model."""
    text = """g (float[N, 4, 6, 6] x) => (float[N, 1, 12, 12] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w)
        b = Relu(a)
        y = DepthToSpace<blocksize = 2>(b)
    }"""
    proto = tiny_model(text, {"w": rng.standard_normal((4, 4, 3, 3)).astype(np.float32)})
    x = samples(12, (4, 6, 6))
    results = [
        quarkfast.quantize(proto, calibration_data=x, method=method, batch_size=size) for size in (1, 2, 3, 6, 12)
    ]
    stored = [
        {name: array.tobytes() for name, array in _stored(result).items() if name.endswith(("_scale", "_zero_point"))}
        for result in results
    ]
    assert stored[0]
    assert all(each == stored[0] for each in stored)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8", "XINT8"])
def test_a_model_in_float16_with_a_resize_keeps_its_output(preset, rng):
    """onnxruntime#9789, #12152: invalid models of YOLOv3-tiny in float16."""
    text = """g (float16[N, 4, 6, 6] x) => (float16[N, 4, 12, 12] y) {
        a = Conv<pads = [1, 1, 1, 1]>(x, w)
        b = Relu(a)
        y = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">(b, , scales)
    }"""
    arrays = {
        "w": (rng.standard_normal((4, 4, 3, 3)) * 0.2).astype(np.float16),
        "scales": np.float32([1, 1, 2, 2]),
    }
    proto, feed = tiny_model(text, arrays), {"x": samples(8, (4, 6, 6)).astype(np.float16)}
    result = _quantize(proto, feed, preset)
    assert result.summary.quantized["Conv"] == 1
    assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 28


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "INT8_WO"])
def test_branches_that_share_a_weight_from_outside_run_and_are_reported(preset, rng):
    """onnxruntime#19421, optimum#1405: a merged decoder whose branches read one weight."""
    text = """g (float[N, 8] x, bool cached) => (float[N, 8] y) {
        h = MatMul(x, w)
        [decoder] y = If(cached) <
            then_branch = with_past () => (float[N, 8] a) { t = MatMul(h, w) a = Relu(t) },
            else_branch = without () => (float[N, 8] b) { s = MatMul(h, w) b = Tanh(s) }
        >
    }"""
    proto = tiny_model(text, {"w": (rng.standard_normal((8, 8)) * 0.4).astype(np.float32)})
    feeds = [{"x": rng.standard_normal((4, 8)).astype(np.float32), "cached": np.array(flag)} for flag in (True, False)]
    data = {} if preset in ("DYNAMIC", "INT8_WO") else {"calibration_data": feeds}
    result = quarkfast.quantize(proto, preset=preset, **data)
    if preset == "INT8_WO":  # the weight is decoded once, for all that read it
        assert [array.dtype for array in _stored(result).values() if array.shape == (8, 8)] == [np.int8]
    else:
        assert "decoder" in [node.name for node in result.summary.left_float]
    for feed in feeds:
        assert sqnr(_run(proto, feed), _run(result.model_bytes, feed)) > 20


def test_paths_may_hold_spaces_and_letters_of_any_script(tmp_path):
    """amd/Quark#17: a path that the code page does not know."""
    folder = tmp_path / "модель 模型 é"
    folder.mkdir()
    onnx.save(conv_relu_model(), folder / "ein Modell.onnx")
    result = quarkfast.quantize(folder / "ein Modell.onnx", folder / "量化.onnx", calibration_data=samples())
    assert (folder / "量化.onnx").read_bytes() == result.model_bytes


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "DYNAMIC", "BF16", "MX9"])
@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 21, 22, 23, NEWEST])
def test_every_operator_set_is_quantized_and_runs(opset, preset):
    """Two other quantizers report success for operator set 7 and write a file that does not load."""
    proto = conv_relu_model()
    proto.opset_import[0].version, proto.ir_version = opset, 3 if opset < 9 else 8
    if opset < 9:  # where initializers had to be inputs too
        for tensor in proto.graph.initializer:
            proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    feed = {"x": samples()}
    result = _quantize(proto, feed, preset)
    assert result.summary.opset >= min(opset, 22)  # the Conv of a newer one is that of 22
    assert sqnr(_run(conv_relu_model(), feed), _run(result.model_bytes, feed)) > 24


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_a_pool_with_dilations_opens_in_a_session_that_optimizes(preset):
    """onnxruntime 1.32 makes a QLinearAveragePool of one with pairs, which has no dilations and is refused."""
    pool = "AveragePool <dilations = [2, 2], kernel_shape = [2, 2]>"
    proto = tiny_model(
        f"g (float[N, 1, 6, 6] x) => (float[N, A, B, C] y) {{ a = {pool} (x) y = Add (a, a) }}", opset=19
    )
    feed = {"x": samples(4, (1, 6, 6))}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed])
    (left,) = (node for node in result.summary.left_float if node.op_type == "AveragePool")
    assert left.reason == "onnxruntime's QLinearAveragePool has no dilations"
    session = ort.inference_session(result.model_bytes, ort.session_options(optimize=True))
    assert sqnr(_run(proto, feed), session.run(None, feed)[0]) > 24


@pytest.mark.parametrize(
    "options",
    [{}, {"rounding": "descent"}, {"shift_activations": True}, {"min_sqnr": 60}, {"output_bias_correction": True}],
    ids=["default", "descent", "shifted", "target", "outputs"],
)
def test_an_output_may_have_no_dimensions(options):
    """A predictor of speech quality ends in one number, the mean over everything."""
    text = """g (float[1, 3, 8, 8] x) => (float y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, v)  b = Relu (a)  c = Conv (b, w)  d = Sigmoid (c)
        y = ReduceMean <keepdims = 0> (d)
    }"""
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.normal(size=shape).astype(np.float32) for name, shape in (("v", (16, 3, 3, 3)), ("w", (2, 16, 1, 1)))
    }
    proto, feeds = tiny_model(text, arrays), [{"x": samples(1) * (1 + k % 3)} for k in range(24)]
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds, **options)
    found = [np.array([run_exact(model, feed)[0] for feed in feeds]) for model in (proto, result.model_bytes)]
    assert found[1].shape == (24,)
    assert sqnr(*found) > 24
