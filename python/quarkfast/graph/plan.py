"""A placement with numbers: every scale and zero point chosen, nothing inserted yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.block_formats import BLOCK_FORMATS
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Edge

__all__ = ["Plan", "Quantizer"]


@dataclass(frozen=True, slots=True, eq=False)
class Quantizer:
    """How the values of one tensor become codes.

    Attributes:
        dtype: Name of a row of `quarkfast.dtypes` or of `quarkfast.block_formats`.
        scale: float32, finite and > 0; a scalar, or one for each channel.
        zero_point: Integers of the shape of `scale`; zeros for a float type.
        axis: Axis of the channels or blocks, or None if there is one scale.
        qmin: Lowest code used, or None for the type's own limits.
        qmax: Highest code used, or None for the type's own limits.
    """

    dtype: str
    scale: NDArray[np.float32]
    zero_point: NDArray[Any]
    axis: int | None = None
    qmin: int | None = None
    qmax: int | None = None

    @property
    def is_block(self) -> bool:
        """Whether the type is a block format, which has neither scale nor zero point."""
        return self.dtype in BLOCK_FORMATS

    @property
    def is_plain_cast(self) -> bool:
        """Whether codes are turned back into floats by nothing but a change of type."""
        return self.dtype in ("bfloat16", "float16") and bool(np.all(self.scale == 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that insertion needs.

    Attributes:
        activations: Tensor that gets a pair -> the tensor whose quantizer it takes, in the model's order.
        quantizers: That tensor -> its quantizer.
        constants: Weights and other constants with theirs.
        biases: Biases with theirs.
        notes: What had to be done differently from what was asked, one sentence each.
        float_edges: Inputs that read an activation in front of its pair.
        float_outputs: Activations that are handed out as graph outputs in front of their pair.
    """

    activations: Mapping[str, str]
    quantizers: Mapping[str, Quantizer]
    constants: tuple[tuple[ConstantSlot, Quantizer], ...]
    biases: tuple[tuple[BiasSlot, Quantizer], ...]
    notes: tuple[str, ...]
    float_edges: frozenset[Edge] = frozenset()
    float_outputs: frozenset[str] = frozenset()
