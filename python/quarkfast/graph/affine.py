"""Affine steps: ``y = factor * x + offset`` with one number for the tensor, or one for each channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, shape_of, tensor_of
from quarkfast.graph.operators import AFFINE_STEPS

__all__ = ["Affine", "Shape", "affine_of", "data_index", "dims_of"]

Values = NDArray[np.float64]
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Affine:
    """What an affine step does to a tensor, in float64.

    Attributes:
        factor: ``[1]``, or one for each channel ``[n]``.
        offset: The same.
        axis: The channels' axis, counted from the last, which is -1; None where there is one number for all.
    """

    factor: Values
    offset: Values
    axis: int | None = None

    def then(self, other: Affine) -> Affine | None:
        """Returns this step and `other` behind it as one, or None where their channels are others."""
        if self.axis is not None and other.axis is not None and self.axis != other.axis:
            return None
        if self.axis is not None and other.axis is not None and self.size != other.size:
            return None
        offset = self.offset * other.factor + other.offset
        return Affine(self.factor * other.factor, offset, other.axis if self.axis is None else self.axis)

    @property
    def size(self) -> int:
        """The number of channels; 1 where there is one number for all."""
        return max(self.factor.size, self.offset.size)

    @property
    def is_usable(self) -> bool:
        """Whether every number is finite and no factor is zero."""
        return bool(np.isfinite(self.factor).all() and np.isfinite(self.offset).all() and self.factor.all())

    @property
    def keeps_order(self) -> bool:
        """Whether no factor is negative."""
        return bool((self.factor > 0).all())

    @property
    def has_offset(self) -> bool:
        """Whether anything is added."""
        return bool(self.offset.any())

    @property
    def has_factor(self) -> bool:
        """Whether anything is multiplied."""
        return bool((self.factor != 1).any())

    def shaped(self, numbers: Values) -> Values:
        """Returns factors or offsets in the shape of a constant that broadcasts along the axis."""
        return numbers.reshape(()) if numbers.size == 1 else numbers.reshape(-1, *[1] * (-1 - (self.axis or -1)))


def data_index(node: ir.Node) -> int | None:
    """Returns which input of an Add, Sub, Mul, Div by a constant or a Neg is its data; None of any other node."""
    if not is_standard(node) or node.op_type not in AFFINE_STEPS:
        return None
    if node.op_type == "Neg":
        return 0
    constants = [is_constant(value) for value in node.inputs]
    if sum(constants) != 1 or (node.op_type == "Div" and constants[0]):
        return None
    constant = node.inputs[constants.index(True)]
    usable = constant is not None and constant.dtype == ir.DataType.FLOAT and not constant.is_graph_input()
    return constants.index(False) if usable else None


def affine_of(node: ir.Node) -> Affine | None:
    """Returns what `node` does, if it is an affine step; None if its constant differs within a channel or adds places.

    A constant counts as one for each channel if it is the same along all axes but one, whatever its shape.
    """
    index = data_index(node)
    data = None if index is None else node.inputs[index]
    if index is None or data is None:
        return None
    if node.op_type == "Neg":
        return Affine(-np.ones(1), np.zeros(1)) if data.dtype == ir.DataType.FLOAT else None
    found = _vector(node.inputs[1 - index], dims_of(data))
    if found is None:
        return None
    numbers, axis = found
    one, zero = np.ones(1), np.zeros(1)
    with np.errstate(divide="ignore"):
        steps = {
            "Add": (one, numbers),
            "Mul": (numbers, zero),
            "Div": (1 / numbers if node.op_type == "Div" else one, zero),
            "Sub": (one, -numbers) if index == 0 else (-one, numbers),
        }
    affine = Affine(*steps[node.op_type], axis)
    return affine if affine.is_usable else None


def dims_of(value: ir.Value) -> Shape | None:
    """Returns the known dimensions of a tensor, None for each unknown one; None where their number is unknown."""
    if value.shape is not None:
        return tuple(size if isinstance(size, int) else None for size in value.shape)
    producer = value.producer()
    if producer is None or not is_standard(producer) or producer.op_type != "Conv":
        return None
    if not is_constant(producer.inputs[1]):
        return None
    weight = shape_of(tensor_of(producer.inputs[1]))
    return (None, weight[0], *[None] * (len(weight) - 2))


def _vector(constant: ir.Value | None, dims: Shape | None) -> tuple[Values, int | None] | None:
    """Returns the numbers of a constant that does not change the shape of what it is joined with, and their axis."""
    shape = shape_of(tensor_of(constant))
    if dims is None or len(shape) > len(dims) or 0 in shape:
        return None
    if any(size not in (1, own) for size, own in zip(shape[::-1], dims[::-1], strict=False)):
        return None
    numbers = array_of(constant).astype(np.float64)
    axis = None
    for place, size in enumerate(shape):
        first = numbers.take([0], axis=place)
        if size == 1 or np.array_equal(numbers, np.broadcast_to(first, numbers.shape)):
            numbers = first
        elif axis is not None:
            return None
        else:
            axis = place - len(shape)
    return numbers.reshape(-1), axis
