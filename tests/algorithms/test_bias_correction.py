"""Biases make up for what rounded weights add to the mean of a layer's output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms.bias_correction import BIAS_CORRECTION, bias_of
from quarkfast.config import PRESETS
from quarkfast.deferred import ir
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.placement import Quantizer
from quarkfast.quantization import QuantizedTensor
from quarkfast.reconstruction import LinearLayer
from support.tiny_models import run_as_written, tiny_model

CHANNELS = 8
TEXT = f"""g (float[N, {CHANNELS}, 6, 6] x) => (float[N, {CHANNELS}, 6, 6] y) {{
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (c)
    y = Conv (r, w2, b2)
}}"""
SHAPES = {"w1": (CHANNELS, CHANNELS, 3, 3), "b1": (CHANNELS,), "w2": (CHANNELS, CHANNELS, 1, 1), "b2": (CHANNELS,)}


def model(text: str = TEXT) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    return tiny_model(text, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def samples(count: int = 32, seed: int = 2, mean: float = 3.0) -> np.ndarray:
    """Inputs far from zero, as behind a Relu: errors of weights add up to a mean."""
    return np.random.default_rng(seed).normal(mean, 1, (count, CHANNELS, 6, 6)).astype(np.float32)


def quantized(data=None, **options) -> quarkfast.QuantizedModel:
    options = {"preset": "A16W8", "weight_type": "int4", "strict": True} | options
    return quarkfast.quantize(model(), calibration_data=samples() if data is None else data, **options)


def biases(result: quarkfast.QuantizedModel) -> bytes:
    found = {each.name: each.raw_data for each in result.proto.graph.initializer}
    return b"".join(data for name, data in sorted(found.items()) if name.startswith("b") and "quantized" in name)


@pytest.mark.parametrize(
    "options",
    [{}, {"per_channel": True}, {"preset": "XINT8", "weight_type": "int8"}, {"preset": "U8S8", "weight_type": "int8"}],
    ids=["per tensor", "per channel", "XINT8", "U8S8"],
)
def test_outputs_on_other_samples_gain(options):
    x = samples(32, 5)
    (expected,) = exact_session(model()).run(None, {"x": x})
    plain, corrected = (quantized(bias_correction=on, **options) for on in (False, True))
    assert biases(plain) != biases(corrected)
    ratios = [sqnr(expected, run_as_written(each.model_bytes, x)) for each in (plain, corrected)]
    assert ratios[1] > ratios[0]


def test_means_of_outputs_are_those_of_the_float_model():
    x = samples(32, 5)
    (expected,) = exact_session(model()).run(None, {"x": x})
    found = [run_as_written(quantized(bias_correction=on).model_bytes, x) for on in (False, True)]
    off = [np.abs((each - expected).mean(axis=(0, 2, 3))).max() for each in found]
    assert off[1] < off[0] / 4, (
        "6 samples of 36 positions know a mean to a fifteenth of its deviation, which is a third"
    )


def test_correction_that_brings_outputs_no_closer_is_left_out():
    data = samples()
    data[[2, 6, 8]] -= 6.0  # those that judge lie on the other side of zero
    assert biases(quantized(data)) == biases(quantized(data, bias_correction=False))


@pytest.mark.parametrize("options", [{"weight_type": "int16"}, {"weight_type": "bfloat16"}])
def test_weights_without_narrow_codes_leave_biases_alone(options):
    plain, default = (quantized(bias_correction=on, **options).proto.graph for on in (False, True))
    assert plain.SerializeToString() == default.SerializeToString()


FLOAT = [{"preset": "DYNAMIC", "weight_type": "int8"}, {"bias": "float"}, {"bias": "float", "per_channel": True}]


def float_biases(result: quarkfast.QuantizedModel) -> dict[str, np.ndarray]:
    graph = result.proto.graph
    return {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer if each.name in ("b1", "b2")}


@pytest.mark.parametrize("options", FLOAT, ids=["dynamic", "per tensor", "per channel"])
def test_float_biases_are_corrected(options):
    x = samples(32, 5)
    (expected,) = exact_session(model()).run(None, {"x": x})
    plain, corrected = (quantized(bias_correction=on, **options) for on in (False, True))
    given = {each.name: onnx.numpy_helper.to_array(each) for each in model().graph.initializer}
    assert all(np.array_equal(given[name], found) for name, found in float_biases(plain).items())
    assert len(float_biases(corrected)) == 2
    assert all(np.abs(given[name] - found).max() > 0 for name, found in float_biases(corrected).items())
    ratios = [sqnr(expected, run_as_written(each.model_bytes, x)) for each in (plain, corrected)]
    assert ratios[1] > ratios[0]


@pytest.mark.parametrize(("one", "all_others"), [("float", None), ("int32", "float")])
def test_layers_may_have_biases_of_either_kind(one, all_others):
    rule = [{"nodes": ["conv_0"], "bias": one}]
    options = {"layers": rule} | ({} if all_others is None else {"bias": all_others})
    plain, corrected = (quantized(bias_correction=on, **options) for on in (False, True))
    kept = {"b1"} if one == "float" else {"b2"}
    assert set(float_biases(corrected)) == kept
    moved, stayed = ({**float_biases(each), "": biases(each)} for each in (corrected, plain))
    assert all(np.any(moved[name] != stayed[name]) for name in kept)
    assert moved[""] != stayed[""], "the other bias has codes"


def test_biases_that_are_floats_of_16_bits_stay_as_they_are_rounded():
    options = {"preset": "BF16", "weight_type": "bfloat16"}
    nearest, rounded = (quantized(samples(64), rounding=each, **options) for each in ("nearest", "descent"))
    found = [{t.name: t.SerializeToString() for t in each.proto.graph.initializer} for each in (nearest, rounded)]
    assert any(found[0][name] != found[1][name] for name in found[0]), "weights are rounded by outputs"
    assert all(found[0][name] == found[1][name] for name in found[0] if name.startswith("b"))


@pytest.mark.parametrize("options", FLOAT[:2], ids=["dynamic", "static"])
def test_float_biases_stay_without_real_samples(options):
    plain, default = (quantized("random", bias_correction=on, **options).proto.graph for on in (False, True))
    assert plain.SerializeToString() == default.SerializeToString()


@pytest.mark.parametrize("rounding", ["descent", "gptq"])
def test_weight_rounding_moves_float_biases_of_its_own(rounding):
    rounded = [quantized(samples(64), bias="float", rounding=rounding, bias_correction=on) for on in (False, True)]
    nearest = float_biases(quantized(samples(64), bias="float", bias_correction=False))
    first, second = map(float_biases, rounded)
    assert all(np.array_equal(first[name], second[name]) for name in ("b1", "b2"))
    assert all(np.abs(first[name] - nearest[name]).max() > 0 for name in ("b1", "b2"))


def test_a_calibration_and_random_samples_tell_nothing():
    for source in ({"calibration_data": "random"}, {"calibration": quarkfast.calibrate(model(), samples())}):
        plain, default = (
            quarkfast.quantize(model(), preset="A8W8", strict=True, bias_correction=on, **source)
            for on in (False, True)
        )
        assert biases(plain) == biases(default)


@pytest.mark.parametrize("batch", [1, 5, 32])
def test_samples_that_can_be_read_once_give_the_same_codes_whatever_the_batch(batch):
    once = ({"x": part} for part in np.split(samples(), 4))
    assert biases(quantized(once, batch_size=batch)) == biases(quantized())


def test_what_the_last_layer_reads_judges_a_model_of_few_outputs():
    """Where the last layer reads only the first of two channels, errors of the other show in what it reads."""
    text = """g (float[N, 2, 6, 6] x) => (float[N, 1, 6, 6] y) { c = Conv (x, w1, b1) y = Conv (c, w2, b2) }"""
    arrays = {"w1": np.float32([[1.0, 0.0], [0.73, -0.9]]), "b1": np.zeros(2, np.float32)}
    arrays |= {"w2": np.float32([[1.0, 0.0]]), "b2": np.zeros(1, np.float32)}
    tiny = tiny_model(
        text, {name: each.reshape(*each.shape, *(1, 1) * (each.ndim > 1)) for name, each in arrays.items()}
    )
    data = samples()[:, :2]
    plain, default = (
        quarkfast.quantize(tiny, preset="A16W8", weight_type="int4", strict=True, calibration_data=data,
                           bias_correction=on)
        for on in (False, True)
    )  # fmt: skip
    assert any("bias correction of 2 layers" in note for note in default.summary.notes)
    assert biases(plain) != biases(default)


def test_a_bias_that_is_broadcast_stays():
    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(0, 0.3, (CHANNELS, 4)).astype(np.float32), "b": np.ones(1, np.float32)}
    gemm = tiny_model(f"g (float[N, {CHANNELS}] x) => (float[N, 4] y) {{ y = Gemm (x, w, b) }}", weights)
    data = rng.normal(3, 1, (12, CHANNELS)).astype(np.float32)
    plain, default = (
        quarkfast.quantize(gemm, preset="A8W8", calibration_data=data, strict=True, bias_correction=on)
        for on in (False, True)
    )
    assert biases(plain) == biases(default)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_weight_rounding_begins_at_biases_that_it_gives_anew(preset):
    scheme = replace(PRESETS[preset], rounding="descent")
    assert BIAS_CORRECTION.settings(scheme) is not None
    kept = replace(scheme, rounding_options=(("update_bias", False),))
    assert BIAS_CORRECTION.settings(kept) is None


def test_weights_in_files_are_mapped_for_a_moment(tmp_path, monkeypatch, rng):
    weights, given = rng.integers(-9, 9, (2, 3)).astype(np.float32), np.float32([1.0, 2.0])
    arrays = {"w": weights, "b": given}
    tensors = {}
    for name, array in arrays.items():
        (tmp_path / name).write_bytes(array.tobytes())
        tensors[name] = QuantizedTensor(
            Quantizer("int8", np.float32(1), np.int64(0)),
            ir.ExternalTensor(
                name, 0, array.nbytes, ir.DataType.FLOAT, shape=ir.Shape(array.shape), name=name, base_dir=tmp_path
            ),
        )
    layer = LinearLayer("n", "Gemm", "x", "w", "b", (2, 3))
    mean = np.ones((1, 3))
    monkeypatch.setattr(ir.ExternalTensor, "numpy", None)  # which keeps the file mapped for good
    found = bias_of(tensors["b"], tensors["w"], np.zeros((2, 3), np.float32), layer, mean, mean)
    assert found.tolist() == (given + weights.sum(axis=1)).tolist()
