"""The embedded model is what its training script says."""

import numpy as np
import onnx
import onnxruntime
import pytest

from quarkfast.demo.data import DATA, INPUT_NAME, MODEL, load_images, recorded_top1
from tools.demo_model.export import OPSET, parameters_from_onnx, to_onnx
from tools.demo_model.layers import Sequential
from tools.demo_model.network import build

# The float32 passes of NumPy and of onnxruntime round the same sums in different orders, so each lies about as far
# from the float64 pass as the other; four times NumPy's own distance leaves room for onnxruntime's folded BatchNorm.
ROUNDING_FACTOR = 4
WHEEL_LIMIT_BYTES = 300_000


@pytest.fixture(scope="module")
def network() -> Sequential:
    network = build(np.random.default_rng(0))
    parameters_from_onnx(network, onnx.load(MODEL))
    return network


@pytest.fixture(scope="module")
def logits() -> np.ndarray:
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    return session.run(None, {INPUT_NAME: load_images().test})[0]


def test_the_stored_model_reaches_its_recorded_accuracy_in_onnxruntime(logits: np.ndarray) -> None:
    top1 = 100 * (logits.argmax(axis=1) == load_images().labels).mean()
    assert top1 == pytest.approx(recorded_top1(), abs=1e-9)
    assert top1 >= 98


def test_the_training_scripts_forward_pass_equals_the_stored_model(network: Sequential, logits: np.ndarray) -> None:
    x = load_images().test
    exact = network.forward(x.astype(np.float64), training=False)
    rounding = np.abs(network.forward(x, training=False) - exact).max()
    assert 0 < rounding < 1e-4
    assert np.abs(logits - exact).max() <= ROUNDING_FACTOR * rounding


def test_exporting_the_stored_weights_writes_the_stored_file(network: Sequential) -> None:
    stored, written = onnx.load(MODEL), to_onnx(network)
    assert written.graph == stored.graph
    assert [(o.domain, o.version) for o in stored.opset_import] == [("", OPSET)]


def test_the_model_looks_like_a_convolutional_network_that_people_quantize() -> None:
    nodes = onnx.load(MODEL).graph.node
    assert {"Conv", "BatchNormalization", "Relu", "Add", "GlobalAveragePool", "Gemm"} <= {n.op_type for n in nodes}
    groups = [onnx.helper.get_node_attr_value(n, "group") for n in nodes if n.op_type == "Conv"]
    assert max(groups) > 1, "no depthwise convolution"


def test_model_and_images_fit_in_300_kilobytes() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir() if path.is_file()) < WHEEL_LIMIT_BYTES


def test_calibration_images_are_not_test_images() -> None:
    images = load_images()
    calibration = {image.tobytes() for image in images.calibration}
    assert not any(image.tobytes() in calibration for image in images.test)
