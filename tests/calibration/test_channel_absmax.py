"""The largest magnitude in each channel, gathered by Observe, is what ReduceMax of the float model gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.algorithms import smoothable_axes
from quarkfast.calibration import observe
from quarkfast.config import PRESETS
from quarkfast.demo.data import MODEL
from quarkfast.errors import CalibrationError
from quarkfast.graph.load import load_model
from quarkfast.graph.opset import opset_version
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from quarkfast.statistics import Calibration, StatisticsRequest
from support.block_models import attention_block
from support.tiny_models import tiny_model

TEXT = """g (float[N, S, 6] x) => (float[N, S, 4] y) {
    n = Abs (x)
    y = MatMul (n, w)
}"""
WEIGHT = np.random.default_rng(3).standard_normal((6, 4)).astype(np.float32)
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


def _by_reduction(model, tensors, feeds):
    """The maxima as outputs of an optimized float session, without any of our operators."""
    proto = to_proto(model)
    del proto.graph.output[:]
    own_input = opset_version(model) >= 18
    for name in tensors:
        axes = onnx.numpy_helper.from_array(np.array([0], np.int64), f"{name}, axes")
        shape = onnx.numpy_helper.from_array(np.array([-1, tensors[name]], np.int64), f"{name}, shape")
        proto.graph.initializer.extend([axes, shape] if own_input else [shape])
        inputs, attributes = ([f"{name}, abs", axes.name], {}) if own_input else ([f"{name}, abs"], {"axes": [0]})
        proto.graph.node.extend(
            [
                onnx.helper.make_node("Reshape", [name, shape.name], [f"{name}, rows"]),
                onnx.helper.make_node("Abs", [f"{name}, rows"], [f"{name}, abs"]),
                onnx.helper.make_node("ReduceMax", inputs, [f"{name}, max"], keepdims=0, **attributes),
            ]
        )
        proto.graph.output.append(
            onnx.helper.make_tensor_value_info(f"{name}, max", onnx.TensorProto.FLOAT, [tensors[name]])
        )
    session = ort.inference_session(proto.SerializeToString(), ort.session_options(spinning=False))
    maxima = [ort.run(session, feed) for feed in feeds]
    return {name: np.max([each[index] for each in maxima], axis=0) for index, name in enumerate(tensors)}


def _smoothed(proto, opset=13):
    """A prepared model, and what DYNAMIC looks at in it: tensor -> number of channels."""
    model = prepare(load_model(proto), opset, scheme=PRESETS["A8W8"])
    values = {value.name: value for node in model.graph for value in node.outputs}
    return model, {name: values[name].shape[-1] for name in smoothable_axes(model)}


def _feed(model, rng):
    """Random floats for inputs of floats, ones for others; three rows."""
    feed = {}
    for value in model.graph.inputs:
        shape = [size if isinstance(size, int) else 3 for size in value.shape]
        dtype = value.dtype.numpy()
        feed[value.name] = (rng.standard_normal(shape) if dtype == np.float32 else np.ones(shape)).astype(dtype)
    return feed


@pytest.mark.parametrize("which", ["residual", "attention", "demo"])
def test_observe_gives_the_maxima_of_reduction_to_the_bit(which, rng):
    proto = {"residual": lambda: _residual(rng), "attention": attention_block, "demo": lambda: str(MODEL)}[which]()
    model, tensors = _smoothed(proto)
    feeds = [_feed(model, rng) for _ in range(4)]
    assert tensors
    expected = _by_reduction(model, tensors, feeds)
    found, _ = observe(model, StatisticsRequest.of_channels(dict.fromkeys(tensors, -1)), feeds)
    for name in tensors:
        assert found[name].channel_absmax.tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_the_largest_magnitudes_are_those_of_all_rows_of_all_feeds(opset):
    model = prepare(load_model(tiny_model(TEXT, {"w": WEIGHT}, opset)), opset)
    rng = np.random.default_rng(4)
    feeds = [{"x": rng.standard_normal(shape).astype(np.float32)} for shape in ((2, 3, 6), (1, 5, 6), (4, 1, 6))]
    found, samples = observe(model, StatisticsRequest.of_channels({"n": -1}), feeds)
    rows = np.concatenate([feed["x"].reshape(-1, 6) for feed in feeds])
    np.testing.assert_array_equal(found["n"].channel_absmax, np.abs(rows).max(axis=0))
    assert samples == 7
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert len(model.graph) == 2


def _outliers(rng):
    x = rng.standard_normal((64, 128)).astype(np.float32)
    x[0, 5], x[1, 6] = 60, -60
    return x


@pytest.mark.parametrize("preset", ["DYNAMIC", None])
def test_a_calibration_smooths_as_its_samples_do(rng, tmp_path, preset):
    proto, x = _residual(rng), _outliers(rng)
    expected = quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=x)
    path = tmp_path / "calibration.json"
    calibration = quarkfast.calibrate(proto, x, path, preset=preset)
    for each in (calibration, path):
        result = quarkfast.quantize(proto, preset="DYNAMIC", calibration=each)
        assert result.model_bytes == expected.model_bytes
        assert (result.summary.samples, result.summary.notes) == (64, expected.summary.notes)
    assert Calibration.load(path) == calibration


def test_parts_of_samples_smooth_as_all_of_them(rng):
    proto, x = _residual(rng), _outliers(rng)
    parts = [quarkfast.calibrate(proto, x[start:stop], preset="DYNAMIC") for start, stop in ((0, 1), (1, 40), (40, 64))]
    merged = quarkfast.merge_calibrations(parts)
    expected = quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=x)
    assert quarkfast.quantize(proto, preset="DYNAMIC", calibration=merged).model_bytes == expected.model_bytes


def test_a_calibration_for_dynamic_holds_channels_and_no_histograms(rng):
    found = quarkfast.calibrate(_residual(rng), _outliers(rng), preset="DYNAMIC")
    assert list(found.tensors) == ["n", "m"]
    assert all(each.histogram is None for each in found.tensors.values())
    assert all(each.channel_absmax.shape == (128,) for each in found.tensors.values())


def test_a_calibration_without_channels_is_refused(rng):
    proto, x = _residual(rng), _outliers(rng)
    calibration = quarkfast.calibrate(proto, x, preset="A8W8")
    message = "expected the largest magnitude in each channel of tensor 'n', got its range alone; calibrate with"
    with pytest.raises(CalibrationError, match=f"^calibration: {message} preset='DYNAMIC' or without a preset"):
        quarkfast.quantize(proto, preset="DYNAMIC", calibration=calibration)


def test_random_calibrations_tell_nothing(rng):
    proto = _residual(rng)
    calibration = quarkfast.calibrate(proto, "random", preset="DYNAMIC")
    plain = quarkfast.quantize(proto, preset="DYNAMIC")
    assert quarkfast.quantize(proto, preset="DYNAMIC", calibration=calibration).model_bytes == plain.model_bytes


def test_a_tensor_with_an_infinity_stays_as_it_is(rng):
    proto = tiny_model(
        "g (float[N, 128] x) => (float[N, 128] y) { n = Abs (x) y = MatMul (n, w) }",
        {"w": rng.standard_normal((128, 128)).astype(np.float32)},
    )
    x = _outliers(rng)
    assert quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=x).summary.notes
    x[2, 7] = np.inf
    assert quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=x).summary.notes == ()


def test_a_feed_that_the_model_cannot_run_on_is_named(rng):
    model = prepare(load_model(tiny_model(TEXT, {"w": WEIGHT}, 17)), 17)
    feeds = [{"x": np.ones((1, 2, 6), np.float32)}, {"x": np.ones((1, 2, 5), np.float32)}]
    with pytest.raises(CalibrationError, match=r"^calibration data: sample 2: "):
        observe(model, StatisticsRequest.of_channels({"n": -1}), feeds)
