"""Folders of samples: arrays, one folder for each input, or images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarkfast.calibration.data.array_files import StoredArray, open_arrays, read_arrays
from quarkfast.calibration.data.check import as_feed, check_rows
from quarkfast.calibration.data.images import IMAGE_SUFFIXES, PREPROCESSES, Preprocess, find_preprocess, load_image
from quarkfast.calibration.data.inputs import Feed, ModelInput
from quarkfast.errors import CalibrationError
from quarkfast.wording import counted

__all__ = ["Folder", "open_folder"]

_WHERE = "calibration data"
_ARRAY_SUFFIXES = {".npy", ".npz"}


@dataclass(frozen=True)
class Folder:
    """The samples of a folder: one file each, or one file in the folder of each input.

    Attributes:
        files: For each sample the file of each input; a file under the name ``""`` holds all of them.
        inputs: What the model wants.
        preprocess: How images become arrays; None for files of arrays.
    """

    files: Sequence[Mapping[str, Path]]
    inputs: Sequence[ModelInput]
    preprocess: Preprocess | None = None

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Feed]:
        """Reads the samples one by one; where a file holds no batch dimension, one of size 1 is added."""
        ranks = {wanted.name: len(wanted.shape) for wanted in self.inputs if wanted.shape is not None}
        for files in self.files:
            if self.preprocess is None:
                feed = self._arrays(files)
            else:
                feed = {self.inputs[0].name: load_image(files[""], self.inputs[0], self.preprocess)}
            yield {name: array[None] if array.ndim + 1 == ranks.get(name) else array for name, array in feed.items()}

    def _arrays(self, files: Mapping[str, Path]) -> Feed:
        feed: Feed = {}
        for name, path in files.items():
            where, opened = f"{_WHERE}: {path}", open_arrays(path)
            declared = (
                opened.declared()
                if isinstance(opened, StoredArray)
                else {member: array.declared() for member, array in opened.items()}
            )
            check_rows(as_feed({name: declared} if name else declared, self.inputs, where), self.inputs, where)
            feed |= as_feed({name: read_arrays(path)} if name else read_arrays(path), self.inputs, where)
        return feed


def open_folder(
    path: Path,
    inputs: Sequence[ModelInput],
    preprocess: str | Mapping[str, Any] | None = None,
    samples: int | None = None,
) -> Folder:
    """Finds the samples in a folder.

    A folder holds .npy files (for a model of one input) or .npz files (by input name), one sample or batch a file; or
    one folder of .npy files for each input, with the same file names in each; or images, in folders of any depth. Files
    are taken in the order of their names; of more than `samples`, so many in equal steps, because a folder is often
    sorted by class.

    Args:
        path: The folder.
        inputs: What the model wants.
        preprocess: How images become arrays: what :func:`find_preprocess` takes.
        samples: How many files to take; None means all.

    Raises:
        CalibrationError: If it holds nothing of that, or both arrays and images, or images without a preprocess.
    """
    names = [wanted.name for wanted in inputs]
    chosen: Preprocess | None = None
    if names and all((path / name).is_dir() for name in names):
        files = _columns(path, names)
    else:
        arrays = [{"": file} for file in _files(path.iterdir(), _ARRAY_SUFFIXES)]
        images = [{"": file} for file in _files(path.rglob("*"), IMAGE_SUFFIXES)]
        if arrays and images:
            raise CalibrationError(
                f"{_WHERE}: expected arrays or images in {str(path)!r}, got {len(arrays)} and {len(images)}"
            )
        files = arrays or images
        if images:
            chosen = _preprocess_of(len(images), inputs, preprocess)
    if not files:
        raise CalibrationError(f"{_WHERE}: expected .npy, .npz or image files in {str(path)!r}, got none")
    return Folder(_spread(files, samples), tuple(inputs), chosen)


def _columns(path: Path, names: Sequence[str]) -> list[dict[str, Path]]:
    """Pairs the files of the same name in the folder of each input."""
    found = {name: {file.name: file for file in _files((path / name).iterdir(), {".npy"})} for name in names}
    first = found[names[0]]
    for name, files in found.items():
        if differing := sorted(files.keys() ^ first.keys()):
            raise CalibrationError(
                f"{_WHERE}: expected the same file names for every input in {str(path)!r}, "
                f"got {differing[0]!r} for only one of {names[0]!r}, {name!r}"
            )
    return [{name: found[name][file] for name in names} for file in first]


def _preprocess_of(count: int, inputs: Sequence[ModelInput], preprocess: str | Mapping[str, Any] | None) -> Preprocess:
    if preprocess is None:
        bare = [name for name, row in PREPROCESSES.items() if row.scale == 1.0] if inputs[0].bytes_by else PREPROCESSES
        because = f" (pixels from 0 to 255, by {inputs[0].bytes_by})" if inputs[0].bytes_by else ""
        raise CalibrationError(
            f"preprocess: expected one of {', '.join(bare)}{because} or JSON of settings, for a folder of "
            f"{counted(count, 'image')}, got nothing"
        )
    if len(inputs) != 1:
        listed = ", ".join(repr(wanted.name) for wanted in inputs)
        raise CalibrationError(f"{_WHERE}: expected a model of one input for a folder of images, got inputs {listed}")
    chosen = find_preprocess(preprocess)
    if inputs[0].bytes_by and chosen.scale != 1.0 and isinstance(preprocess, str) and preprocess in PREPROCESSES:
        raise CalibrationError(
            f"preprocess: expected pixels from 0 to 255 for {inputs[0].name!r}, by {inputs[0].bytes_by}, "
            f"got {preprocess}, which divides by {chosen.scale:g}; take yolox, or to divide all the same "
            f'\'{{"recipe": "{preprocess}"}}\''
        )
    return chosen


def _files(paths: Iterator[Path], suffixes: set[str]) -> list[Path]:
    return sorted(path for path in paths if path.suffix.lower() in suffixes and path.is_file())


def _spread(files: Sequence[Mapping[str, Path]], samples: int | None) -> Sequence[Mapping[str, Path]]:
    if samples is None or samples >= len(files):
        return files
    return [files[index * len(files) // samples] for index in range(samples)]
