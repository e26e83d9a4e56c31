"""The demo's model and images, as they lie in the package."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"
MODEL = DATA / "digits.onnx"
INPUT_NAME = "image"
# A pixel counts the ink in a 4x4 block of the scan: 0 to 16.
PIXEL_MAX = 16


class Images(NamedTuple):
    """Handwritten digits, prepared for the model.

    Attributes:
        calibration: float32 [256, 1, 8, 8] in 0..1, a part of the images that the model was trained on.
        test: float32 [500, 1, 8, 8] in 0..1, images that the model never saw.
        labels: int64 [500], the digits of `test`.
    """

    calibration: NDArray[np.float32]
    test: NDArray[np.float32]
    labels: NDArray[np.int64]


def normalize(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Makes the model's input of pixels.

    Args:
        pixels: uint8 [N, 8, 8] in 0..16.

    Returns:
        float32 [N, 1, 8, 8] in 0..1.

    Example:
        >>> normalize(np.full((1, 8, 8), 8, np.uint8))[0, 0, 0, :2]
        array([0.5, 0.5], dtype=float32)
    """
    return pixels[:, None].astype(np.float32) / np.float32(PIXEL_MAX)


def load_images() -> Images:
    """Reads the calibration and test images.

    Example:
        >>> load_images().test.shape
        (500, 1, 8, 8)
    """
    with np.load(DATA / "digits.npz") as archive:
        return Images(
            normalize(archive["calibration_x"]), normalize(archive["test_x"]), archive["test_y"].astype(np.int64)
        )


def recorded_top1() -> float:
    """The float model's accuracy on the test images in percent, as training measured it.

    Example:
        >>> recorded_top1()
        99.4
    """
    return float(json.loads((DATA / "digits.json").read_text())["top1_percent"])
