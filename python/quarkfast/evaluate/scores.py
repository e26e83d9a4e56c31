"""Structural similarity of images (SSIM)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.ranges.decibels import decibels

__all__ = ["WINDOW", "Gathered", "Scores", "scores_by_name", "ssim"]

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


_FEW = 5
_BYTE = 255.0


@dataclass(frozen=True, slots=True)
class Scores:
    """How close one output is to the reference, over all samples.

    Attributes:
        output: Its name; of folders, what their files are.
        samples: Rows, or files.
        sqnr: ``10 log10(sum ref^2 / sum (ref - out)^2)`` over all samples, in dB.
        cosine_mean: Mean over samples of the cosine of the angle between both, each as one vector; NaN where one of
            them is all zero is left out.
        cosine_min: The least of them.
        l2_mean: Mean over samples of the Euclidean norm of the difference.
        l2_max: The largest of them.
        psnr_mean: Mean over samples of ``10 log10(max(ref)^2 / mean (ref - out)^2)``, in dB; samples without any
            difference, whose ratio is infinite, are left out.
        psnr_min: The least of them.
        top1: Percent of samples whose largest value stands at the same place; None where a sample is no row of classes.
        top5: Percent of samples whose largest value in the reference is among the five largest; None as above, and with
            five classes or fewer.
        ssim_mean: Mean structural similarity; None where samples are no images.
        ssim_min: The least of them.
        not_finite: Values that are NaN or infinite in one of the two and not the same in both; they count for nothing
            else.
    """

    output: str
    samples: int
    sqnr: float
    cosine_mean: float
    cosine_min: float
    l2_mean: float
    l2_max: float
    psnr_mean: float
    psnr_min: float
    top1: float | None = None
    top5: float | None = None
    ssim_mean: float | None = None
    ssim_min: float | None = None
    not_finite: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has neither infinity nor NaN: None stands for them."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: None if isinstance(f, float) and not math.isfinite(f) else f for name, f in found.items()}


@dataclass(slots=True)
class Gathered:
    """Sums and samples' figures of one output, from batches of any size. All arithmetic is in float64."""

    output: str
    signal: float = 0.0
    noise: float = 0.0
    not_finite: int = 0
    cosine: list[float] = field(default_factory=list)
    l2: list[float] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    among_five: list[bool] = field(default_factory=list)
    similarity: list[float] = field(default_factory=list)

    def add(self, reference: NDArray[Any], found: NDArray[Any]) -> None:
        """Counts a batch, whose first axis counts samples; both have one shape."""
        wide = reference.reshape(len(reference), -1).astype(np.float64)
        got = found.reshape(len(found), -1).astype(np.float64)
        usable = np.isfinite(wide) & np.isfinite(got)
        if not usable.all():
            same = (wide == got) | (np.isnan(wide) & np.isnan(got))
            self.not_finite += int((~usable & ~same).sum())
            wide, got = np.where(usable, wide, 0.0), np.where(usable, got, 0.0)
        self._add_distances(wide, got)
        if reference.ndim == 2 and reference.shape[1] > 1:
            self._add_classes(wide, got)

    def add_image(self, reference: NDArray[Any], found: NDArray[Any]) -> None:
        """Counts an image of ``[height, width]`` or ``[height, width, channels]`` with values from 0 to 255."""
        self.add(reference[None], found[None])
        if min(reference.shape[:2]) >= WINDOW:
            self.similarity.append(ssim(reference, found, _BYTE))

    def scores(self) -> Scores:
        """Returns what was found; at least one sample was counted."""
        return Scores(
            self.output,
            len(self.l2),
            decibels(self.signal, self.noise),
            _mean(self.cosine),
            min(self.cosine, default=math.nan),
            _mean(self.l2),
            max(self.l2),
            _mean(self.psnr) if self.psnr else math.inf,
            min(self.psnr, default=math.inf),
            100 * _mean(self.first) if self.first else None,
            100 * _mean(self.among_five) if self.among_five else None,
            _mean(self.similarity) if self.similarity else None,
            min(self.similarity) if self.similarity else None,
            self.not_finite,
        )

    def _add_distances(self, wide: NDArray[np.float64], got: NDArray[np.float64]) -> None:
        noise = np.square(wide - got).sum(axis=1)
        signal, length = np.square(wide).sum(axis=1), np.square(got).sum(axis=1)
        self.signal += float(signal.sum())
        self.noise += float(noise.sum())
        self.l2 += np.sqrt(noise).tolist()
        both = (signal > 0) & (length > 0)
        product = np.einsum("ij,ij->i", wide, got)[both]
        self.cosine += (product / np.sqrt(signal[both]) / np.sqrt(length[both])).tolist()
        differs = noise > 0
        peak = wide.max(axis=1, initial=-math.inf)[differs]
        with np.errstate(divide="ignore"):
            self.psnr += (10 * np.log10(np.square(peak) * wide.shape[1] / noise[differs])).tolist()

    def _add_classes(self, wide: NDArray[np.float64], got: NDArray[np.float64]) -> None:
        best = wide.argmax(axis=1)
        self.first += (got.argmax(axis=1) == best).tolist()
        if wide.shape[1] > _FEW:
            larger = (got > np.take_along_axis(got, best[:, None], axis=1)).sum(axis=1)
            self.among_five += (larger < _FEW).tolist()


def _mean(values: list[float] | list[bool]) -> float:
    return float(np.mean(values)) if values else math.nan


def scores_by_name(gathered: Mapping[str, Gathered]) -> tuple[Scores, ...]:
    """Returns the scores of all outputs that have samples."""
    return tuple(each.scores() for each in gathered.values() if each.l2)
