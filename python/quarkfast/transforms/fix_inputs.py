"""Inputs of a model become constants, and what follows from them is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import drop_unread
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.infer_types import infer_types

__all__ = ["fix_inputs"]

# More elements than this are taken for a mistake: an input of that size is data.
_LARGEST = 1 << 20


def fix_inputs(model: ir.Model, values: Mapping[str, ArrayLike]) -> None:
    """Makes constants of the inputs of `model` that are named, in place.

    What follows from constants alone is computed, and an If whose condition does becomes the branch that it takes.
    A single number fills an input of any fixed shape. Other inputs and all outputs keep their names and types; error 0.

    Raises:
        ConfigError: If a name is no input, a value does not fit, or no input would be left.
    """
    inputs = {name_of(value): value for value in model.graph.inputs}
    for name in values:
        if name not in inputs:
            raise ConfigError(f"inputs: expected {', '.join(inputs)}, got {name!r}{did_you_mean(name, inputs)}")
    if not inputs.keys() - values.keys():
        raise ConfigError("inputs: expected an input that stays one, got values for all of them")
    fixed = {name: _fitted(inputs[name], np.asarray(value)) for name, value in values.items()}
    for name, array in fixed.items():
        value = inputs[name]
        model.graph.inputs.remove(value)
        value.const_value, value.shape = ir.Tensor(array, name=name), ir.Shape(array.shape)
        model.graph.register_initializer(value)
    infer_types(model)
    while fold_constants(model):  # what it computes tells onnx more, which tells it more
        infer_types(model)
    for graph in graphs_of(model):
        drop_unread(graph)


def _fitted(value: ir.Value, given: NDArray[Any]) -> NDArray[Any]:
    """Returns what is given in the type and the shape of an input.

    Raises:
        ConfigError: If it does not fit.
    """
    name, dtype = name_of(value), None if value.dtype is None else value.dtype.numpy()
    if dtype is None or dtype == np.object_:
        raise ConfigError(f"inputs: {name}: expected an input of numbers, got one of strings or of no type")
    if not _holds(dtype, given):
        raise ConfigError(f"inputs: {name}: expected numbers that {dtype} holds, got {given.tolist()}")
    array = given.astype(dtype)
    if value.shape is None:
        return array
    known = [size for size in value.shape if isinstance(size, int)]
    if array.ndim == 0 and len(known) == len(value.shape) and math.prod(known) <= _LARGEST:
        return np.full(known, array, dtype)
    wanted = list(value.shape)
    if len(wanted) != array.ndim or any(
        isinstance(size, int) and size != other for size, other in zip(wanted, array.shape, strict=True)
    ):
        words = ", ".join(str(size) if isinstance(size, int) else "?" for size in wanted)
        raise ConfigError(f"inputs: {name}: expected values of shape [{words}], got {list(array.shape)}")
    return array


def _holds(dtype: np.dtype[Any], given: NDArray[Any]) -> bool:
    """Whether a type holds numbers: integers as they are, others but for their last digits."""
    if given.dtype.kind not in "biuf":
        return False
    with np.errstate(all="ignore"):
        array = given.astype(dtype).astype(np.float64)
    exact = given.astype(np.float64)
    same = array == exact if dtype.kind in "biu" else np.isfinite(array) == np.isfinite(exact)
    return bool(same.all())
