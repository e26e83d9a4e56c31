"""What is found out once for several quantizations of the same model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.calibration import runner
from quarkfast.graph.load import load_model
from quarkfast.pipeline import calibration_source
from quarkfast.pipeline.cache import Cache
from support.quality_models import model, samples


def test_the_last_of_each_kind_is_found_once_for_the_same_model_and_question():
    found, known, loaded, asked = Cache(), [], load_model(model()), ("x", [1])

    def find(kind, where, question):
        return found.find(kind, where, question, lambda: known.append((kind, question)) or len(known))

    assert find("a", loaded, asked) == 1
    assert find("a", load_model(model()), ("x", [1])) == 1
    assert find("b", loaded, asked) == 2
    assert find("a", loaded, ("x", [2])) == 3
    assert find("b", loaded, asked) == 2
    assert find("a", loaded, asked) == 4  # the last alone is kept
    other = model()
    weight = other.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(np.zeros(weight.dims, np.float32), weight.name))
    assert find("a", load_model(other), asked) == 5


@pytest.mark.parametrize("weight_type", ["int8", "int16"])
def test_levers_that_leave_the_float_model_calibrate_once_and_give_the_same_bytes(monkeypatch, weight_type):
    runs, made = [], []
    calibrate, once = runner.calibrate_prepared, Cache.find

    def counted(run, *rest):
        runs.append(run.request)
        return calibrate(run, *rest)

    def forgetting(self, kind, where, asked, make):
        return make()

    monkeypatch.setattr(calibration_source, "calibrate_prepared", counted)
    for find in (once, forgetting):
        monkeypatch.setattr(Cache, "find", find)
        runs.clear()
        options = {"preset": "A8W8", "method": "minmse", "weight_type": weight_type, "min_sqnr": 35.0}
        result = quarkfast.quantize(model(), calibration_data=samples(), **options)
        made.append((len(runs), len(result.summary.levers), result.model_bytes))
    assert made[0][2] == made[1][2]
    assert made[1][0] >= made[0][1] > made[0][0]
