"""The first images as a network sees them, as files to look at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.images import find_preprocess, pillow_image
from quarkfast.calibration.data.inputs import Feed, ModelInput
from quarkfast.errors import CalibrationError, OutputError

__all__ = ["show_images"]

_MOST = 8
_CHANNELS = (1, 3)


def show_images(
    feeds: Iterator[Feed],
    inputs: Sequence[ModelInput],
    folder: Path,
    preprocess: str | Mapping[str, Any] | None = None,
) -> str:
    """Writes the first eight images as PNG files, cut, padded and resized as the network gets them.

    Numbers become pixels again by the settings that made them of image files, or by their least and greatest.

    Args:
        feeds: Samples, as the network is fed.
        inputs: What the model wants.
        folder: Where to; it is made where there is none.
        preprocess: What made numbers of image files; None where arrays were given.

    Returns:
        What was written, in words, with the shape and the range of the numbers.

    Raises:
        CalibrationError: If no input takes images.
        OutputError: If a file cannot be written.
        DependencyError: If Pillow is not installed.
    """
    pillow = pillow_image()
    images = list(itertools.islice(_images(feeds, [wanted.name for wanted in inputs]), _MOST))
    if not images:
        raise CalibrationError("show: expected an input of images with 1 or 3 channels, got none")
    low, high = (function(each) for function, each in ((min, map(np.min, images)), (max, map(np.max, images))))
    chosen = None if preprocess is None else find_preprocess(preprocess)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            wide = image.astype(np.float32)
            pixels = (wide - low) / max(float(high - low), 1e-12) * 255 if chosen is None else chosen.undone(wide)
            shown = np.rint(pixels).clip(0, 255).astype(np.uint8)
            pillow.fromarray(shown if shown.shape[2] == 3 else shown[..., 0]).save(folder / f"{number}.png")
    except OSError as error:
        raise OutputError(f"show: expected a folder to write to, got {error}") from error
    height, width, channels = images[0].shape
    return f"{len(images)} images of {width} x {height} in {folder}: {channels} channels of {low:.4g} to {high:.4g}"


def _images(feeds: Iterator[Feed], names: Sequence[str]) -> Iterator[NDArray[Any]]:
    """Yields the images of a first input that has some, channels last."""
    for feed in feeds:
        for name in names:
            array = feed.get(name)
            if array is None or array.ndim != 4 or not {array.shape[1], array.shape[3]} & set(_CHANNELS):
                continue
            yield from array.transpose(0, 2, 3, 1) if array.shape[1] in _CHANNELS else array
            break
