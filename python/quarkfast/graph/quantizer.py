"""How the values of tensors become codes: scales and zero points, of one tensor and of all that a model quantizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import formats
from quarkfast.graph.placement import BiasSlot, ConstantSlot
from quarkfast.qparams import Order

__all__ = ["Pairs", "Quantizer", "Quantizers", "Reduction"]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Neighbours among the codes that a layer sums over, whose products must fit 16 bits (`quarkfast.qparams.pairs`).

    Attributes:
        order: How the layer's weight lies.
        highest: Largest code of the activation that each of its codes is multiplied with, rows ``[N, K]``, or None
            for 255.
    """

    order: Order
    highest: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the weight of a layer lost so that its sums fit 16 bits.

    Attributes:
        node: Name of the layer.
        before: Signal to quantization noise of the weight, in dB, as it would have been.
        after: And as it is.
    """

    node: str
    before: float
    after: float

    def to_plain(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        return {name: None if value == math.inf else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        return f"{self.node!r} {self.before:.1f} -> {self.after:.1f} dB"


@dataclass(frozen=True, slots=True, eq=False)
class Quantizer:
    """How the values of one tensor become codes.

    Attributes:
        dtype: Name of a row of `quarkfast.formats`.
        scale: float32, finite and > 0; a scalar, or one for each channel.
        zero_point: Integers of the shape of `scale`; zeros for a float type.
        axis: Axis of the channels or blocks, or None if there is one scale.
        qmin: Lowest code used, or None for the type's own limits.
        qmax: Highest code used, or None for the type's own limits.
        pairs: The layers whose sums of pairs of codes must fit 16 bits; codes that do not become smaller.
    """

    dtype: str
    scale: NDArray[np.float32]
    zero_point: NDArray[Any]
    axis: int | None = None
    qmin: int | None = None
    qmax: int | None = None
    pairs: tuple[Pairs, ...] = ()

    @property
    def is_block(self) -> bool:
        """Whether the type is a block format, which has neither scale nor zero point."""
        return formats.find(self.dtype).is_block

    @property
    def is_plain_cast(self) -> bool:
        """Whether codes are turned back into floats by nothing but a change of type."""
        return formats.find(self.dtype).may_be_scaled and bool(np.all(self.scale == 1))


@dataclass(frozen=True, slots=True)
class Quantizers:
    """The quantizer of every slot of a placement: what constraints of a target change. No codes are computed yet.

    Attributes:
        activations: Tensor that gets a pair -> the tensor whose quantizer it takes, in the model's order.
        quantizers: That tensor -> its quantizer.
        constants: Weights and other constants with theirs.
        biases: Biases with theirs.
        notes: What had to be done differently from what was asked, one sentence each.
        reductions: What weights lost so that sums fit 16 bits.
    """

    activations: Mapping[str, str]
    quantizers: Mapping[str, Quantizer]
    constants: tuple[tuple[ConstantSlot, Quantizer], ...]
    biases: tuple[tuple[BiasSlot, Quantizer], ...]
    notes: tuple[str, ...] = ()
    reductions: tuple[Reduction, ...] = ()
