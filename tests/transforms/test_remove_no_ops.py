from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import operators_of, tiny_model

# As exporters write it where the author calls `to`: two Casts to float32 of what is float32.
CASTS = """g (float[N, 4] x) => (float[N, 4] y) {
    a = Cast <to = 1> (x)
    b = Relu (a)
    y = Cast <to = 1> (b)
}"""

# A head that pads its logits by as many masked ones as the author asked for, here none.
PADDED = """g (float[N, 6, 4] x) => (float[N, 6, 4] y) {
    p = MatMul (x, w)
    s = Shape (x)
    n = Gather (s, first)
    u = Unsqueeze (n, axes)
    d = Concat <axis = 0> (u, count, last)
    z = ConstantOfShape <value = float[1] {1.0}> (d)
    m = Mul (z, low)
    y = Concat <axis = 1> (p, m)
}"""


def _padded(count):
    arrays = {
        "w": np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32), "low": np.float32(-1e9),
        "first": np.int64(0), "axes": np.int64([0]), "count": np.int64([count]), "last": np.int64([4]),
    }  # fmt: skip
    model = tiny_model(PADDED, arrays)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 6 + count
    return model


def _same(model, prepared):
    feed = {"x": np.random.default_rng(6).normal(size=(2, 6, 4)).astype(np.float32)}
    if len(model.graph.input[0].type.tensor_type.shape.dim) == 2:
        feed = {"x": feed["x"][:, 0]}
    one, other = (
        ort.run(ort.inference_session(each.SerializeToString()), feed)[0] for each in (model, to_proto(prepared))
    )
    np.testing.assert_array_equal(one, other)


def test_casts_to_the_type_that_a_tensor_has_are_taken_out():
    model = tiny_model(CASTS)
    prepared = prepare(load_model(model), 13)
    assert operators_of(prepared) == ["Relu"]
    assert [value.name for value in prepared.graph.outputs] == ["y"]
    _same(model, prepared)


def test_casts_to_another_type_stay():
    text = CASTS.replace("a = Cast <to = 1>", "a = Cast <to = 11>")
    assert operators_of(prepare(load_model(tiny_model(text)), 13)) == ["Cast", "Relu", "Cast"]


def test_a_part_without_elements_is_taken_out_of_a_concat_with_what_computes_it():
    model = _padded(0)
    prepared = prepare(load_model(model), 13)
    assert operators_of(prepared) == ["MatMul"]
    _same(model, prepared)


@pytest.mark.parametrize("count", [1, 3])
def test_a_part_with_elements_stays(count):
    prepared = prepare(load_model(_padded(count)), 13)
    assert operators_of(prepared)[-3:] == ["ConstantOfShape", "Mul", "Concat"]


def test_what_is_left_of_several_parts_stays_in_order():
    text = """g (float[N, 2, 4] x) => (float[N, 4, 4] y) {
        a = Relu (x)
        b = Abs (x)
        y = Concat <axis = -2> (a, none, b)
    }"""
    prepared = prepare(load_model(tiny_model(text, {"none": np.zeros((1, 0, 4), np.float32)})), 13)
    assert operators_of(prepared) == ["Relu", "Abs", "Concat"]
    assert [value.name for value in list(prepared.graph)[-1].inputs] == ["a", "b"]


def test_powers_of_two_follow_the_values_and_not_an_empty_mask():
    """The mask had a scale for -1e9, and all parts of a Concat have one scale: every logit was 0."""
    model, rng = _padded(0), np.random.default_rng(8)
    feeds = [{"x": each} for each in rng.normal(size=(8, 1, 6, 4)).astype(np.float32)]
    summary = str(quarkfast.quantize(model, None, "XINT8", feeds).summary)
    assert "no finite value" not in summary
    assert float(summary.split("measured SQNR: 'y' ")[1].split()[0]) > 20
