"""Calibration data for the peers: one feed a sample, as their examples do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class QuietSession(onnxruntime.InferenceSession):
    """A session whose idle threads sleep, so that processor time is time of work."""

    def __init__(self, model: Any, sess_options: Any = None, *rest: Any, **others: Any) -> None:
        """Opens a session as onnxruntime does."""
        options = sess_options or onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        super().__init__(model, options, *rest, **others)


onnxruntime.InferenceSession = QuietSession


def feeds(path: Path) -> Iterator[dict[str, Any]]:
    """Yields one feed of one row for each sample of an .npz file with an array for each input."""
    with np.load(path) as stored:
        arrays = dict(stored)
    for index in range(min(len(rows) for rows in arrays.values())):
        yield {name: rows[index : index + 1] for name, rows in arrays.items()}


class Reader:
    """What onnxruntime.quantization and its imitators read from."""

    def __init__(self, path: Path) -> None:
        """Opens the file."""
        self._feeds = feeds(path)

    def get_next(self) -> dict[str, Any] | None:
        """Returns the next feed, or None."""
        return next(self._feeds, None)
