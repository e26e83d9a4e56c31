from __future__ import annotations

import numpy as np
import pytest

from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import operators_of, tiny_model

# As exporters write a loop over octaves that puts each in front of those before.
LOOP = """g (float[N, 4, 3] x) => (float[N, P, 3] y) {
    a = Relu (x)
    b = Neg (x)
    c = Abs (x)
    ab = Concat <axis = 1> (b, a)
    abc = Concat <axis = -2> (c, ab)
    y = Concat <axis = 1> (x, abc)
}"""

ANOTHER_AXIS = """g (float[N, 4, 3] x) => (float[N, 8, 6] y) {
    a = Relu (x)
    aa = Concat <axis = 1> (a, x)
    y = Concat <axis = 2> (aa, aa)
}"""


def _prepared(text):
    """Returns a model as it is quantized, and makes sure that it computes what the text does."""
    model = tiny_model(text, {})
    prepared = prepare(load_model(model), 13)
    feed = {"x": np.random.default_rng(6).normal(size=(2, 4, 3)).astype(np.float32)}
    both = (ort.run(ort.inference_session(each.SerializeToString()), feed) for each in (model, to_proto(prepared)))
    for had, has in zip(*both, strict=True):
        np.testing.assert_array_equal(had, has)
    return prepared


def test_concats_along_one_axis_become_one():
    prepared = _prepared(LOOP)
    assert operators_of(prepared) == ["Relu", "Neg", "Abs", "Concat"]
    assert [value.name for value in prepared.graph.node(3).inputs] == ["x", "c", "b", "a"]
    assert [value.name for value in prepared.graph.outputs] == ["y"]


@pytest.mark.parametrize(
    "text",
    [
        LOOP.replace("[N, P, 3] y", "[N, P, 3] y, float[N, 8, 3] ab"),  # an output
        LOOP.replace("(x, abc)", "(ab, abc)"),  # another Concat reads it
        LOOP.replace("(c, ab)", "(ab, ab)"),  # that one reads it twice
        ANOTHER_AXIS,
    ],
    ids=["output", "two readers", "twice", "axis"],
)
def test_a_concat_stays_that_something_else_needs(text):
    assert operators_of(_prepared(text)).count("Concat") == 2
