"""Placement and quantizers: where Q/DQ pairs go, and with which scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import formats
from quarkfast.config import TensorSpec
from quarkfast.qparams import Order

__all__ = [
    "BiasSlot",
    "ConstantSlot",
    "Edge",
    "LeftFloat",
    "Pairs",
    "Placement",
    "Quantizer",
    "Quantizers",
    "Reduction",
    "Role",
]

Role = Literal["weight", "activation", "table"]


@dataclass(frozen=True, slots=True)
class Edge:
    """One input of one node, by the node's name and the input's index."""

    node: str
    index: int


class ConstantSlot(NamedTuple):
    """A constant that becomes integer codes for the edges that read it.

    Attributes:
        tensor: Name of the initializer.
        role: Which spec it takes; the codes of a table turn float behind the nodes that take rows of it.
        axis: Axis of its output channels if it is an operator's weight with a scale for each, of the columns of a
            table, axis of its blocks if its type is a block format, otherwise None.
        edges: The inputs that read the quantized form.
        spec: Its form.
    """

    tensor: str
    role: Role
    axis: int | None
    edges: tuple[Edge, ...]
    spec: TensorSpec


class BiasSlot(NamedTuple):
    """A bias, with what its scale is made of.

    Attributes:
        tensor: Name of the initializer.
        edge: The input that reads it.
        data: Name of the tensor that the layer multiplies.
        weight: The input of the same node that holds the weight.
        weight_tensor: What stands there.
        bits: Those of its codes.
    """

    tensor: str
    edge: Edge
    data: str
    weight: Edge
    weight_tensor: str
    bits: Literal[16, 32] = 32


class LeftFloat(NamedTuple):
    """A node that stays float, and why."""

    node: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything that the rules decide about a model.

    Attributes:
        activations: Name of each tensor that gets a Q/DQ pair, in the model's order -> the tensor whose scale it has.
        fixed: Ranges that an operator's definition gives, by tensor.
        bounds: The same of operators that stay float, whose values may all lie far inside.
        constants: Weights and other constants.
        biases: Biases with scale ``s_x * s_w``.
        quantized: Names of the quantized nodes -> operator type.
        left_float: The other nodes that compute on floats.
        specs: Form of each tensor that gives its scale to an activation.
        float_edges: Inputs that read an activation as it was computed, in front of its pair.
        float_outputs: Activations that are graph outputs and are handed out as they were computed.
        idle: Tensors that are not quantized, though the scheme has entries for them.
        before: Names of the layers that a tool has quantized before.
    """

    activations: Mapping[str, str]
    fixed: Mapping[str, tuple[float, float]]
    bounds: Mapping[str, tuple[float, float]]
    constants: tuple[ConstantSlot, ...]
    biases: tuple[BiasSlot, ...]
    quantized: Mapping[str, str]
    left_float: tuple[LeftFloat, ...]
    specs: Mapping[str, TensorSpec]
    float_edges: frozenset[Edge]
    float_outputs: frozenset[str] = frozenset()
    idle: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def observed(self) -> tuple[str, ...]:
        """The activations whose range calibration has to find."""
        known = {slot.tensor for slot in self.constants} | set(self.fixed)
        return tuple(root for root, spec in self.specs.items() if spec.needs_range and root not in known)


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
