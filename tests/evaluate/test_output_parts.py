"""Outputs that join scores and boxes are judged in two parts."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

from quarkfast import ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.output_parts import OutputParts, judge_parts
from quarkfast.evaluate.pair_trial import PairTrial
from support.judged import judged

# Two levels of one box and one score each, as a detector joins them.
HEAD = """<ir_version: 10, opset_import: ["": 17]>
g (float[N, 2, 3] x) => (float[N, 12, 2] y, float[N, 2, 3] other) {
    box = Mul (x, scale)
    made = Sigmoid (x)
    score = Identity (made)
    one = Concat <axis = 1> (box, score)
    two = Concat <axis = 1> (score, box)
    all = Concat <axis = 1> (one, two)
    wide = Reshape (all, shape)
    y = Transpose <perm = [0, 2, 1]> (wide)
    other = Neg (x)
}"""
SHAPE = np.array([0, 2, 12], np.int64)
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 2, 3)


def head(text: str = HEAD) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    scale = np.array(100, onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    for name, value in (("shape", SHAPE), ("scale", scale)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def outputs(x: np.ndarray) -> dict[str, np.ndarray]:
    box, score = 100 * x, 1 / (1 + np.exp(-x))
    joined = np.concatenate([box, score, score, box], axis=1)
    return {"y": joined.reshape(len(x), 2, 12).transpose(0, 2, 1), "other": -x}


@pytest.mark.parametrize("kind", ["float", "float16"])
def test_scores_are_told_from_boxes_through_moves(kind):
    x = X.astype({"float": np.float32, "float16": np.float16}[kind])
    feeds = [{"x": x[:1]}, {"x": x}]
    runs = [outputs(feed["x"]) for feed in feeds]
    text = re.sub(r"\bfloat\b", kind, HEAD)
    parts = OutputParts(head(text), feeds, runs[0])
    for sample, (feed, run) in enumerate(zip(feeds, runs, strict=True)):
        boxes, scores = parts.split(sample, "y", run["y"])
        assert np.abs(scores - 0.5).max() < 0.5
        assert np.array_equal(np.sort(boxes), np.sort(np.tile(100 * feed["x"].ravel(), 2)))
        (whole,) = parts.split(sample, "other", run["other"])
        assert np.array_equal(whole, run["other"].ravel())


@pytest.mark.parametrize(
    "changed",
    [("Sigmoid (x)", "Neg (x)"), ("box = Mul (x, scale)", "box = Sigmoid (x)"), ("(box, score)", "(flat_box, score)")],
    ids=["no scores", "no boxes", "a constant"],
)
def test_what_is_of_one_kind_is_one_part(changed):
    model = head(HEAD.replace(*changed))
    model.graph.initializer.append(onnx.numpy_helper.from_array(X[:1], "flat_box"))
    (whole,) = OutputParts(model, [{"x": X[:1]}], outputs(X[:1])).split(0, "y", outputs(X[:1])["y"])
    assert whole.size == 24


def test_the_worse_part_is_what_a_model_has():
    """A step of 0.1 costs boxes of up to 100 little, and scores much."""
    rounded = head(HEAD.replace("made = Sigmoid (x)", "exact = Sigmoid (x) c = QuantizeLinear (exact, step, zero) "
                                "made = DequantizeLinear (c, step, zero)"))  # fmt: skip
    for name, value in (("step", np.float32(0.1)), ("zero", np.int8(0))):
        rounded.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    scores = outputs(X)["y"].astype(np.float64)
    scores = scores[(scores > 0) & (scores < 1)]  # no box is as small
    wanted = sqnr(scores, np.rint(scores / 0.1) * np.float32(0.1))
    data, reference = rounded.SerializeToString(), head().SerializeToString()
    assert judged(reference, [{"x": X}], data).outputs == pytest.approx(wanted, abs=1e-3)
    trial = PairTrial(data, reference, [{"x": X}])
    assert -10 * np.log10(trial.noise(["exact"])) == pytest.approx(wanted, abs=1e-3)
    assert trial.own_noise(["exact"]) == pytest.approx(trial.noise(["exact"]))
    assert trial.own_noise([]) == 0
    assert trial.outputs == 2 * 24 + 12
    trial.close()


def test_what_is_joined_becomes_outputs():
    model = head()
    assert judge_parts(model) == [("box",), ("made",), ("other",)]
    assert [output.name for output in model.graph.output] == ["box", "made", "other"]
    session = ort.inference_session(model.SerializeToString(), ort.session_options())
    assert [each.shape for each in ort.run(session, {"x": X})] == [(2, 2, 3)] * 3


def test_an_output_of_one_kind_stays():
    model = head(HEAD.replace("Sigmoid (x)", "Neg (x)"))
    assert judge_parts(model) == [("y",), ("other",)]
    assert [output.name for output in model.graph.output] == ["y", "other"]
