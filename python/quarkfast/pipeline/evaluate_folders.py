"""Two folders of outputs or images, file by file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from quarkfast.calibration.data.array_files import read_arrays
from quarkfast.calibration.data.images import IMAGE_SUFFIXES, read_pixels
from quarkfast.errors import CalibrationError
from quarkfast.evaluate.scores import Gathered, scores_by_name
from quarkfast.pipeline.evaluation import Evaluation

__all__ = ["evaluate_folders"]

_WHERE = "evaluate"
_IMAGES = "images"
_ARRAYS = "arrays"

Progress = Callable[[str, int, int | None], None]


def evaluate_folders(
    reference: str | os.PathLike[str], results: str | os.PathLike[str], *, progress: Progress | None = None
) -> Evaluation:
    """Says how close the files of one folder come to those of the same names in another.

    A .npy file is one sample, each array of an .npz file one sample of the output of its name, and an image (.png,
    .jpg, ...) one sample of its pixels: red, green and blue from 0 to 255. One pair of files is in memory at a time.

    Args:
        reference: The folder of the float model's outputs.
        results: The folder of the quantized model's.
        progress: Called as files are done: stage, files done, files in all.

    Returns:
        Scores of images, of arrays, and of each name in .npz files. Files that only one folder has are named in
        `not_compared`, as are files of other kinds.

    Raises:
        CalibrationError: If a folder is missing, no file has a partner, one cannot be read, or shapes differ.
        DependencyError: If there are images and Pillow is not installed.

    Example:
        >>> import numpy as np, pathlib
        >>> for name, values in {"float": [1.0, 2.0, 2.0], "int8": [1.0, 2.0, 2.1]}.items():
        ...     pathlib.Path(name).mkdir(exist_ok=True)
        ...     np.save(f"{name}/0.npy", np.array(values))
        >>> import quarkfast
        >>> round(quarkfast.evaluate_folders("float", "int8").scores[0].l2_mean, 6)
        0.1
    """
    first, second = (_files(Path(folder)) for folder in (reference, results))
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise CalibrationError(f"{_WHERE}: expected files of the same names in both folders, got none")
    gathered: dict[str, Gathered] = {}
    for count, name in enumerate(shared, 1):
        if Path(name).suffix.lower() in IMAGE_SUFFIXES:
            pixels = read_pixels(first[name]), read_pixels(second[name])
            _check_shapes(name, *pixels)
            gathered.setdefault(_IMAGES, Gathered(_IMAGES)).add_image(*pixels)
        else:
            _add_arrays(gathered, name, first[name], second[name])
        if progress is not None:
            progress(_WHERE, count, len(shared))
    return Evaluation(scores_by_name(gathered), not_compared=tuple(sorted(first.keys() ^ second.keys())))


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise CalibrationError(f"{_WHERE}: expected a folder of results, got no such folder at {str(folder)!r}")
    wanted = {".npy", ".npz", *IMAGE_SUFFIXES}
    return {path.name: path for path in folder.iterdir() if path.suffix.lower() in wanted and path.is_file()}


def _add_arrays(gathered: dict[str, Gathered], name: str, first: Path, second: Path) -> None:
    wanted, found = _named(read_arrays(first)), _named(read_arrays(second))
    if wanted.keys() != found.keys():
        listed = ", ".join(map(repr, sorted(wanted.keys() ^ found.keys())))
        raise CalibrationError(f"{_WHERE}: {name}: expected the same arrays in both files, got {listed} in one alone")
    for output, array in wanted.items():
        other = found[output]
        _check_shapes(f"{name}: {output}", array, other)
        if array.dtype.kind not in "fiu" or other.dtype.kind not in "fiu":
            raise CalibrationError(f"{_WHERE}: {name}: expected numbers, got {array.dtype} and {other.dtype}")
        # A classifier's results are often saved with the batch dimension of one.
        row = array.ndim == 2 and len(array) == 1
        gathered.setdefault(output, Gathered(output)).add(*((array, other) if row else (array[None], other[None])))


def _named(arrays: NDArray[Any] | dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return arrays if isinstance(arrays, dict) else {_ARRAYS: arrays}


def _check_shapes(where: str, first: NDArray[Any], second: NDArray[Any]) -> None:
    if first.shape != second.shape:
        raise CalibrationError(
            f"{_WHERE}: {where}: expected the shape of the reference {list(first.shape)}, got {list(second.shape)}"
        )
