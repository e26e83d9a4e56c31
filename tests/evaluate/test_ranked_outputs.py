"""Outputs behind a ranking are judged by what it ranks, in float models and in quantized ones."""

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.evaluate.first_sample import output_sqnr
from quarkfast.evaluate.ranked_outputs import judge_unranked
from support.judged import judged
from support.tiny_models import samples, tiny_model

RNG = np.random.default_rng(3)


def _weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.3).astype(np.float32)


# A detector that needs no suppression: the best anchors by the largest score of a class, and their boxes and scores.
HEAD = """g (float[1, 3, 12, 12] x) => (float[1, 10, 5] found, int64[1, 10, 1] anchors) {
    h = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
    r = Relu(h)
    b = Conv(r, w2, b2)
    c = Conv(r, w3, b3)
    flat_boxes = Reshape(b, four)
    flat_scores = Reshape(c, three)
    boxes = Transpose<perm = [0, 2, 1]>(flat_boxes)
    likely = Sigmoid(flat_scores)
    scores = Transpose<perm = [0, 2, 1]>(likely)
    best = ReduceMax<axes = [2], keepdims = 0>(scores)
    top, places = TopK(best, ten)
    anchors = Unsqueeze(places, last)
    tiled = Tile(anchors, repeats)
    taken = GatherElements<axis = 1>(boxes, tiled)
    shown = Unsqueeze(top, last)
    found = Concat<axis = 2>(taken, shown)
}"""
ARRAYS = {
    "w1": _weights(16, 3, 3, 3), "b1": _weights(16), "w2": _weights(4, 16, 1, 1), "b2": _weights(4),
    "w3": _weights(3, 16, 1, 1), "b3": _weights(3), "four": np.int64([1, 4, 144]), "three": np.int64([1, 3, 144]),
    "ten": np.int64([10]), "last": np.int64([2]), "repeats": np.int64([1, 1, 4]),
}  # fmt: skip


def _detector() -> onnx.ModelProto:
    return tiny_model(HEAD, ARRAYS, 17)


def _names(model: onnx.ModelProto) -> list[str]:
    return [output.name for output in judge_unranked(model).graph.output]


def test_boxes_and_scores_count_in_place_of_the_best_ones():
    assert _names(_detector()) == ["boxes", "scores"]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "BF16", "BFP16", "DYNAMIC", "INT8_WO"])
def test_a_quantized_model_has_as_many_in_the_same_order(preset):
    quarkfast.register_schemas()
    data = {} if preset in ("DYNAMIC", "INT8_WO") else {"calibration_data": {"x": samples(8, (3, 12, 12))}}
    result = quarkfast.quantize(_detector(), preset=preset, **data)
    model = judge_unranked(onnx.load_from_string(result.model_bytes))
    shapes = [each.shape for each in quarkfast.ort.run(_session(model), {"x": samples(1, (3, 12, 12))})]
    assert shapes == [(1, 144, 4), (1, 144, 3)]


def _session(model: onnx.ModelProto):
    return quarkfast.ort.inference_session(model.SerializeToString(), quarkfast.ort.session_options(optimize=False))


def test_a_suppression_is_judged_by_the_boxes_and_scores_that_it_reads():
    text = """g (float[1, 9, 4] raw, float[1, 2, 9] x, int64[2] size) => (float[M, 4] found, float s) {
        boxes = Abs(raw)
        scores = Sigmoid(x)
        picked = NonMaxSuppression(boxes, scores, most, overlap, least)
        at = Gather<axis = 1>(picked, two)
        rows = Squeeze(boxes, zero)
        found = Gather(rows, at)
        s = ReduceMean<keepdims = 0>(x)
    }"""
    arrays = {
        "most": np.int64([3]), "overlap": np.float32([0.5]), "least": np.float32([0.1]), "two": np.int64(2),
        "zero": np.int64([0]),
    }  # fmt: skip
    assert _names(tiny_model(text, arrays, 17)) == ["rows", "boxes", "scores", "s"]


def test_scores_that_are_compared_count_and_the_comparison_does_not():
    text = """g (float[8] x) => (float[M, 1] found) {
        scores = Sigmoid(x)
        sure = Greater(scores, half)
        where = NonZero(sure)
        places = Transpose(where)
        found = GatherND(scores, places)
    }"""
    assert _names(tiny_model(text, {"half": np.float32(0.5)}, 17)) == ["scores"]


def test_an_output_that_no_ranking_orders_stays_beside_one_that_is():
    text = """g (float[8] x, int64[1] k) => (float[k] y, float best) {
        s = Sigmoid(x)
        y, i = TopK(s, k)
        best = ReduceMax<keepdims = 0>(s)
    }"""
    model = judge_unranked(tiny_model(text, {}, 17))
    assert _names(model) == ["s", "best"]
    assert _names(model) == ["s", "best"]


def test_an_input_that_is_ranked_counts_for_nothing():
    text = """g (float[8] x) => (float[M, 1] found) {
        raised = Cast<to = 11>(x)
        sure = Greater(raised, half)
        where = NonZero(sure)
        places = Transpose(where)
        strong = Abs(x)
        found = GatherND(strong, places)
    }"""
    assert _names(tiny_model(text, {"half": np.float64(0.5)}, 17)) == ["strong"]


def test_outputs_behind_a_product_with_weights_stay():
    text = """g (float[8, 4] x) => (float[3, 2] y) {
        s = ReduceSum<keepdims = 0>(x, axis)
        top, places = TopK(s, three)
        rows = Gather(x, places)
        y = MatMul(rows, w)
    }"""
    arrays = {"axis": np.int64([1]), "three": np.int64([3]), "w": _weights(4, 2)}
    assert _names(tiny_model(text, arrays, 17)) == ["y"]


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }",
        "g (float[N, 4] x) => (float[N, 4] y) { s = Shape(x) t, i = TopK(s, one) f = Cast<to = 1>(t) y = Add(x, f) }",
    ],
)
def test_a_model_without_a_ranking_of_its_values_stays(text):
    assert _names(tiny_model(text, {"one": np.int64([1])} if "one" in text else {}, 17)) == ["y"]


def test_scores_that_change_places_do_not_count_as_noise():
    text = """g (float[4] x, int64[1] k) => (float[k] y, float[k] z) {
        a = Add(x, d)
        n = Neg(a)
        y, i = TopK(a, k)
        z = Gather(n, i)
    }"""
    model, other = (tiny_model(text, {"d": np.float32([0, 0, 0, step])}, 17) for step in (0, 0.002))
    feeds = [{"x": np.float32([9, -3, 5, 4.999]), "k": np.int64([4])}]
    assert judged(model.SerializeToString(), feeds, other.SerializeToString()).worst > 70


def test_the_first_sample_is_looked_at_in_front_of_the_ranking(tmp_path):
    path, feed = tmp_path / "m.onnx", {"x": samples(1, (3, 12, 12))}
    onnx.save(_detector(), path)
    result = quarkfast.quantize(path, preset="A8W8", calibration_data={"x": samples(8, (3, 12, 12))})
    found = output_sqnr(path, result.model_bytes, feed, unranked=True)
    assert {name for name, _ in found} == {"boxes", "scores"}
    assert {name for name, _ in result.summary.outputs} == {"boxes", "scores"}
    assert any("judged in front of it" in note for note in result.summary.notes)
    assert min(value for _, value in found) > 25
