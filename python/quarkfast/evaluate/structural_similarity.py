"""Structural similarity of images (SSIM)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["WINDOW", "ssim"]

WINDOW = 11
"""Side of the window in pixels: no smaller image has a structural similarity."""

_SIGMA = 1.5
_K1, _K2 = 0.01, 0.03


def ssim(reference: ArrayLike, image: ArrayLike, peak: float = 255.0) -> float:
    """Returns the mean structural similarity of two images.

    Means, variances and the covariance are those under a Gaussian window of 11 x 11 pixels with a standard deviation of
    1.5, at every place where the window lies within the image; the mean is over places and channels.

    Args:
        reference: Shape ``[height, width]`` or ``[height, width, channels]``, both sides at least 11.
        image: The same shape.
        peak: The largest value that a pixel can have.

    Returns:
        At most 1, which equal images have.

    Raises:
        ValueError: If the shapes differ or are no image's.

    Source:
        Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to
        structural similarity", 2004, equation 13 with K1 = 0.01 and K2 = 0.03.

    Example:
        >>> gray = np.arange(256.0).reshape(16, 16)
        >>> round(ssim(gray, gray), 6), ssim(gray, gray[::-1]) < 0.5
        (1.0, True)
    """
    x, y = np.asarray(reference, np.float64), np.asarray(image, np.float64)
    if x.shape != y.shape or x.ndim not in (2, 3) or min(x.shape[:2]) < WINDOW:
        raise ValueError(
            f"ssim: expected images of one shape, {WINDOW} pixels a side or more, got {x.shape} and {y.shape}"
        )
    c1, c2 = (_K1 * peak) ** 2, (_K2 * peak) ** 2
    mean_x, mean_y = _blurred(x), _blurred(y)
    variances = _blurred(x * x) - mean_x**2 + _blurred(y * y) - mean_y**2
    covariance = _blurred(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return float(np.mean(luminance * (2 * covariance + c2) / (variances + c2)))


def _blurred(image: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the means under the window along both sides, where it lies within the image."""
    offsets = np.arange(WINDOW) - WINDOW // 2
    weights = np.exp(-(offsets**2) / (2 * _SIGMA**2))
    weights /= weights.sum()
    for axis in (0, 1):
        places = image.shape[axis] - WINDOW + 1
        blurred = np.zeros([*image.shape[:axis], places, *image.shape[axis + 1 :]])
        for start, weight in enumerate(weights):
            blurred += weight * np.take(image, range(start, start + places), axis)
        image = blurred
    return image
