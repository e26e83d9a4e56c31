"""Sparse constants: dense in the result, with the same outputs, and a line that says so."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import quarkfast
from quarkfast import ort, tools
from quarkfast.config import PRESETS
from quarkfast.errors import ModelError
from quarkfast.evaluate.metrics import sqnr
from quarkfast.graph.load import load_model
from support.every_verb import run_every_verb, run_everywhere
from support.tiny_models import tiny_model

NUMBERS = np.random.default_rng(7).normal(size=40).astype(np.float32)
PLACES = np.sort(np.random.default_rng(8).permutation(256)[:40]).astype(np.int64)
X = {"x": np.random.default_rng(9).normal(size=(8, 16)).astype(np.float32)}
NOTE = "sparse constants are written dense, and those that nothing reads not at all: "


def _sparse(name="w", *, coordinates=False, shape=(16, 16), places=PLACES):
    indices = np.stack(np.unravel_index(places, shape), axis=1) if coordinates else places
    values, places = numpy_helper.from_array(NUMBERS, name), numpy_helper.from_array(indices, f"{name}_places")
    return helper.make_sparse_tensor(values, places, list(shape))


def _model(form):
    """A product by a sparse weight, whose places are one number or two; a constant of the graph, a node's, a body's."""
    text = "g (float[N, 16] x) => (float[N, 16] y) { h = MatMul (x, w) r = Relu (h) y = MatMul (r, w2) }"
    if form == "body":
        text = """g (float[N, 16] x, bool c) => (float[N, 16] y) { h = If (c) <
            then_branch = one () => (float[N, 16] o) { o = MatMul (x, w) },
            else_branch = other () => (float[N, 16] o) { o = Relu (x) }> y = MatMul (h, w2) }"""
    model = tiny_model(text, {"w2": np.random.default_rng(1).normal(0, 0.3, (16, 16)).astype(np.float32)})
    if form == "node":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=_sparse()))
    else:
        graph = model.graph.node[0].attribute[0].g if form == "body" else model.graph
        graph.sparse_initializer.append(_sparse(coordinates=form == "coordinates"))
    return model


FORMS = ["numbers", "coordinates", "node", "body"]


@pytest.mark.parametrize("form", FORMS)
def test_a_sparse_constant_has_the_values_that_it_stands_for(form):
    expected = np.zeros(256, np.float32)
    expected[PLACES] = NUMBERS
    before = _model(form)
    model = load_model(before)
    constants = [*model.graph.initializers.values(), *(node.outputs[0] for node in model.graph)]
    if form != "body":
        found = {value.name: value for value in constants}["w"]
        tensor = found.const_value if form != "node" else found.producer().attributes["value"].value
        np.testing.assert_array_equal(tensor.numpy(), expected.reshape(16, 16))
    assert before == _model(form)  # the caller's model stays as it is


@pytest.mark.parametrize(("preset", "form"), [(name, FORMS[i % 3]) for i, name in enumerate(PRESETS)])
def test_every_verb_takes_sparse_constants(preset, form, tmp_path):
    model = _model(form)
    result = run_every_verb(model, preset, X, tmp_path)
    assert [note for note in result.summary.notes if note.startswith("sparse")] == (
        [] if not result.summary.weights else [NOTE + "'w'"]
    )
    wanted, got = (run_everywhere(each, X)[0] for each in (model.SerializeToString(), result.model_bytes))
    assert sqnr(wanted, got) > 5  # of the types of fewest bits


@pytest.mark.parametrize("preset", ["INT8_WO", "A8W8", "BF16"])
def test_sparse_constants_of_bodies_are_kept(preset):
    feeds = [{**X, "c": np.array(branch)} for branch in (True, False)]
    result = quarkfast.quantize(_model("body"), preset=preset, calibration_data=feeds)
    assert NOTE + "'w'" in result.summary.notes
    for data in feeds:
        models = (_model("body").SerializeToString(), result.model_bytes)
        wanted, got = (ort.run(ort.inference_session(each), data)[0] for each in models)
        assert sqnr(wanted, got) > 15


def test_one_that_nothing_reads_is_named():
    model = tiny_model("g (float[N, 16] x) => (float[N, 16] y) { y = Relu (x) }")
    model.graph.sparse_initializer.append(_sparse("idle"))
    assert NOTE + "'idle'" in quarkfast.quantize(model, preset="BF16").summary.notes


def test_a_converter_says_so(tmp_path):
    found = tools.convert_operator_set(_model("numbers"), tmp_path / "out.onnx", 18)
    assert ("note", NOTE + "'w'") in found.facts
    assert not onnx.load(tmp_path / "out.onnx").graph.sparse_initializer


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        (
            _sparse(shape=(1 << 20, 1 << 20)),
            r"expected at most 268435456 bytes of sparse constants when dense, got 4398046511104",
        ),
        (_sparse(places=PLACES + 200), r"indices"),
    ],
    ids=["too large", "beyond its shape"],
)
def test_one_that_cannot_be_dense_is_refused(sparse, message):
    model = _model("body")
    model.graph.node[0].attribute[0].g.sparse_initializer[0].CopyFrom(sparse)
    with pytest.raises(ModelError, match=message):
        quarkfast.quantize(model, preset="BF16")


def test_text_is_refused():
    model = _model("numbers")
    values = helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])
    places = helper.make_tensor("p", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer[0].CopyFrom(onnx.SparseTensorProto(values=values, indices=places, dims=[16, 16]))
    with pytest.raises(ModelError, match=r"sparse constant 'w': expected numbers, got text"):
        load_model(model)


def test_one_in_files_is_read(tmp_path):
    model = _model("numbers")
    values = model.graph.sparse_initializer[0].values
    (tmp_path / "numbers").write_bytes(NUMBERS.tobytes())
    values.ClearField("raw_data")
    values.data_location = TensorProto.EXTERNAL
    values.external_data.add(key="location", value="numbers")
    onnx.save(model, tmp_path / "model.onnx")
    result = quarkfast.quantize(tmp_path / "model.onnx", preset="BF16")
    wanted, got = (run_everywhere(each, X)[0] for each in (_model("numbers").SerializeToString(), result.model_bytes))
    assert sqnr(wanted, got) > 30
