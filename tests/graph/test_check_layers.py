"""Constants of layers that have another number of dimensions, or groups that do not divide their channels."""

import numpy as np
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from support.tiny_models import tiny_model

MODEL = "g (float[N, K, H, W] x) => (float y) {{ y = {} }}"
WRONG = {
    "kernel without places": ("Conv (x, w)", {"w": (8, 4)}, r"'w': expected at least 3 dimensions, got shape \[8, 4\]"),
    "bias of two dimensions": ("Conv (x, w, b)", {"w": (8, 4, 1, 1), "b": (8, 1)}, r"'b': expected 1 dimensions, got"),
    "groups": ("Conv <group = 3> (x, w)", {"w": (8, 4, 1, 1)}, r"'w': expected a first axis that 3 groups divide"),
    "no groups": ("ConvTranspose <group = 0> (x, w)", {"w": (8, 4, 1, 1)}, r"'w': expected a first axis that 0 groups"),
}


@pytest.mark.parametrize(("layer", "shapes", "sentence"), WRONG.values(), ids=WRONG)
def test_a_constant_that_no_layer_takes_is_one_sentence(layer, shapes, sentence):
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ModelError, match=f"node '{layer.split()[0].lower()}_0': tensor {sentence}"):
        load_model(tiny_model(MODEL.format(layer), arrays))


def test_constants_of_bodies_are_held_against_the_same():
    text = """g (float[N, K, H, W] x, bool b) => (float y) { y = If (b) <
        then_branch = yes () => (float p) { p = Conv (x, w) }, else_branch = no () => (float q) { q = Neg (x) }> }"""
    with pytest.raises(ModelError, match="node 'Conv': tensor 'w': expected at least 3 dimensions"):
        load_model(tiny_model(text, {"w": np.ones((8, 4), np.float32)}))
