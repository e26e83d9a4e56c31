"""Image files as model inputs: decoding (with Pillow), resizing and normalizing."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import ModelInput
from quarkfast.errors import CalibrationError, DependencyError, did_you_mean

__all__ = [
    "IMAGE_SUFFIXES",
    "PREPROCESSES",
    "Preprocess",
    "find_preprocess",
    "load_image",
    "pillow_image",
    "read_pixels",
]

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}


@dataclass(frozen=True, slots=True)
class Preprocess:
    """How the pixels of an image become numbers.

    Attributes:
        fit: ``"crop"`` scales the shorter side to 256/224 of the model's and cuts out the middle; ``"letterbox"``
            scales the longer side to the model's and pads; ``"stretch"`` scales both; ``"keep"`` leaves the size alone.
        size: Side in pixels where the model leaves it open, or height and width.
        scale: What pixels (0 to 255) are divided by.
        mean: Then subtracted, one for each of red, green and blue; a gray image takes their mean.
        std: Then divided by, likewise.
        order: In which channels come: ``"rgb"`` or ``"bgr"``.
        layout: ``"nchw"``, ``"nhwc"``, or ``"auto"``: as the shape of the input says.
        pad: What ``"letterbox"`` pads with, 0 to 255.
        pad_at: Where: ``"both"`` sides, or the ``"end"``, right and bottom.
        dtype: Type of the numbers; that of the input if empty.
    """

    fit: Literal["crop", "letterbox", "stretch", "keep"]
    size: int | tuple[int, int]
    scale: float = 255.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    order: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["auto", "nchw", "nhwc"] = "auto"
    pad: int = 114
    pad_at: Literal["both", "end"] = "both"
    dtype: str = ""

    def placed(self, width: int, height: int, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Returns what a place in an image is multiplied by, across and down, and then moved by, in the model's pixels.

        Args:
            width: Of the image.
            height: Of the image.
            size: Height and width of the model's input.
        """
        down, across = size
        if self.fit == "keep":
            return 1.0, 1.0, 0.0, 0.0
        if self.fit == "stretch":
            return across / width, down / height, 0.0, 0.0
        if self.fit == "crop":
            side = max(across, down) * 256 / 224
            ratio = max(side / min(width, height), across / width, down / height)
        else:
            ratio = min(across / width, down / height)
        resized = max(1, round(width * ratio)), max(1, round(height * ratio))
        if self.fit == "crop":
            left, top = -((resized[0] - across) // 2), -((resized[1] - down) // 2)
        else:
            both = self.pad_at == "both"
            left, top = ((across - resized[0]) // 2, (down - resized[1]) // 2) if both else (0, 0)
        return resized[0] / width, resized[1] / height, float(left), float(top)

    def undone(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Returns pixels from 0 to 255, red, green and blue, of numbers of ``[height, width, channels]``."""
        mean, std = self._normalization(pixels.shape[2])
        return np.asarray((pixels[..., :: -1 if self._swaps(pixels.shape[2]) else 1] * std + mean) * self.scale)

    def normalized(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Returns numbers of pixels of ``[height, width, channels]``, red, green and blue."""
        if (self.scale, self.mean, self.std) != (1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
            mean, std = self._normalization(pixels.shape[2])
            pixels = (pixels.astype(np.float32) / np.float32(self.scale) - mean) / std
        return pixels[..., ::-1] if self._swaps(pixels.shape[2]) else pixels

    def _swaps(self, channels: int) -> bool:
        return self.order == "bgr" and channels == 3

    def _normalization(self, channels: int) -> tuple[Any, Any]:
        mean, std = (np.array(values, np.float32) for values in (self.mean, self.std))
        return (mean.mean(), std.mean()) if channels == 1 else (mean, std)


PREPROCESSES: Mapping[str, Preprocess] = MappingProxyType(
    {
        "imagenet": Preprocess("crop", 224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        "cifar": Preprocess("stretch", 32, mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
        "yolo": Preprocess("letterbox", 640),
        "yolox": Preprocess("letterbox", 640, scale=1.0, order="bgr", pad_at="end"),
        "none": Preprocess("keep", 0, scale=1.0),
    }
)
"""Name -> how the networks of that family were trained: torchvision's for ImageNet, the channel statistics of CIFAR-10,
Ultralytics' letterbox, which divides by 255, that of YOLOX, which feeds 0 to 255 in the order of OpenCV, and the bare
pixels."""

_CHOICES = {
    "fit": ("crop", "letterbox", "stretch", "keep"),
    "order": ("rgb", "bgr"),
    "layout": ("auto", "nchw", "nhwc"),
    "pad_at": ("both", "end"),
}


def find_preprocess(given: str | Mapping[str, Any]) -> Preprocess:
    """Returns a row of :data:`PREPROCESSES`, or one that settings change.

    Args:
        given: Name of a row; or fields of :class:`Preprocess`, with a row to begin with under ``"recipe"`` (none by
            default), as a mapping, as JSON or as the path of a JSON file.

    Raises:
        CalibrationError: If there is no such row, field or value.

    Example:
        >>> find_preprocess("yolo").fit
        'letterbox'
        >>> find_preprocess('{"recipe": "yolo", "scale": 1}').scale
        1.0
    """
    if isinstance(given, str) and given in PREPROCESSES:
        return PREPROCESSES[given]
    if not isinstance(given, str):
        return _changed(given)
    known = ", ".join(PREPROCESSES)
    if not given.lstrip().startswith("{") and not given.endswith(".json"):
        hint = did_you_mean(given, PREPROCESSES)
        raise CalibrationError(f"preprocess: expected one of {known}, JSON or a .json file, got {given!r}{hint}")
    try:
        found = json.loads(Path(given).read_text(encoding="utf-8") if given.endswith(".json") else given)
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"preprocess: expected one of {known} or JSON, got {error}") from error
    if not isinstance(found, dict):
        raise CalibrationError(f"preprocess: expected an object of settings, got {type(found).__name__}")
    return _changed(found)


def _changed(settings: Mapping[str, Any]) -> Preprocess:
    given = dict(settings)
    base = find_preprocess(str(given.pop("recipe", "none")))
    if "fit" not in given and base.fit == "keep" and given:
        given["fit"] = "stretch"  # a size that does not fit the model helps nobody
    names = [each.name for each in fields(Preprocess)]
    for name, value in given.items():
        if name not in names:
            raise CalibrationError(
                f"preprocess: expected recipe, {', '.join(names)}, got {name!r}{did_you_mean(name, names)}"
            )
        given[name] = _setting(name, value)
    return replace(base, **given)


def _setting(name: str, value: Any) -> Any:
    if name in _CHOICES:
        expected, fits = " or ".join(_CHOICES[name]), value in _CHOICES[name]
    elif name in ("mean", "std"):
        value = [value] * 3 if _is_number(value) else value
        fits = isinstance(value, list | tuple) and len(value) == 3 and all(map(_is_number, value))
        expected, fits = "three numbers", fits and (name == "mean" or all(value))
        value = tuple(map(float, value)) if fits else value
    elif name == "size":
        value = tuple(value) if isinstance(value, list) else value
        sides = value if isinstance(value, tuple) else (value, value)
        fits = len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides)
        expected = "a side or height and width in pixels"
    elif name == "dtype":
        expected = "the name of a dtype of numbers"
        # Not what other packages register, as soon as they are imported.
        fits = isinstance(value, str) and value in np.sctypeDict and np.dtype(value).isbuiltin == 1
    else:
        expected = "a number above 0" if name == "scale" else "an integer from 0 to 255"
        fits = _is_number(value) and (value > 0 if name == "scale" else isinstance(value, int) and 0 <= value <= 255)
        value = float(value) if name == "scale" and fits else value
    if not fits:
        raise CalibrationError(f"preprocess: {name}: expected {expected}, got {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
    channels, last, height, width = _layout(wanted, preprocess)
    pillow = pillow_image()
    try:
        with pillow.open(path) as opened:
            image = _fit(opened.convert("L" if channels == 1 else "RGB"), preprocess, width, height, pillow)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises SyntaxError for a broken PNG
        raise CalibrationError(f"calibration data: expected an image, got {str(path)!r} ({error})") from error
    pixels = preprocess.normalized(np.asarray(image).reshape(image.height, image.width, channels))
    dtype = preprocess.dtype or wanted.dtype
    return np.ascontiguousarray((pixels if last else pixels.transpose(2, 0, 1)).astype(dtype))


def read_pixels(path: Path) -> NDArray[np.uint8]:
    """Returns the bare pixels of an image file, red, green and blue: gray is repeated, transparency left out.

    Returns:
        Shape ``[height, width, 3]``.

    Raises:
        CalibrationError: If the file cannot be decoded, or has more than 8 bits a channel.
        DependencyError: If Pillow is not installed.
    """
    pillow = pillow_image()
    try:
        with pillow.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise ValueError("more than 8 bits a channel")
            return np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise CalibrationError(f"{path}: expected an image of 8 bits a channel, got another file ({error})") from error


def _layout(wanted: ModelInput, preprocess: Preprocess) -> tuple[int, bool, int, int]:
    """Returns channels, whether they come last, height and width."""
    shape = wanted.shape or ()
    if len(shape) != 4:
        raise CalibrationError(
            f"calibration data: expected an input of shape [N, C, H, W] or [N, H, W, C] for images, got {wanted}"
        )
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    last = last if preprocess.layout == "auto" else preprocess.layout == "nhwc"
    channels = shape[3 if last else 1]
    if isinstance(channels, int) and channels not in (1, 3):
        raise CalibrationError(f"calibration data: expected an input of 1 or 3 channels for images, got {wanted}")
    sides = preprocess.size if isinstance(preprocess.size, tuple) else (preprocess.size, preprocess.size)
    declared = shape[1:3] if last else shape[2:4]
    height, width = (dim if isinstance(dim, int) else side for dim, side in zip(declared, sides, strict=True))
    if preprocess.fit != "keep" and not (height and width):
        raise CalibrationError(f"preprocess: expected size, for the input is open in it, got none: {wanted}")
    return channels if isinstance(channels, int) else 3, last, height, width


def _fit(image: Any, preprocess: Preprocess, width: int, height: int, pillow: Any) -> Any:
    fit = preprocess.fit
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
    padded = pillow.new(image.mode, (width, height), preprocess.pad if image.mode == "L" else (preprocess.pad,) * 3)
    both = preprocess.pad_at == "both"
    padded.paste(resized, ((width - resized.width) // 2, (height - resized.height) // 2) if both else (0, 0))
    return padded


def pillow_image() -> Any:
    """Returns Pillow's module of images.

    Raises:
        DependencyError: If Pillow is not installed.
    """
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise DependencyError(
            "calibration data: expected an installed Pillow for image files, got none; pip install pillow"
        ) from error
