"""Where quantization goes in one model, before any range is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from quarkfast.config import TensorSpec

__all__ = ["BiasSlot", "ConstantSlot", "Edge", "LeftFloat", "Placement", "Role"]

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
