"""Inputs of a model: names, types and shapes, and batches of feeds for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.pixel_range import why_bytes

__all__ = ["Feed", "ModelInput", "batch_of", "may_rebatch", "model_inputs", "regroup", "rows_of"]

Feed = dict[str, NDArray[Any]]
"""One run's inputs by name."""


class ModelInput(NamedTuple):
    """One graph input: name, NumPy dtype (strings are ``object``), and dimensions.

    A dimension is a size, the name of one that is open, or None for one that is open and has no name. A shape of None
    is not known at all. `bytes_by` says by what the input is known to take pixels from 0 to 255; it is empty otherwise.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None
    bytes_by: str = ""

    def __str__(self) -> str:
        """Returns the shape for a message, such as ``[N, 3, 32, any]``."""
        return (
            "any" if self.shape is None else "[" + ", ".join("any" if d is None else str(d) for d in self.shape) + "]"
        )


def model_inputs(model: ir.Model) -> tuple[ModelInput, ...]:
    """Returns the inputs of `model` that have no default.

    Raises:
        ModelError: If one is a sequence, of which no sample can be read.
    """
    return tuple(_describe(model, value) for value in model.graph.inputs if value.const_value is None)


def _describe(model: ir.Model, value: ir.Value) -> ModelInput:
    kind = value.type.elem_type if isinstance(value.type, ir.OptionalType) else value.type
    if isinstance(kind, ir.SequenceType):
        raise ModelError(
            f"model: expected tensors for inputs, got {value.name!r}, which is a sequence of them and cannot be fed; "
            "export the model with each as an input"
        )
    shape = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    if value.dtype == ir.DataType.STRING:
        return ModelInput(value.name or "", np.dtype(object), shape)
    dtype = np.dtype(np.float32) if value.dtype is None else np.dtype(value.dtype.numpy())
    images = shape is not None and len(shape) == 4
    return ModelInput(value.name or "", dtype, shape, why_bytes(model, value) if images else "")


def batch_of(inputs: Sequence[ModelInput]) -> int | None:
    """Returns the number of rows that the model fixes, if it does."""
    return next((wanted.shape[0] for wanted in inputs if wanted.shape and isinstance(wanted.shape[0], int)), None)


def may_rebatch(inputs: Sequence[ModelInput]) -> bool:
    """Whether the first dimension of all inputs counts samples: it has one name, or one size, in all of them."""
    first = {wanted.shape[0] for wanted in inputs if wanted.shape}
    return bool(inputs) and all(wanted.shape for wanted in inputs) and (len(first) == 1 or first == {None})


def rows_of(feed: Feed) -> int:
    """Returns how many samples a feed holds: the length of its first array, 1 for a scalar or no input."""
    first = next(iter(feed.values()), None)
    return 1 if first is None or not first.ndim else len(first)


def regroup(feeds: Iterator[Feed], size: int | Callable[[Feed], int], exact: bool = False) -> Iterator[Feed]:
    """Yields the samples of `feeds` in batches of `size` rows, in order, and holds at most one batch and one feed.

    A batch ends early where the next feed has other dimensions, as with sentences of varying length.

    Args:
        feeds: Feeds whose first dimension counts samples in every input.
        size: Rows of a batch, or a function from a feed to them, which depends on dtypes and dimensions only.
        exact: Whether the model fixes the batch size, so that samples that do not fill a batch are left out.

    Warns:
        UserWarning: If samples were left out.
    """
    held: list[Feed] = []
    left_out = 0
    rows_for = size if callable(size) else lambda _: size
    for feed in feeds:
        if held and _dtypes_and_dimensions(feed) != _dtypes_and_dimensions(held[0]):
            left_out += yield from _flush(held, exact)
            held = []
        held.append(feed)
        rows, wanted = sum(map(rows_of, held)), rows_for(feed)
        if rows >= wanted:
            joined = _join(held)
            for start in range(0, rows - wanted + 1, wanted):
                yield _cut(joined, start, start + wanted)
            held = [_cut(joined, rows - rows % wanted, rows)] if rows % wanted else []
    left_out += yield from _flush(held, exact)
    if left_out:
        warnings.warn(
            f"calibration data: {left_out} samples do not fill a batch of {size}, which the model fixes; left out",
            stacklevel=2,
        )


def _flush(held: list[Feed], exact: bool) -> Generator[Feed, None, int]:
    """Yields what is held as a last batch, or with `exact` returns the number of its samples, which are left out."""
    if held and not exact:
        yield _join(held)
    return sum(map(rows_of, held)) if exact else 0


def _dtypes_and_dimensions(feed: Feed) -> Mapping[str, object]:
    return {name: (array.dtype, array.shape[1:]) for name, array in feed.items()}


def _join(feeds: list[Feed]) -> Feed:
    if len(feeds) == 1:
        return feeds[0]
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def _cut(feed: Feed, start: int, stop: int) -> Feed:
    return {name: array[start:stop] for name, array in feed.items()}
