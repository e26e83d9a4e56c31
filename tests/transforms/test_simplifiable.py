"""Where the optimizer is not loaded it would have changed nothing."""

import numpy as np
import pytest
from onnxscript.optimizer import fold_constants_ir
from onnxscript.optimizer._constant_folding import registry

from quarkfast.graph.load import load_model
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.optimizer import _SIMPLIFIED, may_simplify, type_casts
from support.tiny_models import tiny_model

SIZES = {
    "sizes": np.int64([2, 3, 4]),
    "flat": np.int64([6, 4]),
    "first": np.int64([0]),
    "last": np.int64([2]),
    "one": np.int64(1),
}
CONSTANTS = SIZES | {"yes": np.bool_(True), "none": np.zeros((2, 3, 0), np.float32)}
SIMPLIFIED = [
    "r = Abs (sizes)",
    "r = Cast <to = 1> (x)",
    "c = Cast <to = 1> (i) \n r = Cast <to = 1> (c)",
    "c = Cast <to = 11> (x) \n r = Cast <to = 11> (c)",
    "r = CastLike (x, d)",
    "r = Concat <axis = 0> (x)",
    "r = Concat <axis = -1> (x, none)",
    "r = Dropout (x)",
    "r = Expand (x, sizes)",
    "a = Identity (x) \n r = Neg (a)",
    "r = If (yes) <then_branch = t () => (float[2] s) {s = Neg (x)}, else_branch = e () => (float[2] s) {s = Abs (x)}>",
    "r = Reshape (x, sizes)",
    "s = Shape (o) \n f = Gather <axis = 0> (s, first) \n r = Abs (f)",
    "s = Shape (o) \n r = Reshape (o, s)",
    "s = Shape (o) \n t = Squeeze (s) \n r = Expand (o, t)",
    "s = Size (x) \n r = Neg (s)",
    "s = SequenceConstruct (x, d) \n r = SequenceAt (s, one)",
    "s = SequenceConstruct (x, d) \n r = ConcatFromSequence <axis = 0> (s)",
    "s = SplitToSequence <axis = 1> (x, one) \n r = SequenceAt (s, one)",
    "t = Reshape (sizes, open) \n u = Add (t, t) \n r = Reshape (x, t)",
]
KEPT = [
    "r = Abs (x)",
    "r = Add (x, d)",
    "r = Cast <to = 1> (i)",
    "c = Cast <to = 7> (x) \n r = Cast <to = 1> (c)",
    "n = Neg (x) \n r = Cast <to = 1> (n)",
    "r = Concat <axis = 1> (x, d)",
    "n = Neg (x) \n r = Concat <axis = 1> (d, n)",
    "r = Concat <axis = 0> (sizes, open)",
    "r = Expand (x, open)",
    "n = Neg (x) \n r = Expand (n, sizes)",
    "r = Gather <axis = 0> (open, first)",
    "r = Gather <axis = 0> (sizes, open)",
    "r = If (no) <then_branch = t () => (float[2] s) {s = Neg (x)}, else_branch = e () => (float[2] s) {s = Abs (x)}>",
    "r = Reshape (x, flat)",
    "r = Reshape (x, open)",
    "n = Neg (x) \n r = Reshape (n, sizes)",
    "n = Neg (o) \n s = Shape (n) \n f = Gather <axis = 0> (s, first) \n a = Abs (f) \n r = Reshape (x, a)",
    "n = Neg (o) \n s = Size (n) \n r = Abs (s)",
    "s = Shape (o) \n c = Cast <to = 1> (s) \n r = Abs (c)",
    "s = Shape (o) \n f = Slice (s, first, last) \n r = Abs (f)",
    "r = Squeeze (x)",
]


def _model(text):
    inputs = "float[2, 3, 4] x, float[2, 3, 4] d, float[N, 3] o, int32[2] i, int64[1] open, bool no"
    used = {name: np.asarray(array) for name, array in CONSTANTS.items() if name in text}
    return load_model(tiny_model(f"g ({inputs}) => (float[M] y) {{ {text} \n y = Relu (r) }}", used, 18))


def _may_fold(text):
    model = _model(text)
    type_casts(model)
    return any(map(may_simplify, nodes_of(model.graph)))


def _folds(text):
    return fold_constants_ir(_model(text)).modified


@pytest.mark.parametrize("text", SIMPLIFIED)
def test_what_the_optimizer_simplifies_makes_it_run(text):
    assert _may_fold(text)
    assert _folds(text)


@pytest.mark.parametrize("text", KEPT)
def test_what_is_said_to_stay_stays(text):
    assert not _may_fold(text)
    assert not _folds(text)


def test_constant_nodes_alone_are_lifted_without_the_optimizer(monkeypatch):
    """Such as onnx's converter writes where axes have become an input."""
    model = _model("axes = Constant <value_ints = [-1]> () \n r = ReduceMean (x, axes)")
    monkeypatch.setattr("quarkfast.transforms.fold_constants.optimize", lambda *_: pytest.fail("it was run"))
    assert fold_constants(model)
    assert [node.op_type for node in model.graph] == ["ReduceMean", "Relu"]


def test_every_operator_that_the_optimizer_knows_has_a_row_or_a_reason():
    # These depend on constants, or on what is noted of other operators.
    noted = {"Abs", "Add", "Gather", "If"}
    assert {name for domain, name in registry.op_evaluators} == set(_SIMPLIFIED) | noted


def test_what_a_cast_returns_is_of_the_type_that_it_names():
    model = _model("n = Neg (i) \n r = Cast <to = 1> (n)")
    type_casts(model)
    assert [str(node.outputs[0].type) for node in model.graph][:2] == ["None", "FLOAT"]
