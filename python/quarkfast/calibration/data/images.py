"""Image files as model inputs: decoding (with Pillow), resizing and normalizing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import ModelInput
from quarkfast.errors import CalibrationError, DependencyError, did_you_mean

__all__ = ["IMAGE_SUFFIXES", "PREPROCESSES", "Preprocess", "find_preprocess", "load_image", "read_pixels"]

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


@dataclass(frozen=True, slots=True)
class Preprocess:
    """How the pixels of an image become numbers.

    Attributes:
        fit: ``"crop"`` scales the shorter side to 256/224 of the model's and cuts out the middle; ``"letterbox"``
            scales the longer side to the model's and pads with gray 114; ``"stretch"`` scales both; ``"keep"`` leaves
            the size alone.
        size: Side in pixels where the model leaves it open.
        scale: What pixels (0 to 255) are divided by.
        mean: Then subtracted, one for each of red, green and blue; a gray image takes their mean.
        std: Then divided by, likewise.
    """

    fit: Literal["crop", "letterbox", "stretch", "keep"]
    size: int
    scale: float = 255.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)


PREPROCESSES: Mapping[str, Preprocess] = MappingProxyType(
    {
        "imagenet": Preprocess("crop", 224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        "cifar": Preprocess("stretch", 32, mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
        "yolo": Preprocess("letterbox", 640),
        "none": Preprocess("keep", 0, scale=1.0),
    }
)
"""Name -> how the networks of that family were trained: torchvision's for ImageNet, the channel statistics of CIFAR-10,
Ultralytics' letterbox, and the bare pixels."""

_PADDING = (114, 114, 114)


def find_preprocess(name: str) -> Preprocess:
    """Returns the row of :data:`PREPROCESSES` called `name`.

    Raises:
        CalibrationError: If there is none.

    Example:
        >>> find_preprocess("yolo").fit
        'letterbox'
    """
    if name not in PREPROCESSES:
        known = ", ".join(PREPROCESSES)
        raise CalibrationError(f"preprocess: expected one of {known}, got {name!r}{did_you_mean(name, PREPROCESSES)}")
    return PREPROCESSES[name]


def load_image(path: Path, wanted: ModelInput, preprocess: Preprocess) -> NDArray[Any]:
    """Reads an image file as one sample.

    Args:
        path: The file.
        wanted: The input, of shape [N, C, H, W] or [N, H, W, C] with C of 1 (gray) or 3 (red, green, blue).
        preprocess: How pixels become numbers.

    Returns:
        An array without batch dimension, of the input's layout, size and dtype.

    Raises:
        CalibrationError: If the input is no image, or the file cannot be decoded.
        DependencyError: If Pillow is not installed.
    """
    channels, last, height, width = _layout(wanted, preprocess.size)
    pillow = _pillow()
    try:
        with pillow.open(path) as opened:
            image = _fit(opened.convert("L" if channels == 1 else "RGB"), preprocess.fit, width, height, pillow)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises SyntaxError for a broken PNG
        raise CalibrationError(f"calibration data: expected an image, got {str(path)!r} ({error})") from error
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    if preprocess.fit != "keep":
        mean, std = (np.array(values, np.float32) for values in (preprocess.mean, preprocess.std))
        if channels == 1:
            mean, std = mean.mean(), std.mean()
        pixels = (pixels.astype(np.float32) / np.float32(preprocess.scale) - mean) / std
    return np.ascontiguousarray((pixels if last else pixels.transpose(2, 0, 1)).astype(wanted.dtype))


def read_pixels(path: Path) -> NDArray[np.uint8]:
    """Returns the bare pixels of an image file, red, green and blue: gray is repeated, transparency left out.

    Returns:
        Shape ``[height, width, 3]``.

    Raises:
        CalibrationError: If the file cannot be decoded, or has more than 8 bits a channel.
        DependencyError: If Pillow is not installed.
    """
    pillow = _pillow()
    try:
        with pillow.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise ValueError("more than 8 bits a channel")
            return np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise CalibrationError(f"{path}: expected an image of 8 bits a channel, got another file ({error})") from error


def _layout(wanted: ModelInput, size: int) -> tuple[int, bool, int, int]:
    """Returns channels, whether they come last, height and width."""
    shape = wanted.shape or ()
    if len(shape) != 4:
        raise CalibrationError(
            f"calibration data: expected an input of shape [N, C, H, W] or [N, H, W, C] for images, got {wanted}"
        )
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    channels = shape[3 if last else 1]
    if isinstance(channels, int) and channels not in (1, 3):
        raise CalibrationError(f"calibration data: expected an input of 1 or 3 channels for images, got {wanted}")
    height, width = (dim if isinstance(dim, int) else size for dim in (shape[1:3] if last else shape[2:4]))
    return channels if isinstance(channels, int) else 3, last, height, width


def _fit(image: Any, fit: str, width: int, height: int, pillow: Any) -> Any:
    if fit == "keep":
        return image
    bilinear = pillow.Resampling.BILINEAR
    if fit == "stretch":
        return image if image.size == (width, height) else image.resize((width, height), bilinear)
    if fit == "crop":
        side = max(width, height) * 256 / 224
        ratio = max(side / min(image.size), width / image.width, height / image.height)
        resized = image.resize((round(image.width * ratio), round(image.height * ratio)), bilinear)
        left, top = (resized.width - width) // 2, (resized.height - height) // 2
        return resized.crop((left, top, left + width, top + height))
    ratio = min(width / image.width, height / image.height)
    resized = image.resize((max(1, round(image.width * ratio)), max(1, round(image.height * ratio))), bilinear)
    padded = pillow.new(image.mode, (width, height), _PADDING[0] if image.mode == "L" else _PADDING)
    padded.paste(resized, ((width - resized.width) // 2, (height - resized.height) // 2))
    return padded


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise DependencyError(
            "calibration data: expected an installed Pillow for image files, got none; pip install pillow"
        ) from error
