"""Operands of layers that have another number of dimensions, or groups that do not divide their channels."""

import numpy as np
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from support.tiny_models import tiny_model

# Behind an operator that nobody knows, of whose result onnx infers nothing.
FAR = "g (float[N] x, bool b) => (float y) {{ u = Far (x) {} }}"
BODY = """y = If (b) <
    then_branch = yes () => (float p) { p = Conv (u, w) }, else_branch = no () => (float q) { q = Neg (x) }>"""
WRONG = {
    "kernel without places": ("y = Conv (u, w)", "conv_1", {"w": (8, 4)}, r"'w': expected at least 3 dimensions, got"),
    "computed": ("k = Neg (w) y = Conv (u, k)", "conv_2", {"w": ()}, r"'k': expected at least 3 dimensions, got"),
    "bias": ("y = Conv (u, w, b1)", "conv_1", {"w": (8, 4, 1, 1), "b1": (8, 1)}, r"'b1': expected 1 dimensions, got"),
    "groups": (
        "y = Conv <group = 3> (u, w)",
        "conv_1",
        {"w": (8, 4, 1, 1)},
        r"'w': expected a first axis that 3 groups",
    ),
    "body": (BODY, "Conv", {"w": (8, 4)}, r"'w': expected at least 3 dimensions, got shape \[8, 4\]"),
}


@pytest.mark.parametrize(("layer", "node", "shapes", "sentence"), WRONG.values(), ids=WRONG)
def test_an_operand_that_no_layer_takes_is_one_sentence(layer, node, shapes, sentence):
    model = tiny_model(FAR.format(layer), {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    model.graph.node[0].domain = "far"
    model.opset_import.add(domain="far", version=1)
    with pytest.raises(ModelError, match=f"node '{node}': tensor {sentence}"):
        load_model(model)
