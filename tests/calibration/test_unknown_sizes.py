"""Dimensions that are declared as -1 or 0: exporters write them for sizes that they do not know."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.calibration.data import RandomDataReader, model_inputs
from quarkfast.graph.load import load_model
from support.tiny_models import conv_relu_model, samples


def _declared(*sizes: int | str) -> onnx.ModelProto:
    """Returns the small model with other sizes in the declared shape of its input."""
    model = conv_relu_model()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, sizes, strict=True):
        dim.ClearField("value")
        if isinstance(size, int):
            dim.dim_value = size
        else:
            dim.dim_param = size
    return model


@pytest.mark.parametrize("unknown", [-1, 0, -7])
def test_a_size_that_is_not_positive_is_unknown(unknown):
    loaded = load_model(_declared(unknown, 3, unknown, "W"))
    assert model_inputs(loaded)[0].shape == (None, 3, None, "W")


@pytest.mark.parametrize("unknown", [-1, 0])
@pytest.mark.parametrize(
    "data", [samples(), RandomDataReader(samples=8, shapes={"x": (1, 3, 8, 8)}), "random"], ids=type
)
def test_a_model_with_unknown_sizes_is_calibrated(unknown, data):
    result = quarkfast.quantize(_declared(unknown, 3, unknown, unknown), preset="U8S8", calibration_data=data)
    assert result.summary.samples == 8
    session = ort.inference_session(result.model_bytes)
    assert ort.run(session, {"x": samples(2)})[0].shape == (2, 3, 8, 8)


@pytest.mark.parametrize("unknown", [-1, 0])
def test_it_is_quantized_like_the_model_that_names_the_size(unknown):
    given = [_declared(size, 3, 8, 8) for size in ("N", unknown)]
    named, other = (quarkfast.quantize(model, calibration_data=samples()).proto.graph for model in given)
    assert list(other.node) == list(named.node)
    assert list(other.initializer) == list(named.initializer)


@pytest.mark.parametrize("unknown", [-1, 0])
def test_batches_are_joined_and_cut(unknown):
    calibration = quarkfast.calibrate(_declared(unknown, 3, 8, 8), samples(), batch_size=3)
    assert (calibration.samples, calibration.runs) == (8, 3)


def test_the_compiler_of_the_npu_is_told_of_as_an_open_shape():
    result = quarkfast.quantize(_declared(1, 3, 0, 8), preset="XINT8", calibration_data=samples())
    (finding,) = (each for each in result.summary.preflight if each.startswith("input 'x'"))
    assert "its shape [1,3,?,8] is open in ?" in finding


def test_an_empty_constant_keeps_its_size():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 1, 4, 4] x, float[0] regions = {}) => (float[N, 1, 8, 8] y) <float[4] scales = {1, 1, 2, 2}> {
            y = Resize <mode = "nearest"> (x, regions, scales)
        }"""
    )
    loaded = load_model(model)
    assert [list(value.shape) for value in loaded.graph.inputs] == [[loaded.graph.inputs[0].shape[0], 1, 4, 4], [0]]


@pytest.mark.parametrize("preset", ["A8W8", "XINT8", "DYNAMIC"])
def test_a_model_from_the_wild_with_minus_one_rows_is_calibrated(shared, preset):
    with np.load(shared / "data" / "text_lines.npz") as data:
        images = data["images"][:4, ..., :192].astype(np.float32) / np.float32(127.5) - 1
    result = quarkfast.quantize(shared / "models" / "ppocr_cls.onnx", preset=preset, calibration_data=images)
    assert result.summary.samples in (0, 4)
    outputs = ort.run(ort.inference_session(result.model_bytes), {"x": images})[0]
    assert outputs.shape == (4, 2)
