"""Two models on the same samples."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.demo.data import MODEL, load_images
from quarkfast.evaluate import agreement, sqnr
from support.processors import run_exact, saturates
from support.tiny_models import tiny_model

TWO = (
    """g (float[N, 4] x) => (float[N, 4] y, int64[N] z) { y = MatMul (x, w) z = ArgMax <axis = 1, keepdims = 0> (y) }"""
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "digits.onnx"
    quarkfast.quantize(MODEL, path, "U8S8", {"image": load_images().calibration}, portable=False)
    return path


@pytest.fixture
def two(tmp_path, rng):
    paths = []
    for name, noise in (("first", 0), ("second", 0.01)):
        weight = np.eye(4, dtype=np.float32) + np.float32(noise)
        onnx.save(tiny_model(TWO, {"w": weight}, opset=17), tmp_path / f"{name}.onnx")
        paths.append(tmp_path / f"{name}.onnx")
    return paths


def test_the_scores_are_those_of_plain_runs(digits):
    images = load_images().test[:50]
    wanted = ort.run(ort.inference_session(MODEL), {"image": images})[0]
    exact, default = (
        run_exact(digits.read_bytes(), {"image": images})[0],
        ort.run(ort.inference_session(digits), {"image": images})[0],
    )
    found = quarkfast.evaluate_models(MODEL, digits, {"image": images}, sums="both", batch_size=7)
    for scores, got in ((found.exact[0], exact), (found.scores[0], default)):
        # Kernels of float32 may round in another order with another batch size: noise of 33 dB changes by far less.
        assert scores.sqnr == pytest.approx(sqnr(wanted, got), abs=0.01)
        assert scores.top1 == pytest.approx(agreement(wanted, got))
    assert (found.exact[0].samples, found.exact[0].output) == (50, "logits")


@pytest.mark.parametrize("samples", [8, 40])
def test_exact_sums_are_shown_where_a_default_session_adds_otherwise(digits, samples):
    found = quarkfast.evaluate_models(MODEL, digits, {"image": load_images().test}, samples=samples)
    assert bool(found.exact) == saturates()
    assert found.scores[0].samples == samples
    if found.exact:
        assert found.exact[0].samples == samples


@pytest.mark.parametrize(("sums", "counts"), [("runtime", (1, 0)), ("exact", (0, 1)), ("both", (1, 1))])
def test_sums_say_how_the_model_is_run(digits, sums, counts):
    found = quarkfast.evaluate_models(MODEL, digits, {"image": load_images().test[:20]}, sums=sums)
    assert (len(found.scores), len(found.exact)) == counts


def test_outputs_of_integers_are_compared_and_others_are_named(two, tmp_path, rng):
    x = rng.standard_normal((6, 4)).astype(np.float32)
    found = quarkfast.evaluate_models(*two, {"x": x})
    assert [each.output for each in found.scores] == ["y", "z"]
    onnx.save(tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }", opset=17), tmp_path / "one.onnx")
    found = quarkfast.evaluate_models(two[0], tmp_path / "one.onnx", {"x": x})
    assert ([each.output for each in found.scores], found.not_compared) == (["y"], ("z",))


def test_outputs_of_other_names_stand_for_each_other_by_position(two, tmp_path, rng):
    text = TWO.replace(" y", " other").replace("(y)", "(other)").replace(" z", " last")
    onnx.save(tiny_model(text, {"w": np.eye(4, dtype=np.float32)}, opset=17), tmp_path / "renamed.onnx")
    found = quarkfast.evaluate_models(two[0], tmp_path / "renamed.onnx", {"x": rng.random((3, 4), np.float32)})
    assert [each.output for each in found.scores] == ["y", "z"]
    assert found.scores[0].sqnr == np.inf


def test_samples_of_any_length_and_generators_are_fed_one_by_one(tmp_path, rng):
    proto = tiny_model("g (float[1, T] x) => (float[1, T] y) { y = Tanh (x) }", opset=17)
    onnx.save(proto, tmp_path / "model.onnx")
    feeds = ({"x": rng.random((1, length), np.float32)} for length in (3, 5, 4))
    found = quarkfast.evaluate_models(tmp_path / "model.onnx", tmp_path / "model.onnx", feeds)
    assert (found.scores[0].samples, found.scores[0].l2_max) == (3, 0)


def test_a_metric_gets_sessions_with_exact_sums(digits):
    images = load_images()

    def top1(session, labels):
        return 100 * np.mean(session.run(None, {"image": images.test})[0].argmax(1) == labels)

    found = quarkfast.evaluate_models(MODEL, digits, {"image": images.test[:4]}, metric=top1, metric_data=images.labels)
    # The model of the package reads 99.4 % of its 500 test images; three images are 0.6 points.
    assert found.reference_metric == pytest.approx(99.4)
    assert found.metric > 98.8


def test_without_data_a_metric_gets_the_feeds(digits):
    seen = []
    quarkfast.evaluate_models(
        MODEL, digits, {"image": load_images().test[:20]}, metric=lambda session, feeds: seen.append(len(feeds)) or 1.0
    )
    assert seen == [2, 2]  # 16 rows and 4


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"sums": "none"}, quarkfast.ConfigError, "sums: expected one of auto, runtime, exact, both, got 'none'"),
        ({"metric_data": 1}, quarkfast.ConfigError, "metric_data: expected a metric that takes it, got none"),
        ({"metric": "no"}, quarkfast.ConfigError, "metric: expected a function or 'module:function', got 'no'"),
        ({"data": {"z": np.zeros((1, 4))}}, quarkfast.CalibrationError, "calibration data"),
        ({"data": None}, quarkfast.CalibrationError, "calibration data: expected samples, which"),
        ({"model": "none.onnx"}, quarkfast.ModelError, "none.onnx"),
    ],
)
def test_bad_arguments_get_a_sentence(two, arguments, kind, sentence):
    given = {"reference": two[0], "model": two[1], "data": {"x": np.zeros((1, 4), np.float32)}} | arguments
    with pytest.raises(kind, match=sentence.replace("(", r"\(")):
        quarkfast.evaluate_models(**given)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "g (float[N, 4] q) => (float[N, 4] y) { y = Relu (q) }",
            "expected inputs that the reference has too, got 'q'",
        ),
        (
            "g (float[N, 4] x) => (float[4, N] y) { y = Transpose (x) }",
            "output 'y': expected the shape of the reference",
        ),
        ("g (float[N, 4] x) => (float[N, 4] k) { k = Relu (x) }", "expected outputs 'y', 'z', got 'k'"),
    ],
)
def test_models_that_have_nothing_in_common_get_a_sentence(two, tmp_path, text, sentence):
    onnx.save(tiny_model(text, opset=17), tmp_path / "other.onnx")
    with pytest.raises(quarkfast.ModelError, match=sentence):
        quarkfast.evaluate_models(two[0], tmp_path / "other.onnx", {"x": np.zeros((3, 4), np.float32)})


@pytest.mark.parametrize("kind", [onnx.load, onnx_ir.load], ids=["ModelProto", "onnx_ir.Model"])
def test_objects_are_taken_as_files_are_by_every_function(kind, tmp_path):
    images, path = {"image": load_images().calibration[:4]}, tmp_path / "q.onnx"
    quarkfast.quantize(MODEL, path, "U8S8", images)
    reference, model = kind(MODEL), kind(path)
    found = quarkfast.evaluate_models(reference, model, images, metric=agreement_of, metric_data=images)
    assert found == quarkfast.evaluate_models(MODEL, path, images, metric=agreement_of, metric_data=images)
    feeds = [images]
    assert quarkfast.verify(model, feeds, reference) == quarkfast.verify(path, feeds, MODEL)
    assert quarkfast.compare_models(reference, model, images) == quarkfast.compare_models(MODEL, path, images)
    assert quarkfast.inspect_model(model).operators == quarkfast.inspect_model(path).operators
    assert quarkfast.measure_latency(reference, model, images).rows == 1
    assert quarkfast.evaluate_models(reference, model, images) == quarkfast.evaluate_models(MODEL, path, images)


def agreement_of(session, data):
    return float(ort.run(session, data)[0].argmax(-1).sum())


@pytest.mark.parametrize("function", [quarkfast.evaluate_models, quarkfast.compare_models, quarkfast.measure_latency])
def test_what_is_no_model_is_refused_in_words(function):
    with pytest.raises(TypeError, match=r"model: expected a path, an onnx.ModelProto or an onnx_ir.Model, got int"):
        function(3, 4, np.zeros((1, 1), np.float32))


def detector() -> onnx.ModelProto:
    """Two boxes with two classes, joined with their scores."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 3, 2, 7] x) => (float[N, 2, 7] y) {
        m = ReduceMean <axes = [1], keepdims = 0> (x) boxes, raw = Split <axis = 2> (m, sizes)
        s = Sigmoid (raw) y = Concat <axis = 2> (boxes, s) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([4, 3]), "sizes"))
    return model


def test_scores_and_boxes_are_scored_apart_and_so_are_parts_that_are_asked_for():
    images = np.random.default_rng(0).uniform(2, 9, (4, 3, 2, 7)).astype(np.float32)
    found = quarkfast.evaluate_models(detector(), detector(), images, sums="runtime")
    assert [each.output for each in found.scores] == ["y", "y: scores", "y: the rest"]
    asked = quarkfast.evaluate_models(detector(), detector(), images, sums="runtime", parts=["wide=y[..., 2:4]"])
    assert [each.output for each in asked.scores] == ["y", "wide"]
    for part in ("wide", "wide=z[0]", "wide=y[a]"):
        with pytest.raises(quarkfast.ConfigError, match="part: expected"):
            quarkfast.evaluate_models(detector(), detector(), images, parts=[part])


def test_a_detector_has_average_precision():
    pytest.importorskip("pycocotools", reason="no pycocotools: the extra `coco` is not installed")
    images = np.random.default_rng(0).uniform(2, 9, (4, 3, 2, 7)).astype(np.float32)
    found = quarkfast.evaluate_models(detector(), detector(), images, sums="runtime", detections="yolov5")
    assert found.precision.against == "float model"
    assert found.below({"ap": 99.99}) == []
    with pytest.raises(quarkfast.ConfigError, match="labels: expected detections, and a folder"):
        quarkfast.evaluate_models(detector(), detector(), images, labels="x.json")
