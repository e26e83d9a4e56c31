from __future__ import annotations

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.transforms.settle_limits import settle_limits
from support.tiny_models import arrays_of, tiny_model

TEXT = """g (float[N, 4] x) => (float[N, 4] y) {
    a = Neg (x) c = Clip (a, low, high) q = QuantizeLinear (c, scale, zero) y = DequantizeLinear (q, scale, zero)
}"""
# A scale that float32 does not hold exactly, so that 128 of it are not what float64 says.
STEP = np.float32(0.1)
FULL = {"low": np.float32(-12.8), "high": np.float32(12.7), "scale": STEP, "zero": np.int8(0)}


def _settled(text=TEXT, **changed):
    given = {name: each for name, each in (FULL | changed).items() if name in text}
    model = load_model(tiny_model(text, given))
    found = settle_limits([node for node in model.graph if node.op_type == "Clip"])
    arrays = arrays_of(model)
    assert found is any(arrays[name] != given[name] for name in ("low", "high") if name in given)
    return tuple(float(arrays[name]) if name in given else None for name in ("low", "high"))


def test_limits_at_the_ends_of_codes_are_what_runtimes_compute_of_these():
    assert _settled() == (float(np.float32(-128) * STEP), float(np.float32(127) * STEP))


@pytest.mark.parametrize("low", [-12.77, -13.0, -100.0])
def test_a_limit_whose_code_is_the_first_moves_onto_it(low):
    assert _settled(low=np.float32(low))[0] == float(np.float32(-128) * STEP)


def test_a_limit_that_changes_codes_stays():
    assert _settled(low=np.float32(-12.0), high=np.float32(6.0)) == (-12.0, 6.0)


def test_a_zero_point_counts():
    assert _settled(low=np.float32(-12.8), zero=np.int8(-8))[0] == float(np.float32(-120) * STEP)


def test_one_limit_alone_is_settled():
    assert _settled(TEXT.replace(", high)", ")")) == (float(np.float32(-128) * STEP), None)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("=> (float[N, 4] y)", "=> (float[N, 4] y, float[N, 4] c)"),
        TEXT.replace("q = Q", "n = Neg (c) q = Q").replace("=> (float[N, 4] y)", "=> (float[N, 4] y, float[N, 4] n)"),
    ],
)
def test_a_clip_that_others_read_keeps_its_limits(text):
    assert _settled(text, low=np.float32(-100.0))[0] == -100.0
