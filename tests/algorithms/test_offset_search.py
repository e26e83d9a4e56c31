from __future__ import annotations

import numpy as np
import pytest

from quarkfast.algorithms.offset_groups import find_offset_groups
from quarkfast.algorithms.offset_search import find_shifts, reach_of
from quarkfast.config import TensorSpec
from quarkfast.graph.load import load_model
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import tiny_model

BLOCK = """g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {
    a = Conv (x, w0, b) r = Relu (a) c = Conv (r, w1, b) s = Add (c, r) u = Relu (s)
    g = GlobalAveragePool (u) p = Add (u, g) y = Conv (p, w2, b)
}"""
INT8 = TensorSpec("int8")


def _block():
    arrays = {name: np.ones((4, 4, 1, 1), np.float32) for name in ("w0", "w1", "w2")} | {"b": np.ones(4, np.float32)}
    model = prepare(load_model(tiny_model(BLOCK, arrays)), 13)
    return find_offset_groups(model.graph), {value.name: value for node in model.graph for value in node.outputs}


def _find(ranges):
    groups, values = _block()
    reaches = {values[name]: reach_of(values[name], Range(*each, 100, 0, 0, 0), INT8) for name, each in ranges.items()}
    found = find_shifts(groups, reaches)
    offsets = {} if found is None else {name: found.offsets.get(groups.of(values[name]), 0.0) for name in values}
    return found, offsets, {value.name: reach for value, reach in reaches.items()}


def _scale(reach, offset):
    low, high = reach.shifted(offset)
    return max(-low, high) / 127


def test_a_relu_alone_gets_half_the_scale_and_its_limit_the_last_code():
    found, offsets, reaches = _find({"r": (0.0, 6.0)})
    assert found.gain == pytest.approx((255 / 127) ** 2, rel=1e-5)  # of the squared scale
    scale = _scale(reaches["r"], offsets["r"])
    assert scale == pytest.approx(6 / 255, rel=1e-5)
    assert round(offsets["r"] / scale) == 128


def test_the_offset_of_a_sum_is_that_of_its_terms():
    _, offsets, reaches = _find({"r": (0.0, 6.0), "c": (-5.0, 3.0), "u": (0.0, 9.0)})
    assert offsets["s"] == offsets["u"] == pytest.approx(offsets["r"] + offsets["c"], rel=1e-6)
    before, after = (
        sum(_scale(reach, offset) ** 2 for reach, offset in zip(reaches.values(), each, strict=True))
        for each in ([0.0, 0.0, 0.0], [offsets[name] for name in reaches])
    )
    assert after < before / 2


def test_a_limit_between_codes_is_moved_onto_one():
    found, offsets, reaches = _find({"u": (0.0, 9.0), "g": (0.0, 1.0)})
    code = offsets["u"] / _scale(reaches["u"], offsets["u"])
    assert found is not None
    assert 0 < round(code) < 128
    assert code == pytest.approx(round(code), abs=1e-4)  # offsets are of float32, and codes up to 128


def test_nothing_is_to_be_gained_where_ranges_lie_about_zero():
    found, _, _ = _find({"c": (-5.0, 5.0)})
    assert found is None
    assert _find({})[0] is None


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("uint8", symmetric=False),
        TensorSpec("int16"),
        TensorSpec("int8", scale="power_of_two"),
        TensorSpec("bfloat16"),
    ],
)
def test_other_codes_have_no_reach(spec):
    _, values = _block()
    assert reach_of(values["r"], Range(0.0, 6.0, 100, 0, 0, 0), spec) is None


def test_a_tensor_without_values_has_no_reach():
    _, values = _block()
    for low, high in ((np.inf, -np.inf), (0.0, 0.0)):
        assert reach_of(values["r"], Range(low, high, 100, 0, 0, 0), INT8) is None
