"""Detections of three layouts, and their average precision."""

import json

import numpy as np
import pytest

from quarkfast.errors import CalibrationError, ConfigError, ModelError
from quarkfast.evaluate.coco_labels import read_labels
from quarkfast.evaluate.detections import Detections, average_precision, read_detections

SIZE = (64, 64)


def one_box(layout: str) -> np.ndarray:
    """A box of 16 x 8 around (20, 12) of class 1 with a score of 0.8, and one below every score."""
    if layout == "yolox":  # the 64 places of stride 8 come first; (2, 1) is the 10th of them
        output = np.zeros((1, 84, 7))
        output[0, 10] = [0.5, 0.5, np.log(2), 0.0, 1.0, 0.1, 0.8]
        return output
    row = [20, 12, 16, 8, 1.0, 0.1, 0.8]
    if layout == "yolov5":
        return np.array([[row, [0] * 7]])
    return np.array([[row[:4] + row[5:], [0] * 6]]).transpose(0, 2, 1)


@pytest.mark.parametrize("layout", ["yolov5", "yolov8", "yolox"])
def test_each_layout_has_the_same_box(layout: str) -> None:
    (found,) = read_detections(one_box(layout), layout, SIZE)
    np.testing.assert_allclose(found.boxes, [[12, 8, 16, 8]])
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.8], [1])


def test_boxes_that_overlap_better_ones_of_their_class_are_left_out() -> None:
    rows = [[20, 20, 10, 10, 1, 0.9, 0], [21, 20, 10, 10, 1, 0.8, 0], [21, 20, 10, 10, 1, 0, 0.7]]
    (found,) = read_detections(np.array([rows]), "yolov5", SIZE)
    assert found.classes.tolist() == [0, 1]
    assert len(found.above(0.8).scores) == 1


@pytest.mark.parametrize(
    ("shape", "layout", "error"),
    [((1, 3, 7), "yolov3", ConfigError), ((1, 7), "yolov5", ModelError), ((1, 5, 7), "yolox", ModelError)],
)
def test_what_is_no_such_output_is_a_sentence(shape, layout, error) -> None:
    with pytest.raises(error, match="detections: expected"):
        read_detections(np.ones(shape), layout, SIZE)


def test_average_precision_is_that_of_coco() -> None:
    pytest.importorskip("pycocotools", reason="no pycocotools: the extra `coco` is not installed")
    truth = Detections(np.array([[0.0, 0, 10, 10], [30, 30, 10, 10]]), np.ones(2), np.array([0, 0]))
    assert average_precision([truth], [truth]) == pytest.approx((100.0, 100.0))
    half = Detections(truth.boxes[:1], np.array([0.9]), truth.classes[:1])
    # One of two is found without a false one: precision is 1 up to a recall of 0.5, at 51 of COCO's 101 places.
    assert average_precision([half], [truth]) == pytest.approx((100 * 51 / 101, 100 * 51 / 101))
    none = Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    assert average_precision([none], [truth]) == (0.0, 0.0)
    assert np.isnan(average_precision([half], [none])).all()


def test_labels_are_moved_to_where_the_model_sees_them(tmp_path) -> None:
    labels = {
        "images": [{"id": 7, "file_name": "a/x.jpg", "width": 100, "height": 50}],
        "annotations": [{"image_id": 7, "category_id": 90, "bbox": [10, 20, 30, 10]}],
        "categories": [{"id": 90}, {"id": 3}],
    }
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(labels))
    (found,) = read_labels(path, [tmp_path / "x.jpg"], lambda width, height: (0.5, 0.25, 4.0, 8.0))
    assert (found.boxes.tolist(), found.classes.tolist()) == ([[9.0, 13.0, 15.0, 2.5]], [1])
    with pytest.raises(CalibrationError, match=r"labels: expected every image of the folder, got none for 'y\.jpg'"):
        read_labels(path, [tmp_path / "y.jpg"], lambda width, height: (1, 1, 0, 0))
    path.write_text("{}")
    with pytest.raises(CalibrationError, match="labels: expected a file in COCO's form"):
        read_labels(path, [], lambda width, height: (1, 1, 0, 0))
