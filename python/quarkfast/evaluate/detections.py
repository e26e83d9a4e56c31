"""Detections in the output of a detector, and the average precision of some beside others."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import ConfigError, DependencyError, ModelError, did_you_mean

__all__ = ["LAYOUTS", "Detections", "average_precision", "check_layout", "read_detections"]

# What evaluations of detectors keep: scores above which boxes count at all, how far they may overlap, and how many.
_LEAST, _OVERLAP, _MOST, _CANDIDATES = 0.01, 0.65, 100, 1000
_STRIDES = (8, 16, 32)


class Detections(NamedTuple):
    """Boxes of one image: left, top, width and height in pixels of the model's input, scores, and classes."""

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]

    def above(self, score: float) -> Detections:
        """Returns those whose score is at least `score`."""
        kept = self.scores >= score
        return Detections(self.boxes[kept], self.scores[kept], self.classes[kept])


def _objects(rows: NDArray[np.float64], size: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return rows[:, :4], rows[:, 4:5] * rows[:, 5:]


def _anchor_free(rows: NDArray[np.float64], size: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return rows.T[:, :4], rows.T[:, 4:]


def _on_grid(rows: NDArray[np.float64], size: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    places, strides = [], []
    for stride in _STRIDES:
        down, across = np.mgrid[: size[0] // stride, : size[1] // stride].reshape(2, -1)
        places.append(np.stack([across, down], axis=-1))
        strides.append(np.full(len(across), stride))
    grid, stride_of = np.concatenate(places), np.concatenate(strides)[:, None]
    if len(grid) != len(rows):
        raise ModelError(f"detections: expected {len(grid)} places of a grid for yolox, got {len(rows)}")
    boxes = np.concatenate([(rows[:, :2] + grid) * stride_of, np.exp(rows[:, 2:4].clip(max=20)) * stride_of], axis=1)
    return boxes, rows[:, 4:5] * rows[:, 5:]


_Reader = Callable[[NDArray[np.float64], tuple[int, int]], tuple[NDArray[np.float64], NDArray[np.float64]]]

LAYOUTS: Mapping[str, _Reader] = MappingProxyType({"yolov5": _objects, "yolov8": _anchor_free, "yolox": _on_grid})
"""Name -> from an image's output and the input's height and width to boxes by their centres, and scores by class:
``[boxes, 5 + classes]`` with objectness, ``[4 + classes, boxes]``, and the first as offsets to a grid of strides 8, 16
and 32.
"""


def check_layout(layout: str) -> None:
    """Makes sure that there is a layout of that name.

    Raises:
        ConfigError: If there is none.
    """
    if layout not in LAYOUTS:
        raise ConfigError(
            f"detections: expected one of {', '.join(LAYOUTS)}, got {layout!r}{did_you_mean(layout, LAYOUTS)}"
        )


def read_detections(output: NDArray[Any], layout: str, size: tuple[int, int]) -> list[Detections]:
    """Returns the detections of each image, those that overlap better ones of their class left out.

    Args:
        output: Of the model, of shape ``[images, ...]``.
        layout: A row of `LAYOUTS`.
        size: Height and width of the model's input.

    Raises:
        ConfigError: If there is no such layout.
        ModelError: If the output has another form.
    """
    check_layout(layout)
    if output.ndim != 3 or (output.shape[1] if layout == "yolov8" else output.shape[2]) < 5:
        raise ModelError(f"detections: expected an output of boxes of {layout}, got shape {list(output.shape)}")
    return [_chosen(*LAYOUTS[layout](np.nan_to_num(rows.astype(np.float64)), size)) for rows in output]


def _chosen(centres: NDArray[np.float64], by_class: NDArray[np.float64]) -> Detections:
    """Returns the best boxes by non-maximum suppression within each class."""
    classes = by_class.argmax(axis=1)
    scores = by_class[np.arange(len(by_class)), classes]
    order = np.argsort(-scores, kind="stable")[:_CANDIDATES]
    order = order[scores[order] >= _LEAST]
    boxes, scores, classes = centres[order], scores[order], classes[order]
    boxes[:, :2] -= boxes[:, 2:] / 2
    kept: list[int] = []
    for index in range(len(boxes)):
        others = [each for each in kept if classes[each] == classes[index]]
        if len(kept) < _MOST and not (_overlaps(boxes[index], boxes[others]) > _OVERLAP).any():
            kept.append(index)
    return Detections(boxes[kept], scores[kept], classes[kept].astype(np.int64))


def _overlaps(box: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[:2] + box[2:], others[:, :2] + others[:, 2:])
    both = (high - low).clip(0).prod(axis=1)
    return np.asarray(both / np.maximum(box[2:].prod() + others[:, 2:].prod(axis=1) - both, 1e-12))


def average_precision(found: Sequence[Detections], truth: Sequence[Detections]) -> tuple[float, float]:
    """Returns AP over overlaps of 0.5 to 0.95 and at 0.5, in percent, as pycocotools has them; NaN without a truth.

    Raises:
        DependencyError: If pycocotools is not installed.
    """
    try:
        coco = importlib.import_module("pycocotools.coco")
        evaluation = importlib.import_module("pycocotools.cocoeval")
    except ImportError as error:
        raise DependencyError(
            "detections: expected an installed pycocotools, got none; pip install pycocotools (the extra coco)"
        ) from error
    known = [
        {
            "image_id": image,
            "category_id": int(kind),
            "bbox": box.tolist(),
            "area": float(box[2] * box[3]),
            "iscrowd": 0,
        }
        for image, each in enumerate(truth, 1)
        for box, kind in zip(each.boxes, each.classes, strict=True)
    ]
    if not known:
        return math.nan, math.nan
    rows = [
        [image, *box, score, kind]
        for image, each in enumerate(found, 1)
        for box, score, kind in zip(*each, strict=True)
    ]
    if not rows:
        return 0.0, 0.0
    with contextlib.redirect_stdout(io.StringIO()):
        labels = coco.COCO()
        labels.dataset = {
            "images": [{"id": image} for image in range(1, len(truth) + 1)],
            "annotations": [{"id": number, **each} for number, each in enumerate(known, 1)],
            "categories": [{"id": kind} for kind in sorted({each["category_id"] for each in known})],
        }
        labels.createIndex()
        judged = evaluation.COCOeval(labels, labels.loadRes(np.array(rows, np.float64)), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return 100 * float(judged.stats[0]), 100 * float(judged.stats[1])
