from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

RNG = np.random.default_rng(5)
CONSTANTS = {
    "w": RNG.normal(0, 1, (6, 4)).astype(np.float32),
    "v": RNG.normal(0, 1, (6, 4, 1, 1)).astype(np.float32),
    "flat": np.int64([-1, 6]),
    **{"c0": np.float32(0), "c6": np.float32(6)},
}
SAMPLES = RNG.laplace(0, 1, (32, 4)).astype(np.float32)
OTHERS = RNG.laplace(0, 1, (4096, 4)).astype(np.float32)
LAYER = "g (float[N, 4] x) => (float[N, 6] y) { "
ENDS = {
    "Gemm": "y = Gemm<transB = 1>(x, w) }",
    "moved": "a = Gemm<transB = 1>(x, w) b = Identity(a) y = Reshape(b, flat) }",
    "Softmax behind it": "a = Gemm<transB = 1>(x, w) y = LogSoftmax(a) }",
    "Relu": "a = Gemm<transB = 1>(x, w) y = Relu(a) }",
}


def _quantize(text, samples=SAMPLES, **options):
    return quarkfast.quantize(tiny_model(text, CONSTANTS), calibration_data={"x": samples}, **options)


def _told(result):
    return [note for note in result.summary.notes if note.startswith("ranges reach beyond")]


def _ratio(text, result):
    models = (tiny_model(text, CONSTANTS).SerializeToString(), result.model_bytes)
    return sqnr(*(exact_session(each).run(None, {"x": OTHERS})[0] for each in models))


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_other_samples_saturate_less(end, preset):
    options = {"preset": preset, "weight_type": "int16"} if preset != "U8S8" else {"preset": preset}
    wider, kept = _quantize(LAYER + end, **options), _quantize(LAYER + end, strict=True, **options)
    assert _told(wider)
    assert not _told(kept)
    assert _ratio(LAYER + end, wider) > _ratio(LAYER + end, kept) + 1


@pytest.mark.parametrize(
    "text",
    [
        LAYER + "a = Gemm<transB = 1>(x, w) y = Sigmoid(a) }",
        LAYER + "a = Gemm<transB = 1>(x, w) b = Tanh(a) y = Reshape(b, flat) }",
        LAYER + "a = Gemm<transB = 1>(x, w) y = Clip(a, c0, c6) }",
    ],
    ids=["Sigmoid", "Tanh, moved", "Clip"],
)
def test_what_an_operator_keeps_within_limits_stays(text):
    assert all("'y'" not in note for note in _told(_quantize(text)))


def test_tensors_in_between_stay():
    text = LAYER + "a = Gemm<transB = 1>(x, w) s = Softplus(a) y = Tanh(s) }"
    assert not _told(_quantize(text, preset="A16W8"))


def test_tensors_of_many_places_stay():
    text = "g (float[N, 4, 8, 8] x) => (float[N, 6, 8, 8] y) { y = Conv(x, v) }"
    images = RNG.laplace(0, 1, (8, 4, 8, 8)).astype(np.float32)
    assert not _told(_quantize(text, images))


@pytest.mark.parametrize("options", [{"preset": "XINT8"}, {"preset": "BF16"}], ids=["powers of two", "floats"])
def test_types_without_a_range_to_choose_stay(options):
    assert not _told(_quantize(LAYER + ENDS["Gemm"], **options))


def test_random_samples_show_no_tails():
    result = quarkfast.quantize(tiny_model(LAYER + ENDS["Gemm"], CONSTANTS), calibration_data="random")
    assert not _told(result)


def test_a_saved_calibration_gives_the_same_ranges():
    model = tiny_model(LAYER + ENDS["Gemm"], CONSTANTS)
    saved = quarkfast.calibrate(model, {"x": SAMPLES}, histogram=True)
    options = {"bias_correction": False}
    by_samples = quarkfast.quantize(model, calibration_data={"x": SAMPLES}, **options)
    by_file = quarkfast.quantize(model, calibration=saved, **options)
    assert _told(by_file) == _told(by_samples) != []
    assert _scales(by_file) == _scales(by_samples)


def _scales(result):
    constants = onnx.load_model_from_string(result.model_bytes).graph.initializer
    return {each.name: onnx.numpy_helper.to_array(each).tolist() for each in constants if "scale" in each.name}


def test_the_range_search_leaves_them():
    options = {"preset": "A8W8", "search_ranges": True}
    searched, plain = _quantize(LAYER + ENDS["Gemm"], **options), _quantize(LAYER + ENDS["Gemm"], preset="A8W8")
    assert _scales(searched)["y_scale"] == _scales(plain)["y_scale"]
