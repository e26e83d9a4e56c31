"""What operators and attributes tell of rows: never that rows are apart where they are not."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from quarkfast.graph.batch_axis import keeps_rows_apart
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import tiny_model

RNG = np.random.default_rng(7)
CONSTANTS = {
    "w": RNG.normal(0, 1, (4, 4)).astype(np.float32),
    "tall": RNG.normal(0, 1, (3, 1, 1, 4)).astype(np.float32),
    "kernel": RNG.normal(0, 1, (3, 3, 1, 1)).astype(np.float32),
    "copied": np.int64([0, -1]),
    "all": np.int64([-1, 4]),
    "first": np.int64([0]),
    "second": np.int64([1]),
    "two": np.int64([2]),
    "table": RNG.normal(0, 1, (9, 4)).astype(np.float32),
    "pads": np.int64([0, 1, 0, 0, 0, 2]),
    "more": np.int64([0, 0, 0, 1, 0, 0]),
}
APART = {
    "elementwise": "y = Relu(x)",
    "a residual": "a = Relu(x) y = Add(a, x)",
    "a layer": "y = MatMul(x, w)",
    "attention": "t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) p = Softmax<axis = -1>(s) y = MatMul(p, x)",
    "flattened": "y = Flatten(x)",
    "a copied dimension": "y = Reshape(x, copied)",
    "a mean of each row": "y = ReduceMean<axes = [1, 2]>(x)",
    "joined features": "a = Relu(x) y = Concat<axis = 2>(x, a)",
    "a part of each": "y = Slice(x, first, two, second)",
    "padded features": "y = Pad(x, pads)",
    "a further axis": "y = Unsqueeze(x, second)",
    "parts": "a, b = Split<axis = 1>(x, halves) y = Sub(a, b)",
    "a vector of each": "y = Gather<axis = 1>(x, first)",
}
UNKNOWN = {
    "a mean over rows": "a = ReduceMean<axes = [0]>(x) y = Sub(x, a)",
    "a mean over all": "y = ReduceMean<keepdims = 0>(x)",
    "a Softmax over rows": "y = Softmax<axis = 0>(x)",
    "a Softmax over rows from behind": "y = Softmax<axis = -3>(x)",
    "joined rows": "a = Reshape(x, all) y = Flatten(a)",
    "turned": "y = Transpose<perm = [1, 0, 2]>(x)",
    "turned round": "y = Transpose(x)",
    "a constant in front": "y = Add(x, tall)",
    "rows of different ranks": "a = ReduceMean<axes = [1, 2], keepdims = 0>(x) b = Flatten(x) y = Sub(b, a)",
    "rows joined": "y = Concat<axis = 0>(x, x)",
    "a part of the rows": "y = Slice(x, first, second, first)",
    "a row in front": "b = Unsqueeze(x, first) y = Relu(b)",
    "one row for all": "y = Gather<axis = 0>(x, first)",
    "flattened whole": "y = Flatten<axis = 0>(x)",
    "added rows": "y = Pad(x, more)",
    "running sums": "y = CumSum(x, zero)",
    "a constant": "y = Identity(w)",
}


def _model(body):
    text = f"g (float[N, 6, 4] x) => (y) {{ {body} }}"
    constants = CONSTANTS | {"zero": np.int64(0), "halves": np.int64([3, 3])}
    return tiny_model(text, {name: value for name, value in constants.items() if name in body})


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_operators_that_take_each_row_by_itself_are_known(body):
    assert keeps_rows_apart(prepare(load_model(_model(body)), 17).graph)


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_what_is_known_to_keep_rows_apart_does(body):
    session = onnxruntime.InferenceSession(_model(body).SerializeToString())
    x = RNG.normal(0, 1, (5, 6, 4)).astype(np.float32)
    (whole,) = session.run(None, {"x": x})
    np.testing.assert_allclose(whole[3:4], session.run(None, {"x": x[3:4]})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_of_what_may_mix_rows_nothing_is_known(body):
    assert not keeps_rows_apart(prepare(load_model(_model(body)), 17).graph)


def test_training_batch_normalization_mixes_rows():
    body = "y, m, v = BatchNormalization<training_mode = {mode}>(x, s, b, b, s)"
    for mode, apart in ((0, True), (1, False)):
        heads = body.format(mode=mode) if mode else body.format(mode=0).replace(", m, v", "")
        arrays = {"s": np.ones(6, np.float32), "b": np.zeros(6, np.float32)}
        model = load_model(tiny_model(f"g (float[N, 6, 4] x) => (y) {{ {heads} }}", arrays))
        assert keeps_rows_apart(model.graph) is apart
