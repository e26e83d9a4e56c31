"""Figures of Quark's tool `evaluate`: two folders of results, with Quark's arguments and Quark's figures.

Every figure is computed as Quark's tool does, in float32, so that both print the same: its structural similarity takes
second moments under the window for variances and covariance. ``quarkfast evaluate`` has sums in float64 and the
structural similarity as it was published.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.array_files import read_arrays
from quarkfast.calibration.data.images import read_pixels
from quarkfast.compat.quark.onnx.tools.command import Parser
from quarkfast.errors import CalibrationError, QuarkfastError

__all__ = ["compare_folders"]

_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_FOLDERS = ("--baseline_results_folder", "--quantized_results_folder")

# Name of a figure, and whether the least or the largest of all files counts beside the mean.
_FIGURES = (("cos similarity", "Min"), ("l2 distance", "Max"), ("psnr", "Min"), ("ssim", "Min"))


def compare_folders(words: Sequence[str] | None = None) -> int:
    """Compares two folders and prints what Quark's tool prints: the mean of each figure, and the worst file's.

    Args:
        words: The words after the command's name; the process's own by default.

    Returns:
        0, or 1 where the folders cannot be compared.
    """
    parser = Parser(prog="evaluate", description="Compare two folders of .npy, .png and .jpg files.")
    parser.add_argument("folders", nargs="*", help="results of the float model, and of the quantized one")
    for flag in _FOLDERS:
        parser.add_argument(flag, help="the same by name")
    given = parser.parse_args(words)
    named = [given.baseline_results_folder, given.quantized_results_folder]
    folders = [*filter(None, named), *given.folders]
    if len(folders) != 2:
        parser.error(f"expected two folders, got {len(folders)}")
    try:
        found = _figures(Path(folders[0]), Path(folders[1]))
    except QuarkfastError as error:
        sys.stderr.write(f"evaluate: error: {error}\n")
        return 1
    for (name, worst), values in zip(_FIGURES, zip(*found, strict=True), strict=True):
        if None not in values:
            sys.stdout.write(f"Mean {name}: {np.mean(values)}\n")
            sys.stdout.write(f"{worst} {name}: {np.min(values) if worst == 'Min' else np.max(values)}\n")
    return 0


def _figures(reference: Path, results: Path) -> list[tuple[float | None, ...]]:
    """Returns cosine, L2, PSNR and structural similarity of each file, images first."""
    readers: list[tuple[Callable[[Path], Any], tuple[str, ...]]] = [
        (read_pixels, (".png", ".jpg")),
        (read_arrays, (".npy",)),
    ]
    for folder in (reference, results):
        if not folder.is_dir():
            raise CalibrationError(f"expected a folder of results, got no such folder at {str(folder)!r}")
    found = []
    for read, endings in readers:
        for path in sorted(each for each in reference.iterdir() if each.suffix in endings):
            other = results / path.name
            if not other.is_file():
                raise CalibrationError(
                    f"{path.name}: expected a file of that name in both folders, got none in {other.parent}"
                )
            found.append(_of_file(path.name, read(path), read(other)))
    if not found:
        raise CalibrationError(f"expected .npy, .png or .jpg files, got none in {str(reference)!r}")
    return found


def _of_file(name: str, one: NDArray[Any], other: NDArray[Any]) -> tuple[float | None, ...]:
    if one.shape != other.shape:
        raise CalibrationError(f"{name}: expected the shape {list(one.shape)}, got {list(other.shape)}")
    x, y = one.astype(np.float32), other.astype(np.float32)
    flat, given = x.ravel(), y.ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.dot(flat, given) / (np.linalg.norm(flat) * np.linalg.norm(given))
    return float(cosine), float(np.linalg.norm(x - y)), _psnr(x, y), _ssim(x, y) if x.ndim in (2, 3) else None


def _psnr(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    noise = float(np.mean((x - y) ** 2)) or 1e-10
    peak = float(np.max(x))
    return float(20 * np.log10(peak if peak > 0 else 1e-10) - 10 * np.log10(noise))


def _ssim(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    """Returns Quark's figure: with second moments where variances and the covariance would stand."""
    mean_x, mean_y, xx, yy, xy = map(_blurred, (x, y, x * x, y * y, x * y))
    top = (2 * mean_x * mean_y + _C1) * (2 * xy + _C2)
    return float(np.mean(top / ((mean_x**2 + mean_y**2 + _C1) * (xx + yy + _C2) + 1e-10)))


def _blurred(image: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns means under a Gaussian window at every place; beyond its last pixels the image is mirrored about them."""
    offsets = np.arange(_WINDOW) - _WINDOW // 2
    weights = np.exp(-(offsets**2) / (2 * _SIGMA**2))
    weights /= weights.sum()
    found = image.astype(np.float64)
    for axis in (0, 1):
        size = found.shape[axis]
        around = [(_WINDOW // 2, _WINDOW // 2) if each == axis else (0, 0) for each in range(found.ndim)]
        padded = np.pad(found, around, mode="reflect")
        found = sum(weight * np.take(padded, range(at, at + size), axis) for at, weight in enumerate(weights))
    return found
