"""What a model wants to be fed, and whether a sample is that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quarkfast.errors import CalibrationError, did_you_mean

__all__ = ["Feed", "ModelInput", "check_feed", "model_inputs", "rows_of"]

Feed = dict[str, NDArray[Any]]
"""One run's inputs by name."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One graph input: name, NumPy dtype, and dimensions, None where any size will do."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None

    @property
    def batch(self) -> int | None:
        """The first dimension if it is fixed."""
        return self.shape[0] if self.shape else None


def model_inputs(model: ir.Model) -> tuple[ModelInput, ...]:
    """Returns the inputs of `model` that have no default."""
    return tuple(_describe(value) for value in model.graph.inputs if value.const_value is None)


def _describe(value: ir.Value) -> ModelInput:
    shape = None if value.shape is None else tuple(dim if isinstance(dim, int) else None for dim in value.shape)
    dtype = np.dtype(np.float32) if value.dtype is None else np.dtype(value.dtype.numpy())
    return ModelInput(value.name or "", dtype, shape)


def rows_of(feed: Feed) -> int:
    """Returns how many samples a feed holds: the length of its first array, 1 for a scalar or no input."""
    first = next(iter(feed.values()), None)
    return 1 if first is None or not first.ndim else len(first)


def check_feed(feed: Mapping[str, NDArray[Any]], inputs: Sequence[ModelInput], where: str) -> None:
    """Makes sure that `feed` fits `inputs`.

    Args:
        feed: Arrays by input name.
        inputs: What the model wants.
        where: Which sample this is, for the message.

    Raises:
        CalibrationError: If a name, dtype, rank or fixed dimension differs, or an array is empty.
    """
    known = {wanted.name: wanted for wanted in inputs}
    for name in feed:
        if name not in known:
            raise CalibrationError(
                f"{where}: expected inputs {_listed(known)}, got {name!r}{did_you_mean(name, known)}"
            )
    for wanted in inputs:
        if wanted.name not in feed:
            raise CalibrationError(f"{where}: expected inputs {_listed(known)}, got only {_listed(feed)}")
        _check_array(feed[wanted.name], wanted, f"{where}: input {wanted.name!r}")


def _check_array(array: NDArray[Any], wanted: ModelInput, where: str) -> None:
    if array.dtype != wanted.dtype:
        raise CalibrationError(
            f"{where}: expected dtype {wanted.dtype}, got {array.dtype}; preprocess as the model's own code does"
        )
    if wanted.shape is not None and (
        array.ndim != len(wanted.shape)
        or any(fixed is not None and fixed != got for fixed, got in zip(wanted.shape, array.shape, strict=True))
    ):
        shape = "[" + ", ".join("any" if dim is None else str(dim) for dim in wanted.shape) + "]"
        raise CalibrationError(f"{where}: expected shape {shape}, got {list(array.shape)}{_hint(array, wanted)}")
    if not array.size:
        raise CalibrationError(f"{where}: expected at least one value, got shape {list(array.shape)}")


def _hint(array: NDArray[Any], wanted: ModelInput) -> str:
    shape = wanted.shape or ()
    if array.ndim == len(shape) - 1:
        return "; the batch dimension is missing"
    if array.ndim == len(shape) == 4 and array.shape[3] == shape[1]:
        return "; the channels come first (NCHW)"
    return ""


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
