from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import quarkfast
from quarkfast.errors import CalibrationError, ConfigError, ModelError, OutputError
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import conv_relu_model, samples, tiny_model

RUNS_PLAIN = [
    pytest.param("A8W8", {}, id="A8W8"),
    pytest.param("A8W8", {"per_channel": True}, id="A8W8 per channel"),
    pytest.param("A8W8", {"keep_float_weights": True}, id="A8W8 with float weights"),
    pytest.param("A16W8", {}, id="A16W8"),
    pytest.param("U8S8", {}, id="U8S8"),
    pytest.param("U8S8", {"per_channel": True}, id="U8S8 per channel"),
    pytest.param("BF16", {"BF16QDQToCast": True}, id="BF16 as casts"),
]
CUSTOM = [
    pytest.param("BF16", {}, id="BF16"),
    pytest.param("BF16", {"keep_float_weights": True}, id="BF16 with float weights"),
]

# Lowest signal-to-noise ratio of the tiny model's output in dB. Eight bits give 6.02 * 8 = 48 dB for a full-scale
# uniform signal; normal activations use a third of the range (-10 dB) and three roundings add up (-5 dB).
FLOOR = 28.0


def _run(model, x):
    return run_exact(model, {"x": x})[0]


@pytest.mark.parametrize(("preset", "options"), RUNS_PLAIN)
def test_every_preset_passes_the_checker_runs_plainly_and_stays_close(preset, options):
    proto = conv_relu_model()
    result = quarkfast.quantize(proto, preset=preset, calibration_data=samples(), **options)
    onnx.checker.check_model(result.proto, full_check=True)
    x = samples()
    assert np.isfinite(onnxruntime.InferenceSession(result.model_bytes).run(None, {"x": x})[0]).all()
    assert sqnr(_run(proto, x), _run(result.model_bytes, x)) > FLOOR


@pytest.mark.parametrize(("preset", "options"), CUSTOM)
def test_presets_of_custom_operators_run_with_the_library(preset, options):
    proto = conv_relu_model()
    result = quarkfast.quantize(proto, preset=preset, **options)
    x = samples()
    assert sqnr(_run(proto, x), _run(result.model_bytes, x)) > FLOOR


def test_bfloat16_gives_the_same_bytes_as_operators_and_as_casts():
    proto, x = conv_relu_model(), samples(64)
    results = [quarkfast.quantize(proto, preset="BF16", bf16_qdq_to_cast=cast) for cast in (False, True)]
    operators, casts = (_run(result.model_bytes, x) for result in results)
    assert operators.tobytes() == casts.tobytes()


@pytest.mark.parametrize(("preset", "options"), RUNS_PLAIN + CUSTOM)
def test_the_same_input_gives_the_same_bytes(preset, options):
    first, second = (
        quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples(), **options) for _ in range(2)
    )
    assert first.model_bytes == second.model_bytes


def test_the_batch_size_changes_nothing_but_the_record_of_it():
    protos = [
        quarkfast.quantize(conv_relu_model(), calibration_data=samples(), batch_size=size).proto for size in (1, 3, 8)
    ]
    for proto in protos:
        del proto.metadata_props[:]
    assert protos[0] == protos[1] == protos[2]


@pytest.mark.parametrize("kind", ["path", "text", "proto", "ir"])
def test_every_kind_of_input_gives_the_same_bytes(tmp_path, kind):
    proto = conv_relu_model()
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    model = {"path": path, "text": str(path), "proto": proto, "ir": ir.serde.deserialize_model(proto)}[kind]
    expected = quarkfast.quantize(proto, calibration_data=samples()).model_bytes
    assert quarkfast.quantize(model, calibration_data=samples()).model_bytes == expected


def test_graph_inputs_and_outputs_keep_names_and_types():
    proto = conv_relu_model()
    result = quarkfast.quantize(proto, calibration_data=samples()).proto
    assert list(result.graph.input) == list(proto.graph.input)
    assert [value.name for value in result.graph.output] == ["y"]
    assert result.graph.output[0].type == proto.graph.output[0].type


def test_the_names_are_quarks():
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples()).proto
    names = {node.name for node in result.graph.node}
    constants = {tensor.name for tensor in result.graph.initializer}
    assert {"x_QuantizeLinear", "x_DequantizeLinear", "w1_DequantizeLinear", "y_QuantizeLinear"} <= names
    assert {"w1_quantized", "w1_scale", "w1_zero_point", "b1_quantized", "b1_quantized_scale"} <= constants
    assert {"x_scale", "x_zero_point"} <= constants
    assert "w1" not in constants
    add = next(node for node in result.graph.node if node.op_type == "Add")
    assert add.output[0] == "y_QuantizeLinear_Input"
    assert add.input[1] == "x_DequantizeLinear_Output"


def test_a_name_that_is_taken_is_not_taken_again():
    proto = conv_relu_model()
    proto.graph.node[1].output[0] = proto.graph.node[2].input[0] = "x_scale"
    result = quarkfast.quantize(proto, calibration_data=samples()).proto
    onnx.checker.check_model(result, full_check=True)
    assert "x_scale_1" in {tensor.name for tensor in result.graph.initializer}


def test_weights_are_stored_as_codes():
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples()).proto
    types = {tensor.name: tensor.data_type for tensor in result.graph.initializer}
    assert types["w1_quantized"] == onnx.TensorProto.INT8
    assert types["b1_quantized"] == onnx.TensorProto.INT32


def test_an_input_that_is_an_output_too_is_handed_out_unchanged():
    proto = conv_relu_model()
    proto.graph.output.append(proto.graph.input[0])
    result = quarkfast.quantize(proto, calibration_data=samples())
    onnx.checker.check_model(result.proto, full_check=True)
    x = samples()
    session = onnxruntime.InferenceSession(result.model_bytes)
    np.testing.assert_array_equal(session.run(["x"], {"x": x})[0], x)


def test_the_opset_is_the_lowest_that_carries_the_types():
    proto = conv_relu_model()
    assert quarkfast.quantize(proto, calibration_data=samples()).summary.opset == 17
    wide = quarkfast.quantize(proto, preset="A16W8", calibration_data=samples())
    assert wide.summary.opset == 21
    assert wide.proto.ir_version == 10


def test_an_old_model_is_converted():
    arrays = {"w": np.ones((3, 3, 1, 1), np.float32)}
    text = "g (float[N, 3, 8, 8] x, float[3, 3, 1, 1] w) => (float[N, 3, 8, 8] y) { y = Conv(x, w) }"
    proto = tiny_model(text, arrays, opset=7, ir_version=3)
    result = quarkfast.quantize(proto, calibration_data={"x": samples()})
    assert result.summary.opset == 11
    assert onnxruntime.InferenceSession(result.model_bytes).run(None, {"x": samples()})


def test_a_product_with_a_bias_in_an_old_model_runs_in_a_default_session(rng):
    arrays = {"w": rng.standard_normal((8, 4)).astype(np.float32), "b": rng.standard_normal(4).astype(np.float32)}
    text = "g (float[N, 8] x, float[8, 4] w, float[4] b) => (float[N, 4] y) { p = MatMul(x, w) y = Add(p, b) }"
    x = rng.standard_normal((16, 8)).astype(np.float32)
    result = quarkfast.quantize(tiny_model(text, arrays, opset=10, ir_version=5), calibration_data={"x": x})
    (found,) = onnxruntime.InferenceSession(result.model_bytes).run(None, {"x": x})
    (exact,) = run_exact(result.model_bytes, {"x": x})
    step = np.ptp(exact) / 255
    np.testing.assert_allclose(found, exact, atol=1.5 * step)


def test_the_model_says_what_made_it():
    proto = quarkfast.quantize(conv_relu_model(), calibration_data=samples(), per_channel=True).proto
    assert proto.producer_name == "quarkfast"
    (prop,) = [prop for prop in proto.metadata_props if prop.key == "quarkfast.scheme"]
    assert '"granularity": "channel"' in prop.value


def test_the_output_may_be_the_input(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(conv_relu_model(), path)
    result = quarkfast.quantize(path, path, calibration_data=samples())
    assert path.read_bytes() == result.model_bytes
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_the_result_can_be_saved_later(tmp_path):
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    assert result.path is None
    assert result.save(tmp_path / "out.onnx").read_bytes() == result.model_bytes


def test_a_model_without_anything_to_quantize_is_copied_with_a_warning(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Cos(x) }"), path)
    with pytest.warns(UserWarning, match="nothing in the model can be quantized; the result is an unchanged copy"):
        result = quarkfast.quantize(path, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()
    assert result.summary.quantized == {}
    assert [node.reason for node in result.summary.left_float] == ["ryzenai-a8w8 has no rule for Cos"]


def _mistakes(folder):
    garbage = folder / "garbage.onnx"
    garbage.write_bytes(b"garbage")
    good, data, broken = conv_relu_model(), samples(), np.full((3, 3, 1, 1), np.nan, np.float32)
    return {
        "missing model": (folder / "none.onnx", {}, ModelError),
        "garbage model": (garbage, {}, ModelError),
        "unknown preset": (good, {"preset": "A8W9"}, ConfigError),
        "unknown option": (good, {"per_chanel": True}, ConfigError),
        "no data": (good, {"calibration_data": None}, CalibrationError),
        "empty data": (good, {"calibration_data": []}, CalibrationError),
        "wrong name": (good, {"calibration_data": {"z": data}}, CalibrationError),
        "wrong dtype": (good, {"calibration_data": data.astype(np.float64)}, CalibrationError),
        "wrong shape": (good, {"calibration_data": data[:, :2]}, CalibrationError),
        "nan in a weight": (conv_relu_model(w2=broken), {}, ModelError),
        "excluded node missing": (good, {"exclude": ["none"]}, ConfigError),
    }


MISTAKES = (
    "missing model", "garbage model", "unknown preset", "unknown option", "no data", "empty data", "wrong name",
    "wrong dtype", "wrong shape", "nan in a weight", "excluded node missing",
)  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("old", [None, b"old"], ids=["new output", "existing output"])
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(tmp_path, mistake, old):
    inputs, outputs = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    outputs.mkdir()
    output = outputs / "out.onnx"
    if old is not None:
        output.write_bytes(old)
    model, arguments, kind = _mistakes(inputs)[mistake]
    with pytest.raises(kind) as caught:
        quarkfast.quantize(model, output, **({"calibration_data": samples()} | arguments))
    message = str(caught.value)
    assert "expected" in message
    assert ", got " in message
    assert "\n" not in message
    assert [path.read_bytes() for path in outputs.iterdir()] == ([] if old is None else [old])


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    def never():
        raise AssertionError("the data was read")
        yield

    with pytest.raises(OutputError, match="expected an existing folder"):
        quarkfast.quantize(tmp_path / "none.onnx", tmp_path / "nowhere" / "out.onnx", calibration_data=never())


def test_a_run_that_fails_names_the_sample():
    text = "g (float[N, 4] x) => (float[M, 2] y) { r = Relu(x) y = Reshape(r, shape) }"
    proto = tiny_model(text, {"shape": np.int64([-1, 8])})
    proto.graph.output[0].type.tensor_type.shape.Clear()
    data = [np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)]
    with pytest.raises(CalibrationError, match="calibration data: sample 2: onnxruntime: "):
        quarkfast.quantize(proto, calibration_data=data)


def test_nothing_leaks_between_calls():
    before = quarkfast.quantize(conv_relu_model(), calibration_data=samples()).model_bytes
    quarkfast.quantize(conv_relu_model(), calibration_data=samples(), per_channel=True, exclude=["add_3"])
    assert quarkfast.quantize(conv_relu_model(), calibration_data=samples()).model_bytes == before


def test_the_callers_model_and_data_are_not_changed():
    proto, data = conv_relu_model(), samples()
    quarkfast.quantize(proto, calibration_data=data)
    assert proto == conv_relu_model()
    np.testing.assert_array_equal(data, samples())


def test_progress_is_told_by_stage_and_sample():
    heard = []
    quarkfast.quantize(
        conv_relu_model(), calibration_data=samples(10), batch_size=4, progress=lambda *event: heard.append(event)
    )
    assert [event for event in heard if event[0] == "calibrate"] == [("calibrate", n, 10) for n in (0, 4, 8, 10)]
    stages = list(dict.fromkeys(stage for stage, _, _ in heard))
    assert stages == ["import", "load", "prepare", "calibrate", "insert", "check"]


def test_samples_that_cannot_be_counted_have_no_total():
    heard = []
    data = iter([samples(2), samples(3)])
    result = quarkfast.quantize(conv_relu_model(), calibration_data=data, progress=lambda *event: heard.append(event))
    assert [event for event in heard if event[0] == "calibrate"][-1] == ("calibrate", 5, None)
    assert result.summary.samples == 5


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8", "XINT8"])
def test_quantizing_twice_is_quantizing_once(preset):
    once = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples()).proto
    with pytest.warns(UserWarning, match="expected a float model"):
        twice = quarkfast.quantize(once, preset=preset, calibration_data=samples()).proto
    assert twice.graph.node == once.graph.node
    assert sorted(each.name for each in twice.graph.initializer) == sorted(each.name for each in once.graph.initializer)


def test_a_model_that_is_partly_quantized_gets_what_is_missing():
    part = quarkfast.quantize(conv_relu_model(), calibration_data=samples(), exclude=["conv_2", "add_3"]).proto
    whole = quarkfast.quantize(part, calibration_data=samples())
    onnx.checker.check_model(whole.proto, full_check=True)
    counts = [sum(node.op_type == "QuantizeLinear" for node in each.graph.node) for each in (part, whole.proto)]
    assert counts == [2, 4]
    x = samples()
    assert sqnr(_run(conv_relu_model(), x), _run(whole.model_bytes, x)) > FLOOR


def test_a_result_that_is_too_large_for_one_file_takes_two(tmp_path, monkeypatch):
    expected = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    monkeypatch.setattr("quarkfast.graph.external.PROTOBUF_LIMIT", 100)
    monkeypatch.setattr("quarkfast.graph.external._SMALL", 16)
    result = quarkfast.quantize(conv_relu_model(), tmp_path / "m.onnx", calibration_data=samples())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert result.summary.bytes_after == sum(path.stat().st_size for path in tmp_path.iterdir())
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    found = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer
    }
    for tensor in expected.proto.graph.initializer:
        np.testing.assert_array_equal(found[tensor.name], onnx.numpy_helper.to_array(tensor))
