"""Checks of a sample: whether it is what the model wants, or can be converted to it, before hours are spent on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import Feed, ModelInput, may_rebatch
from quarkfast.errors import CalibrationError, did_you_mean

__all__ = ["as_array", "as_feed", "check_feed", "check_rows", "warn_of_no_numbers", "warn_of_raw_pixels"]

_IMAGE_CHANNELS = (1, 3)
# A normalized image stays within a few units; whole numbers beyond this are pixels that nobody divided.
_PIXEL_FLOOR = 16


def check_feed(feed: Mapping[str, NDArray[Any]], inputs: Sequence[ModelInput], where: str) -> None:
    """Makes sure that `feed` fits `inputs`.

    Args:
        feed: Arrays by input name.
        inputs: What the model wants.
        where: Which sample this is, for the message.

    Raises:
        CalibrationError: If a name, dtype, rank or fixed dimension differs, or no array holds a value. One may be
            empty: the cache of a decoder that begins, or axes that stand for all.
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
    if inputs and not any(feed[wanted.name].size for wanted in inputs):
        name, array = inputs[0].name, feed[inputs[0].name]
        raise CalibrationError(f"{where}: input {name!r}: expected at least one value, got shape {list(array.shape)}")


def check_rows(feed: Mapping[str, NDArray[Any]], inputs: Sequence[ModelInput], where: str) -> None:
    """Makes sure that arrays fit their inputs apart from the batch dimension, which may differ or be missing.

    Args:
        feed: Arrays by input name; names that are missing or unknown are not looked at.
        inputs: What the model wants.
        where: Which file they are from, for the message.

    Raises:
        CalibrationError: If a dtype, rank or fixed dimension differs.
    """
    batched = may_rebatch(inputs)
    for wanted in inputs:
        array = feed.get(wanted.name)
        if array is None:
            continue
        shape = wanted.shape
        rows = array[None] if shape is not None and array.ndim + 1 == len(shape) else array
        free = wanted._replace(shape=(None, *shape[1:])) if batched and shape and isinstance(shape[0], int) else wanted
        _check_array(rows, free, f"{where}: input {wanted.name!r}")


def _check_array(array: NDArray[Any], wanted: ModelInput, where: str) -> None:
    if array.dtype != wanted.dtype and not (wanted.dtype == object and array.dtype.kind in "US"):
        raise CalibrationError(
            f"{where}: expected dtype {wanted.dtype}, got {array.dtype}; preprocess as the model's own code does"
        )
    if wanted.shape is not None and (
        array.ndim != len(wanted.shape)
        or any(isinstance(dim, int) and dim != got for dim, got in zip(wanted.shape, array.shape, strict=True))
    ):
        raise CalibrationError(f"{where}: expected shape {wanted}, got {list(array.shape)}{_hint(array, wanted)}")


def _hint(array: NDArray[Any], wanted: ModelInput) -> str:
    shape = wanted.shape or ()
    if array.ndim == len(shape) - 1:
        return "; the batch dimension is missing"
    if array.ndim == len(shape) == 4:
        if shape[1] in _IMAGE_CHANNELS and array.shape[3] == shape[1]:
            return "; the channels come first (NCHW)"
        if shape[3] in _IMAGE_CHANNELS and array.shape[1] == shape[3]:
            return "; the channels come last (NHWC)"
    if array.ndim == len(shape) and isinstance(shape[0], int) and array.shape[1:] == shape[1:]:
        return f"; batch_size={shape[0]} joins and cuts samples to the model's batch"
    return ""


def warn_of_raw_pixels(feed: Mapping[str, NDArray[Any]], where: str) -> None:
    """Warns if an image looks like pixels from 0 to 255 where a model in floats usually takes 0 to 1.

    Warns:
        UserWarning: If a float input of rank 4 with one or three channels holds nothing but whole numbers from 0 to
            255, some of them large.
    """
    for name, array in feed.items():
        if array.ndim != 4 or array.dtype.kind != "f" or not array.size:
            continue
        image = {array.shape[1], array.shape[3]} & {*_IMAGE_CHANNELS}
        if image and _PIXEL_FLOOR < array.max() <= 255 and array.min() >= 0 and np.all(array == np.floor(array)):
            warnings.warn(
                f"{where}: input {name!r}: all values are whole numbers from {array.min():g} to {array.max():g}; "
                "if the model was trained on 0 to 1 or on normalized images, preprocess them likewise",
                stacklevel=2,
            )


def warn_of_no_numbers(feed: Mapping[str, NDArray[Any]], where: str) -> None:
    """Warns if an input holds NaN and infinities alone, of which no range follows.

    Warns:
        UserWarning: If a float input has values, and none of them is finite.
    """
    for name, array in feed.items():
        if array.dtype.kind == "f" and array.size and not np.isfinite(array).any():
            warnings.warn(
                f"{where}: expected finite values in input {name!r}, got NaN or infinity alone in the first sample",
                stacklevel=2,
            )


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


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
