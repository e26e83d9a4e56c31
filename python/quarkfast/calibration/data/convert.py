"""Converts one item of the user's calibration data to a feed: arrays by input name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import Feed, ModelInput
from quarkfast.errors import CalibrationError

__all__ = ["as_array", "as_feed"]


def as_feed(item: Any, inputs: Sequence[ModelInput], where: str) -> Feed:
    """Returns `item` as arrays by input name.

    Args:
        item: A dict by input name; or an array, or a tuple or list of arrays in the order of the inputs. Further
            members of a tuple or list are left out: they are the labels of a training loader.
        inputs: Inputs of the model.
        where: Which sample this is, for the error message.

    Raises:
        CalibrationError: If there are fewer arrays than inputs, or something is no array.
    """
    if isinstance(item, tuple | list) and item and isinstance(item[0], Mapping | tuple):
        item = item[0]  # of (inputs, labels)
    if isinstance(item, Mapping):
        return {str(name): as_array(value, f"{where}: input {str(name)!r}") for name, value in item.items()}
    values = list(item) if isinstance(item, tuple | list) else [item]
    if len(values) < len(inputs):
        names = ", ".join(repr(wanted.name) for wanted in inputs)
        raise CalibrationError(
            f"{where}: expected one array for each of the inputs {names}, got {len(values)}; pass dicts by input name"
        )
    return {
        wanted.name: as_array(value, f"{where}: input {wanted.name!r}")
        for wanted, value in zip(inputs, values, strict=False)
    }


def as_array(value: Any, where: str) -> NDArray[Any]:
    """Returns `value` as an array. Tensors of other packages are recognized by their methods; none is imported.

    Raises:
        CalibrationError: If it is no array.
    """
    if isinstance(value, np.ndarray):
        return value
    for method in ("detach", "cpu"):  # without them NumPy refuses a tensor with gradients or on another device
        if hasattr(value, method):
            value = getattr(value, method)()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CalibrationError(f"{where}: expected an array, got {type(value).__name__} ({error})") from error
    if array.dtype == object and not _holds_strings(array):
        raise CalibrationError(f"{where}: expected an array, got {type(value).__name__}")
    return array


def _holds_strings(array: NDArray[Any]) -> bool:
    return bool(array.size) and all(isinstance(value, str | bytes) for value in array.flat)
