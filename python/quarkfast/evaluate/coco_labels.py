"""Boxes of labels in COCO's form, in the pixels that a model sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quarkfast.errors import CalibrationError
from quarkfast.evaluate.detections import Detections

__all__ = ["read_labels"]

Placed = Callable[[int, int], tuple[float, float, float, float]]
"""From width and height of an image to factors across and down, and what is added to the left and the top."""


def read_labels(path: Path, images: Sequence[Path], placed: Placed) -> list[Detections]:
    """Returns the boxes of each image, crowds left out; classes count by the order of the categories' ids.

    Args:
        path: The JSON file: ``images`` (id, file_name, width, height), ``annotations``, ``categories``.
        images: The files that are run, found by their names.
        placed: Where the preprocessing puts them.

    Raises:
        CalibrationError: If it cannot be read, or lacks an image.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = {Path(each["file_name"]).name: each for each in found["images"]}
        order = {kind: place for place, kind in enumerate(sorted(each["id"] for each in found["categories"]))}
        boxes: dict[Any, list[Any]] = {}
        for each in found["annotations"]:
            if not each.get("iscrowd"):
                boxes.setdefault(each["image_id"], []).append((*map(float, each["bbox"]), order[each["category_id"]]))
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise CalibrationError(f"labels: expected a file in COCO's form at {str(path)!r}, got {error!r}") from error
    missing = [image.name for image in images if image.name not in rows]
    if missing:
        raise CalibrationError(f"labels: expected every image of the folder, got none for {missing[0]!r}")
    result = []
    for image in images:
        row = rows[image.name]
        across, down, left, top = placed(row["width"], row["height"])
        array = np.array(boxes.get(row["id"], []), np.float64).reshape(-1, 5)
        moved = array[:, :4] * (across, down, across, down) + (left, top, 0.0, 0.0)
        result.append(Detections(moved, np.ones(len(array)), array[:, 4].astype(np.int64)))
    return result
