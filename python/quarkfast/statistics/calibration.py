"""The calibration: statistics by tensor, and the model and samples that they belong to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import CalibrationError, did_you_mean
from quarkfast.kernels import Range
from quarkfast.statistics.files import read_statistics, write_statistics
from quarkfast.statistics.tensor import TensorStatistics, merge_statistics
from quarkfast.wording import counted

__all__ = ["Calibration", "merge", "open_calibration"]


@dataclass(frozen=True)
class Calibration:
    """Statistics of the tensors of one model, gathered from any number of samples, runs, processes and machines.

    Attributes:
        tensors: Statistics by tensor name, in the model's order.
        key: Hash of the model and of the settings that change what it computes; None for a table of another tool,
            which says nothing about its model.
        samples: Number of samples seen (rows of the first input).
        runs: Number of runs of the model.
        random: Whether some of the samples were random.
        batch_size: Rows of a run, where they were asked for.
        complete: Whether all samples were seen; False for what is kept of a run that was cut short.

    Example:
        >>> import numpy as np, quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> calibration = quarkfast.calibrate(MODEL, load_images().calibration[:32])
        >>> calibration.samples, calibration.tensors["image"].range.max
        (32, 1.0)
        >>> result = quarkfast.quantize(MODEL, calibration=calibration)
    """

    tensors: Mapping[str, TensorStatistics]
    key: str | None
    samples: int
    runs: int
    random: bool = False
    batch_size: int | None = None
    complete: bool = True

    def __repr__(self) -> str:
        """Returns one line."""
        return f"Calibration: {counted(len(self.tensors), 'tensor')} on {counted(self.samples, 'sample')}"

    def __eq__(self, other: object) -> bool:
        """Whether the key, the number of samples and every number of every tensor are equal."""
        if not isinstance(other, Calibration):
            return NotImplemented
        return (self.key, self.samples, dict(self.tensors)) == (other.key, other.samples, dict(other.tensors))

    __hash__ = None  # type: ignore[assignment]

    @property
    def ranges(self) -> dict[str, Range]:
        """The range of each tensor."""
        return {name: each.range for name, each in self.tensors.items()}

    def merge(self, *others: Calibration) -> Calibration:
        """Returns this and `others` together: what one run over all their samples would have given.

        Raises:
            CalibrationError: If they are of different models, settings or tensors, or of another tool.
        """
        return merge((self, *others))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a JSON file for people and an .npz file of the same name beside it, both whole or not at all.

        Returns:
            The path of the JSON file.

        Raises:
            OutputError: If they cannot be written.
        """
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return write_statistics(Path(path), self.tensors, fields)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Calibration:
        """Reads what :meth:`save` wrote, or a table of ONNX Runtime or Quark (ranges only).

        Raises:
            CalibrationError: If there is no such file, or it is of another kind, or damaged.
        """
        tensors, fields = read_statistics(Path(path))
        return Calibration(tensors, **fields)

    def select(self, tensors: Iterable[str], key: str) -> dict[str, TensorStatistics]:
        """Returns the statistics of `tensors` after making sure that they are of the model and settings of `key`.

        Raises:
            CalibrationError: If the key is another one, the run was cut short, or a tensor is missing.
        """
        if self.key is not None and self.key != key:
            raise CalibrationError(
                f"calibration: expected one of this model and these settings ({key[:12]}), got one of {self.key[:12]}; "
                "calibrate this model"
            )
        if not self.complete:
            raise CalibrationError(
                f"calibration: expected a complete one, got one that was cut short after {self.samples} samples; "
                "resume it, or merge it, which takes it as it is"
            )
        for name in tensors:
            if name not in self.tensors:
                raise CalibrationError(
                    f"calibration: expected statistics of tensor {name!r}, got {len(self.tensors)} others"
                    f"{did_you_mean(name, self.tensors)}"
                )
        return {name: self.tensors[name] for name in tensors}

    def channel_maxima(self, tensors: Iterable[str], key: str) -> dict[str, NDArray[np.float32]]:
        """Returns the largest magnitude in each channel of `tensors`, of the model and settings of `key`.

        Raises:
            CalibrationError: As :meth:`select`, or if a tensor was not looked at channel by channel.
        """
        found = {name: each.channel_absmax for name, each in self.select(tensors, key).items()}
        for name, maxima in found.items():
            if maxima is None:
                raise CalibrationError(
                    f"calibration: expected the largest magnitude in each channel of tensor {name!r}, got its range "
                    "alone; calibrate with preset='DYNAMIC' or without a preset"
                )
        return {name: maxima for name, maxima in found.items() if maxima is not None}


def open_calibration(calibration: Calibration | str | os.PathLike[str]) -> Calibration:
    """Returns a calibration, read from disk where a path is given.

    Raises:
        CalibrationError: If it cannot be read.
        TypeError: If it is neither.
    """
    if isinstance(calibration, Calibration):
        return calibration
    if isinstance(calibration, str | os.PathLike):
        return Calibration.load(calibration)
    raise TypeError(f"calibration: expected a Calibration or a path, got {type(calibration).__name__}")


def merge(parts: Iterable[Calibration]) -> Calibration:
    """Returns what one run over the samples of all `parts` would have given; their order does not matter.

    Raises:
        CalibrationError: If there is none, or they are of different models, settings or tensors, or of another tool.
    """
    found = list(parts)
    if not found:
        raise CalibrationError("merge: expected at least one calibration, got none")
    first = found[0]
    for part in found:
        if part.key is None:
            raise CalibrationError(
                "merge: expected calibrations with statistics, got a table of ranges of another tool"
            )
        if part.key != first.key or part.tensors.keys() != first.tensors.keys():
            raise CalibrationError(
                f"merge: expected calibrations of one model and its settings, got {first.key and first.key[:12]} with "
                f"{len(first.tensors)} tensors and {part.key[:12]} with {len(part.tensors)}"
            )
    merged = merge_statistics([[part.tensors[name] for name in first.tensors] for part in found])
    sizes = {part.batch_size for part in found}
    return Calibration(
        dict(zip(first.tensors, merged, strict=True)),
        first.key,
        sum(part.samples for part in found),
        sum(part.runs for part in found),
        any(part.random for part in found),
        sizes.pop() if len(sizes) == 1 else None,
    )
