"""Slots of constants, and the operands of operators, gathered while a graph is walked over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from quarkfast.config import TensorSpec, takes_int32_bias
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of, rank_of
from quarkfast.graph.block_axes import constant_axis
from quarkfast.graph.operators import (
    GATE_AXIS,
    RECURRENT_WEIGHTS,
    Operator,
    find_operator,
    is_dequantized,
    is_recurrent,
)
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Edge, Role
from quarkfast.graph.selection import Choices
from quarkfast.quantization.eligibility import count_infinities, infinite_weights
from quarkfast.quantization.lookup_tables import COLUMNS

__all__ = ["ConstantSlots", "Operands"]


class ConstantSlots:
    """The slots of constants, gathered while a graph is walked over.

    Attributes:
        biases: Biases with the scale ``s_x * s_w``.
    """

    def __init__(self, choices: Choices, activations: Mapping[str, str]) -> None:
        """Takes what the scheme says, and the activations that get a pair, which are gathered at the same time."""
        self._choices = choices
        self._activations = activations
        self._edges: dict[tuple[str, Role, int | None, TensorSpec], list[Edge]] = {}
        self.biases: list[BiasSlot] = []

    def slots(self) -> tuple[ConstantSlot, ...]:
        """Returns weights and other constants; one that is read in two forms has a slot for each."""
        return tuple(
            ConstantSlot(tensor, role, axis, tuple(edges), spec)
            for (tensor, role, axis, spec), edges in self._edges.items()
        )

    def add_input(self, node: ir.Node, index: int, other: Role) -> None:
        """Adds a constant input of `node`: as a weight if it is the one of a layer, and as `other` elsewhere."""
        operator = find_operator(node)
        self._add(node, index, "weight" if operator is not None and operator.weight == index else other)

    def add_operand(self, node: ir.Node, index: int, spec: TensorSpec) -> None:
        """Adds a constant operand of `node` in the form of an activation of `spec`."""
        self._put(node, index, "activation", self._choices.own(name_of(node.inputs[index]), spec))

    def add_table(self, node: ir.Node) -> None:
        """Adds the table that `node` takes rows of (`quarkfast.quantization.lookup_tables`)."""
        name = name_of(node.inputs[0])
        spec = self._choices.weight(node, name).per_channel()
        self._edges.setdefault((name, "table", COLUMNS, spec), []).append(Edge(name_of(node), 0))

    def add_bias(self, node: ir.Node) -> None:
        """Adds the constant bias of a layer, in the form that the scheme wants.

        Raises:
            ModelError: If it holds an infinity.
            ConfigError: If a rule of a tensor is for it, and it follows its layer.
        """
        operator = find_operator(node)
        if operator is None or operator.bias is None or operator.bias >= len(node.inputs):
            return
        bias, bias_kind = node.inputs[operator.bias], self._choices.bias(node)
        if is_constant(bias) and bias_kind != "weight":
            self._choices.check_bias(name_of(bias))
        if not is_constant(bias) or bias_kind == "float":
            return
        if infinite := count_infinities(bias):
            raise infinite_weights(bias, infinite)
        edge = Edge(name_of(node), operator.bias)
        if bias_kind == "weight":
            self._add(node, operator.bias, "weight")
        elif rank_of(bias) == 1 and not any(is_dequantized(node.inputs[index]) for index in (0, operator.weight)):
            weight = Edge(name_of(node), operator.weight)
            data, weight_tensor = name_of(node.inputs[0]), name_of(node.inputs[operator.weight])
            if not self._fits_int32(node, operator.weight) or not _covers_channels(node, operator):
                return
            bits: Literal[16, 32] = 16 if bias_kind == "int16" else 32
            self.biases.append(BiasSlot(name_of(bias), edge, data, weight, weight_tensor, bits))

    def _add(self, node: ir.Node, index: int, role: Role) -> None:
        name = name_of(node.inputs[index])
        spec = self._choices.weight(node, name) if role == "weight" else self._choices.moved(name)
        self._put(node, index, role, spec)

    def _put(self, node: ir.Node, index: int, role: Role, spec: TensorSpec) -> None:
        name, axis = name_of(node.inputs[index]), _axis(node, index, spec)
        self._choices.check_axis(node, name, None if spec.is_block else axis, rank_of(node.inputs[index]))
        key = name, role, axis, spec
        self._edges.setdefault(key, []).append(Edge(name_of(node), index))

    def _fits_int32(self, node: ir.Node, weight: int) -> bool:
        """Whether both operands have types whose products a bias of int32 can be added to."""
        data, name = name_of(node.inputs[0]), name_of(node.inputs[weight])
        first = self._choices.activation(self._activations.get(data, data))
        constant = is_constant(node.inputs[weight])
        second = self._choices.weight(node, name) if constant else self._choices.activation(name)
        return takes_int32_bias(first, second)


def _axis(node: ir.Node, index: int, spec: TensorSpec) -> int | None:
    """Returns the axis of a constant's blocks, or that of the output channels of a weight with a scale for each.

    The channels of a table are what Gather picks: each word of an embedding has a scale.
    """
    if spec.is_block:
        return constant_axis(node, index)
    operator, rank = find_operator(node), rank_of(node.inputs[index])
    if spec.granularity != "channel" or rank < 2:
        return None
    if node.op_type == "Gather":
        return int(node.attributes.get_int("axis", 0)) % rank
    if is_recurrent(node) and index in RECURRENT_WEIGHTS:
        return GATE_AXIS
    return None if operator is None or operator.weight != index else operator.channel_axis(node, rank)


def _covers_channels(node: ir.Node, operator: Operator) -> bool:
    """Whether a bias has a value for each output channel: that of a Gemm may be broadcast from a single one."""
    weight, bias = node.inputs[operator.weight], node.inputs[operator.bias or 0]
    if not is_constant(weight) or rank_of(weight) < 2:
        return True
    channels = array_of(weight).shape[operator.channel_axis(node, rank_of(weight))]
    return channels > 0 and bool(array_of(bias).size % channels == 0)


class Operands:
    """The inputs that read quantized activations, gathered while a graph is walked over."""

    def __init__(self) -> None:
        self._values: dict[str, ir.Value] = {}
        self._edges: set[Edge] = set()

    def add(self, node: ir.Node, index: int) -> None:
        """Notes that input `index` of `node`, no constant, is an operand."""
        value = node.inputs[index]
        if value is None:
            return
        self._values[name_of(value)] = value
        self._edges.add(Edge(name_of(node), index))

    def float_edges(self, results: set[str]) -> set[Edge]:
        """Returns all other inputs that read one of these activations, but for those of `results`."""
        uses = (use for name, value in self._values.items() if name not in results for use in value.uses())
        return {edge for node, index in uses if (edge := Edge(name_of(node), index)) not in self._edges}

    def float_outputs(self, results: set[str]) -> frozenset[str]:
        """Returns those of these activations that are graph outputs, but for `results`."""
        return frozenset(
            name for name, value in self._values.items() if value.is_graph_output() and name not in results
        )
