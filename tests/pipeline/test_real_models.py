"""The issue's bars on trained networks; skipped where the folder of real models is absent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]

# Percentage points of top-1 that a preset may lose, beside what chance decides on 2,000 images.
BARS = [
    pytest.param("A8W8", {}, 0.3, id="A8W8"),
    pytest.param("A8W8", {"per_channel": True}, 0.3, id="A8W8 per channel"),
    pytest.param("A16W8", {}, 0.2, id="A16W8"),
    pytest.param("U8S8", {}, 0.5, id="U8S8"),
    pytest.param("XINT8", {}, 0.6, id="XINT8"),
    pytest.param("FP16", {"bf16_qdq_to_cast": True}, 0.2, id="FP16"),
    pytest.param("BF16", {"bf16_qdq_to_cast": True}, 0.2, id="BF16"),
]


def _images(path, count=None):
    with np.load(path) as data:
        x, y = data["x"][:count], data["y"][:count]
    return ((x.astype(np.float32) / 255 - MEAN) / STD).astype(np.float32), y


def _logits(model, x):
    session = exact_session(model)
    return np.concatenate([ort.run(session, {"input": x[i : i + 100]})[0] for i in range(0, len(x), 100)])


@pytest.fixture(scope="module")
def resnet20(shared):
    return shared / "models" / "resnet20_cifar10.onnx"


@pytest.fixture(scope="module")
def calibration(shared):
    return _images(shared / "data" / "cifar10_calib.npz", 256)[0]


@pytest.fixture(scope="module")
def evaluation(shared):
    return _images(shared / "data" / "cifar10_eval.npz")


@pytest.fixture(scope="module")
def float_right(resnet20, evaluation):
    x, y = evaluation
    return _logits(resnet20, x).argmax(axis=1) == y


@pytest.mark.parametrize(("preset", "options", "bar"), BARS)
def test_resnet20_keeps_its_accuracy(resnet20, calibration, evaluation, float_right, preset, options, bar):
    result = quarkfast.quantize(resnet20, preset=preset, calibration_data=calibration, **options)
    onnx.checker.check_model(result.proto, full_check=True)
    x, y = evaluation
    right = _logits(result.model_bytes, x).argmax(axis=1) == y
    # Answers that are right in one model alone: were each drawn by a coin, their difference had this deviation.
    deviation = np.sqrt(np.count_nonzero(right != float_right))
    lost = np.count_nonzero(float_right) - np.count_nonzero(right)
    assert 100 * (lost - 2 * deviation) / len(y) <= bar


# What AMD Quark's preset of the same name gives in dB, on these images and with the same calibration data
# (docs/results/peers.md), less the half decibel that any of its formats may be ahead.
QUARK_SUPERRES = {"A8W8": 28.8, "A16W8": 29.5, "XINT8": 29.6, "BFP16": 38.7, "MX9": 40.7, "MX6": 20.2, "MXINT8": 35.2}


def _mosaics(path):
    with np.load(path) as stored:
        x = stored["x"][: 49 * 8].astype(np.float32) / 255
    grey = np.tensordot(np.float32([0.299, 0.587, 0.114]), x, axes=(0, 1))
    return np.ascontiguousarray(grey.reshape(-1, 7, 7, 32, 32).swapaxes(2, 3).reshape(-1, 1, 224, 224))


@pytest.mark.parametrize("preset", QUARK_SUPERRES)
def test_superres_keeps_at_least_what_quark_keeps(shared, preset):
    quarkfast.register_schemas()
    model = shared / "models" / "superres.onnx"
    calibration, x = (_mosaics(shared / "data" / f"cifar10_{name}.npz") for name in ("calib", "eval"))
    result = quarkfast.quantize(model, preset=preset, calibration_data=calibration, batch_size=4)
    expected, got = _logits(model, x), _logits(result.model_bytes, x)
    assert sqnr(expected, got) >= QUARK_SUPERRES[preset] - 0.5


@pytest.mark.parametrize("name", ["resnet20_cifar10", "resnet56_cifar10"])
def test_bfloat16_operators_and_casts_give_the_same_bytes_on_256_images(shared, evaluation, name):
    model, x = shared / "models" / f"{name}.onnx", evaluation[0][:256]
    results = [quarkfast.quantize(model, preset="BF16", bf16_qdq_to_cast=cast) for cast in (False, True)]
    operators, casts = (_logits(result.model_bytes, x) for result in results)
    assert operators.tobytes() == casts.tobytes()


def test_onnxruntime_fuses_every_convolution_of_u8s8(resnet20, calibration, tmp_path):
    """On every x86-64 processor, with VNNI and without: what is fused does not depend on it."""
    result = quarkfast.quantize(resnet20, preset="U8S8", calibration_data=calibration[:32])
    options = ort.session_options()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.inference_session(result.model_bytes, options)
    counts = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
    assert counts["QLinearConv"] == 19
    assert counts["QLinearAdd"] == 9
    assert counts["QGemm"] == 1
    assert counts["QLinearGlobalAveragePool"] == 1
    assert counts["Conv"] == counts["FusedConv"] == counts["Add"] == counts["Gemm"] == counts["Relu"] == 0


@pytest.mark.parametrize("name", ["superres", "magika", "mnist", "mobilenetv2_cifar10"])
@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "U8S8", "BF16"])
def test_other_real_models_pass_the_checker_and_run(shared, name, preset):
    model = shared / "models" / f"{name}.onnx"
    session = ort.inference_session(model)
    (wanted,) = [each for each in session.get_inputs() if each.name not in _initializers(model)]
    shape = [size if isinstance(size, int) else 1 for size in wanted.shape]
    rng = np.random.default_rng(5)
    is_bytes = "int32" in wanted.type
    x = rng.integers(0, 256, shape).astype(np.int32) if is_bytes else rng.standard_normal(shape).astype(np.float32)
    result = quarkfast.quantize(model, preset=preset, calibration_data=[{wanted.name: x}])
    if preset != "BF16":
        onnx.checker.check_model(result.proto, full_check=True)
    outputs = ort.run(ort.inference_session(result.model_bytes), {wanted.name: x})
    expected = ort.run(session, {wanted.name: x})
    assert [each.shape for each in outputs] == [each.shape for each in expected]
    assert all(np.isfinite(each).all() for each in outputs)


def _initializers(path):
    return {tensor.name for tensor in onnx.load(path).graph.initializer}
