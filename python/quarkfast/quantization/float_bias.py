"""A bias that stays float beside a weight with codes; an algorithm may move it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, name_of, tensor_of

__all__ = ["FloatBias"]


@dataclass(frozen=True)
class FloatBias:
    """A float32 vector with one number for each output of a layer.

    Attributes:
        value: The initializer, whose own numbers stay.
        moved: Other numbers, or None.
    """

    value: ir.Value
    moved: NDArray[np.float32] | None = None

    @property
    def values(self) -> ir.TensorProtocol:
        """The bias of the float model."""
        return tensor_of(self.value)

    def with_nearest(self, values: NDArray[np.float32]) -> FloatBias:
        """Returns the bias with other numbers, which float32 holds as they are."""
        return replace(self, moved=values)

    def decoded(self) -> NDArray[np.float32]:
        """Returns what the layer adds."""
        return np.asarray(array_of(self.value), np.float32) if self.moved is None else self.moved

    def store(self, model: ir.Model) -> None:
        """Puts the numbers into the initializer of the same name."""
        name = name_of(self.value)
        model.graph.initializers[name].const_value = ir.Tensor(self.decoded(), name=name)
