from __future__ import annotations

import numpy as np
import pytest

from quarkfast.graph.load import load_model
from quarkfast.transforms.saturated_limits import remove_saturated_limits
from support.tiny_models import operators_of, tiny_model

TEXT = """g (float[N, 4] x) => (float[N, 4] y) {
    a = Neg (x) c = Clip (a, low, high) q = QuantizeLinear (c, scale, zero) y = DequantizeLinear (q, scale, zero)
}"""
FULL = {"low": np.float32(-64), "high": np.float32(63.5), "scale": np.float32(0.5), "zero": np.int8(0)}


def _removed(text=TEXT, **changed):
    given = {name: each for name, each in (FULL | changed).items() if each is not None}
    model = load_model(tiny_model(text, given))
    clips = [node for node in model.graph if node.op_type == "Clip"]
    assert remove_saturated_limits(model, clips) is ("Clip" not in operators_of(model))
    return model


def test_a_clip_to_the_last_codes_goes_and_leaves_its_name():
    model = _removed()
    assert operators_of(model) == ["Neg", "QuantizeLinear", "DequantizeLinear"]
    assert model.graph.node(0).outputs[0].name == "c"


@pytest.mark.parametrize("changed", [{"low": np.float32(-63.8)}, {"low": np.float32(-70)}, {"high": np.float32(80)}])
def test_limits_whose_codes_are_the_last_go(changed):
    assert "Clip" not in operators_of(_removed(**changed))


@pytest.mark.parametrize(
    "changed", [{"low": np.float32(-63)}, {"high": np.float32(60)}, {"zero": np.int8(-1)}, {"zero": np.uint8(0)}]
)
def test_a_clip_that_changes_codes_stays(changed):
    assert "Clip" in operators_of(_removed(**changed))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("=> (float[N, 4] y)", "=> (float[N, 4] y, float[N, 4] c)"),
        TEXT.replace("=> (float[N, 4] y)", "=> (float[N, 4] y, float[N, 4] a)"),
        TEXT.replace("a = Neg (x) c = Clip (a,", "c = Clip (x,"),
        TEXT.replace("q = Q", "n = Neg (c) q = Q").replace("=> (float[N, 4] y)", "=> (float[N, 4] y, float[N, 4] n)"),
    ],
)
def test_a_clip_that_others_read_stays(text):
    assert "Clip" in operators_of(_removed(text))
