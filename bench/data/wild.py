"""Models that people ship, as they are fed and judged: a text recognizer and its helpers, a detector, notes from audio.

`RECORDINGS` says where the samples of each lie and how they are prepared; the first ones calibrate, and evaluation
takes others. Files are those of ``SHARED/models`` and ``SHARED/data``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recording:
    """Where the samples of a model lie.

    Attributes:
        input: Name of the model's input.
        file: The .npz file in ``data/``.
        array: The array in it, samples along the first axis.
        prepare: From stored samples to what the model reads, float32.
        calibration: How many calibrate, from the first.
        end: The sample before which evaluation ends; it begins behind those that calibrate.
        batch: Rows a run.
    """

    input: str
    file: str
    array: str
    prepare: Callable[[NDArray[Any]], NDArray[np.float32]]
    calibration: int
    end: int
    batch: int

    def samples(self, data: Path, start: int, stop: int) -> dict[str, NDArray[np.float32]]:
        """Returns the samples from `start` to `stop`, prepared; `start` is even."""
        with np.load(data / self.file) as stored:
            return {self.input: self.prepare(stored[self.array][start:stop])}


def _centred(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return images.astype(np.float32) / np.float32(127.5) - 1


def _every_other_turned(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns the first 192 columns, every other image turned by 180 degrees."""
    x = _centred(images[..., :192])
    x[1::2] = x[1::2, :, ::-1, ::-1].copy()
    return x


def _as_they_are(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return images.astype(np.float32)


def _loudness(audio: NDArray[np.int16]) -> NDArray[np.float32]:
    return audio.astype(np.float32) / np.float32(20000)


RECORDINGS: Mapping[str, Recording] = {
    "ppocr_rec": Recording("x", "text_lines.npz", "images", _centred, 64, 192, 16),
    "ppocr_cls": Recording("x", "text_lines.npz", "images", _every_other_turned, 64, 192, 16),
    "text_yolox": Recording("images", "text_scenes.npz", "images", _as_they_are, 32, 64, 1),
    "basic_pitch": Recording("serving_default_input_2:0", "chords.npz", "audio", _loudness, 32, 64, 4),
}
"""Name of a model -> its samples."""


def boxes_and_scores(outputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Returns the boxes of a detector with a YOLOX head, and its objectness and classes: they have other units."""
    (found,) = outputs
    return [found[..., :4], found[..., 4:]]


def characters(model: Path) -> list[str]:
    """Returns the characters that a recognizer tells apart, by class: 0 is blank (CTC), the last is a space."""
    metadata = {entry.key: entry.value for entry in onnx.load(model, load_external_data=False).metadata_props}
    return ["", *metadata["character"].split("\n"), " "]


def read_greedily(probabilities: NDArray[Any], alphabet: list[str]) -> list[str]:
    """Returns the text of each row of ``[N, steps, classes]``: the likeliest class of each step, repeats joined."""
    return ["".join(alphabet[code] for code, _ in groupby(row)) for row in probabilities.argmax(axis=-1)]


def words(data: Path) -> list[str]:
    """Returns the words of the lines that evaluation takes."""
    lines = RECORDINGS["ppocr_rec"]
    with np.load(data / lines.file) as stored:
        return [str(text) for text in stored["text"][lines.calibration : lines.end]]
