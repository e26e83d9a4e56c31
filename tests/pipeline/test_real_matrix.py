"""Every preset on three real models: the checker passes it, it runs, and its output is close to the float model's.

`test_default_sessions.py` runs all presets on all models, and `tests/recorded` holds their bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate.exact_sums import exact_session
from support.processors import run_exact

MODELS = ("resnet20_cifar10", "resnet56_cifar10", "mobilenetv2_cifar10", "superres", "magika", "mnist")
MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]

# Least signal-to-noise ratio of the outputs in dB: what was measured on the worst of the six models with 16 samples,
# less about 3 dB. A misplaced node or a wrong axis costs tens. Formats of 4 bits keep little more than the sign without
# tuning, so that they only have to run.
FLOORS = {
    "A8W8": 18, "A16W8": 18, "U8S8": 18, "DYNAMIC": 18, "XINT8": 15, "FP16": 40, "BF16": 35, "BFP16": 27, "MX9": 26,
    "MXINT8": 26, "MX6": 8, "MXFP6E2M3": 8, "MXFP8E4M3": 6, "MXFP8E5M2": 2, "MXFP6E3M2": 2, "MX4": None,
    "MXFP4E2M1": None,
}  # fmt: skip


# Three models of each preset in turn.
CELLS = sorted((MODELS[(i + step) % len(MODELS)], preset) for i, preset in enumerate(FLOORS) for step in (0, 1, 3))


@pytest.fixture(scope="module", autouse=True)
def _schemas():
    quarkfast.register_schemas()


def _samples(shared, path):
    proto = onnx.load(path)
    constants = {tensor.name for tensor in proto.graph.initializer}
    (wanted,) = [value for value in proto.graph.input if value.name not in constants]
    if "cifar10" in path.name:
        with np.load(shared / "data" / "cifar10_calib.npz") as data:
            x = ((data["x"][:16].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)
        return {wanted.name: x}
    shape = [size.dim_value or 2 for size in wanted.type.tensor_type.shape.dim]
    rng = np.random.default_rng(3)
    if wanted.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
        return {wanted.name: rng.random(shape, np.float32)}
    return {wanted.name: rng.integers(0, 256, shape).astype(np.int32)}


@cache
def _float(path):
    """Samples of a model and its output for them."""
    feed = _samples(path.parents[1], path)
    return feed, exact_session(path).run(None, feed)[0].astype(np.float64)


@pytest.mark.parametrize(("model", "preset"), CELLS)
def test_a_preset_passes_the_checker_runs_and_stays_close(shared, model, preset):
    path = shared / "models" / f"{model}.onnx"
    feed, expected = _float(path)
    result = quarkfast.quantize(path, preset=preset, calibration_data=feed)
    onnx.checker.check_model(result.proto, full_check=True)
    got = run_exact(result.model_bytes, feed)[0]
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    sqnr = 10 * np.log10(np.square(expected).sum() / np.square(expected - got).sum())
    assert FLOORS[preset] is None or sqnr > FLOORS[preset]
