from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import samples, tiny_model

TEXT = """g (float[N, 3, 8, 8] x) => (float[N, 4, 6, 6] y) {
    c = Conv (x, w)
    y = Add (c, b)
}"""


def _arrays(shape):
    rng = np.random.default_rng(5)
    return {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(size=shape).astype(np.float32),
    }


def _operators(model):
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1)])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace("c, b", "b, c")])
def test_what_is_added_to_each_channel_becomes_a_bias(shape, text):
    proto = tiny_model(text, _arrays(shape))
    model = prepare(load_model(proto), 13)
    assert _operators(model) == ["Conv"]
    assert model.graph.node(0).inputs[2].const_value.shape == (4,)
    assert [value.name for value in model.graph.outputs] == ["y"]
    once = serialize(model)
    # onnxruntime fuses the Add of the first model in the same way, so that both compute one thing.
    found, expected = (
        onnxruntime.InferenceSession(each).run(None, {"x": samples()})[0] for each in (once, proto.SerializeToString())
    )
    np.testing.assert_array_equal(found, expected)
    assert serialize(prepare(model, 13)) == once


@pytest.mark.parametrize("shape", [(1,), (6,), (4, 6, 6), (4, 1, 6)])
def test_what_differs_from_place_to_place_stays_an_addition(shape):
    assert _operators(prepare(load_model(tiny_model(TEXT, _arrays(shape))), 13)) == ["Conv", "Add"]


def test_a_layer_that_has_a_bias_or_another_reader_keeps_its_addition():
    arrays = _arrays((4, 1, 1))
    biased = tiny_model(TEXT.replace("(x, w)", "(x, w, v)"), arrays | {"v": np.ones(4, np.float32)})
    read = tiny_model(TEXT.replace("y = Add (c, b)", "a = Add (c, b)\n    y = Mul (a, c)"), arrays)
    assert _operators(prepare(load_model(biased), 13)) == ["Conv", "Add"]
    assert _operators(prepare(load_model(read), 13)) == ["Conv", "Add", "Mul"]
    shared = TEXT.replace("float[N, 4, 6, 6] y)", "float[N, 4, 6, 6] y, float[N, 4, 6, 6] c)")
    assert _operators(prepare(load_model(tiny_model(shared, arrays)), 13)) == ["Conv", "Add"]


def test_a_constant_that_is_added_twice_becomes_two_biases():
    text = """g (float[N, 3, 8, 8] x) => (float[N, 4, 6, 6] y) {
        c = Conv (x, w)
        d = Conv (x, v)
        e = Add (c, b)
        f = Add (d, b)
        y = Mul (e, f)
    }"""
    arrays = _arrays((4, 1, 1))
    model = prepare(load_model(tiny_model(text, arrays | {"v": -arrays["w"]})), 13)
    assert _operators(model) == ["Conv", "Conv", "Mul"]
    assert len({node.inputs[2].name for node in model.graph if node.op_type == "Conv"}) == 2
