"""Tables of ranges from ONNX Runtime and Quark."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import CalibrationCacheEncoder, CalibrationMethod, TensorsData

import quarkfast
from quarkfast import Calibration
from quarkfast.errors import CalibrationError
from support.tiny_models import conv_relu_model, samples

RANGES = {"x": (-4.0, 4.0), "r1": (0.0, 2.5), "c2": (-3.0, 1.0), "y": (-5.0, 5.0)}


def _write(tmp_path, document, **options):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(document, **options))
    return path


def _documents():
    tensors = TensorsData(CalibrationMethod.MinMax, {n: tuple(map(np.float32, pair)) for n, pair in RANGES.items()})
    arrays = TensorsData(
        CalibrationMethod.MinMax, {n: tuple(np.float32([v]) for v in pair) for n, pair in RANGES.items()}
    )
    return {
        "quark": {"quark_version": "0.13", "tensors_range": RANGES, "model_to_finetune": "m.onnx"},
        "onnxruntime": tensors,
        "onnxruntime arrays": arrays,
        "onnxruntime dict": arrays.data,
        "pairs": RANGES,
    }


@pytest.mark.parametrize("kind", list(_documents()))
def test_a_table_gives_its_ranges(tmp_path, kind):
    path = _write(tmp_path, _documents()[kind], cls=CalibrationCacheEncoder)
    loaded = Calibration.load(path)
    assert {name: (each.min, each.max) for name, each in loaded.ranges.items()} == RANGES
    assert loaded.key is None
    result = quarkfast.quantize(conv_relu_model(), calibration=path)
    scales = {value.name: value for value in result.proto.graph.initializer}
    assert np.isclose(onnx_scale(scales, "r1"), 2.5 / 127)


def test_ranges_of_another_tool_are_those_of_the_model_as_it_is(tmp_path):
    path = _write(tmp_path, {"tensors_range": RANGES})
    results = [quarkfast.quantize(conv_relu_model(), calibration=path, equalize=choice) for choice in (True, False)]
    codes = [{each.name: each.raw_data for each in result.proto.graph.initializer} for result in results]
    assert codes[0] == codes[1]


def onnx_scale(initializers, tensor):
    import onnx

    (name,) = (name for name in initializers if name.startswith(tensor) and "scale" in name)
    return onnx.numpy_helper.to_array(initializers[name])


@pytest.mark.parametrize("document", [3, [], {}, {"tensors_range": {}}], ids=str)
def test_other_json_is_one_sentence(tmp_path, document):
    message = (
        "calibration: expected a calibration of quarkfast or a table of ONNX Runtime or Quark at .*, got other JSON"
    )
    with pytest.raises(CalibrationError, match=message):
        Calibration.load(_write(tmp_path, document))


@pytest.mark.parametrize(
    "entry", [3, [1], [1, "a"], [1, None], {"lowest": 1}, [[1, 2], 3], [float("inf"), 1], [10**400, 1]], ids=str
)
def test_an_entry_that_is_no_range_is_one_sentence(tmp_path, entry):
    message = "calibration: expected the least and the greatest value of tensor 'x' at .*, got"
    with pytest.raises(CalibrationError, match=message):
        Calibration.load(_write(tmp_path, {"tensors_range": {"x": entry}}))


def test_a_table_without_a_tensor_of_the_model_is_one_sentence(tmp_path):
    path = _write(tmp_path, {"tensors_range": {"x": [0, 1], "y_": [0, 1]}})
    with pytest.raises(CalibrationError, match=r"expected statistics of tensor '\w+', got 2 others"):
        quarkfast.quantize(conv_relu_model(), calibration=path)


def test_a_table_does_not_merge(tmp_path):
    table = Calibration.load(_write(tmp_path, RANGES))
    with pytest.raises(
        CalibrationError, match="merge: expected calibrations with statistics, got a table of ranges of"
    ):
        quarkfast.calibrate(conv_relu_model(), samples()).merge(table)
