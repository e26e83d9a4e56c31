"""Tensor groups that share one factor, by union-find, and the layers between which factors may differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard
from quarkfast.graph.operators import SHAPE_READERS, VARIABLE_PRODUCTS, find_operator
from quarkfast.graph.walks import clip_limits

__all__ = ["Groups", "ScaledLayer", "TensorGroups", "find_groups"]


@dataclass
class TensorGroups:
    """Disjoint sets of tensors, some of which are pinned: their number is the neutral one."""

    _parents: dict[ir.Value, ir.Value] = field(default_factory=dict, kw_only=True)
    _pinned: set[ir.Value] = field(default_factory=set, kw_only=True)

    def of(self, value: ir.Value) -> ir.Value:
        """Returns the tensor that stands for the group of `value`."""
        root = value
        while self._parents.get(root, root) is not root:
            root = self._parents[root]
        while self._parents.get(value, root) is not root:
            self._parents[value], value = root, self._parents[value]
        return root

    def join(self, values: Iterable[ir.Value]) -> None:
        """Gives tensors one number."""
        roots = list(dict.fromkeys(map(self.of, values)))
        for other in roots[1:]:
            self._parents[other] = roots[0]
            if other in self._pinned:
                self._pinned.add(roots[0])

    def pin(self, values: Iterable[ir.Value | None]) -> None:
        """Keeps the number of tensors neutral."""
        self._pinned.update(self.of(value) for value in values if value is not None)

    def is_pinned(self, value: ir.Value) -> bool:
        """Whether the number of `value` is neutral."""
        return self.of(value) in self._pinned


class ScaledLayer(NamedTuple):
    """A node whose constant takes up the ratio of two factors.

    Attributes:
        data: What it reads.
        output: What it computes.
        weight: The constant.
        divides: Whether the output is in inverse proportion to the constant.
    """

    data: ir.Value
    output: ir.Value
    weight: ir.Value
    divides: bool = False


@dataclass
class Groups(TensorGroups):
    """Tensors joined where an operator keeps their factors equal, and those that must keep the factor 1.

    Attributes:
        layers: Where factors may differ, in the order of the graph.
        constants: Constants, each with a tensor whose factor it takes.
        limits: Clips from zero up, whose upper limit has the factor of their output.
    """

    layers: list[ScaledLayer] = field(default_factory=list)
    constants: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    limits: list[ir.Node] = field(default_factory=list)

    def keep(self, names: Collection[str]) -> None:
        """Keeps the constants of these names as they are."""
        for layer in self.layers:
            if layer.weight.name in names:
                self.join([layer.data, layer.output])
        self.pin(value for constant, value in self.constants if constant.name in names)


_LARGEST = float(np.finfo(np.float32).max) / 2

Rule = Callable[[ir.Node, Groups], bool]
"""Notes what a node makes of factors; returns whether it can, else everything that the node touches is pinned."""


def find_groups(graph: ir.Graph) -> Groups:
    """Returns the groups of the tensors of `graph`, those of float32; graph inputs and outputs are pinned."""
    groups, products = Groups(), list[ir.Node]()
    groups.pin(value for value in (*graph.inputs, *graph.outputs))
    for node in graph:
        if is_standard(node) and node.op_type in SHAPE_READERS:
            continue
        if _is_product(node):
            products.append(node)
            continue
        rule = _RULES.get(node.op_type) if is_standard(node) and all(map(_is_float, node.outputs)) else None
        if rule is None or not rule(node, groups):
            groups.pin((*node.inputs, *node.outputs))
    for value in _read_elsewhere(graph):
        groups.pin([value])
    _settle_products(products, groups)
    return groups


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.FLOAT


def _read_elsewhere(graph: ir.Graph) -> list[ir.Value]:
    """Returns what bodies of the nodes of `graph` read from around them."""
    values = (output for node in graph for output in node.outputs)
    return [value for value in values if any(reader.graph is not graph for reader, _ in value.uses())]


def _variables(node: ir.Node, indices: Sequence[int] | None = None) -> list[ir.Value]:
    chosen = range(len(node.inputs)) if indices is None else indices
    inputs = [node.inputs[index] for index in chosen if index < len(node.inputs)]
    return [value for value in inputs if value is not None and not is_constant(value)]


def _is_product(node: ir.Node) -> bool:
    """Whether a node multiplies or divides what two other nodes compute."""
    two = is_standard(node) and node.op_type in VARIABLE_PRODUCTS and len(_variables(node)) == 2
    return two and _is_float(node.outputs[0])


def _settle_products(products: Sequence[ir.Node], groups: Groups) -> None:
    """The factor of a product is that of an operand where the factor of the other is 1."""
    waiting = list(products)
    while waiting:
        settled = [node for node in waiting if any(groups.is_pinned(value) for value in _operands(node))]
        chosen = settled or waiting[:1]
        for node in chosen:
            first, second = _operands(node)
            if not settled:
                groups.pin([second])
            if groups.of(first) is groups.of(second) or (node.op_type == "Div" and not groups.is_pinned(second)):
                groups.pin([first, second, node.outputs[0]])
            elif groups.is_pinned(second):
                groups.join([first, node.outputs[0]])
            else:
                groups.join([second, node.outputs[0]])
        waiting = [node for node in waiting if node not in chosen]


def _operands(node: ir.Node) -> tuple[ir.Value, ir.Value]:
    first, second = _variables(node)
    return first, second


def _first(node: ir.Node, groups: Groups) -> bool:
    """All outputs have the factor of the first input."""
    data = node.inputs[0]
    if data is None or is_constant(data) or any(_is_float(value) for value in _variables(node, range(1, 9))):
        return False
    groups.join([data, *(value for value in node.outputs if _is_float(value))])
    return True


def _every(node: ir.Node, groups: Groups) -> bool:
    """Every float input has the factor of the output; constants are multiplied."""
    given = [value for value in node.inputs if value is not None and _is_float(value)]
    constants = [value for value in given if is_constant(value)]
    if len(constants) == len(given):
        return False
    if not all(_is_own(value) and _may_grow(value) for value in constants):
        return False
    groups.join([*(value for value in given if not is_constant(value)), *node.outputs])
    groups.constants += [(value, node.outputs[0]) for value in constants]
    return True


def _is_own(value: ir.Value | None) -> bool:
    """Whether a constant can be multiplied: it holds floats, and one node reads it."""
    if value is None or value.dtype != ir.DataType.FLOAT or not is_constant(value):
        return False
    return is_read_once(value)


def _may_grow(constant: ir.Value) -> bool:
    """Whether an octave more is within float32: numbers that stand for infinity in masks leave it."""
    return bool((np.abs(array_of(constant)) < _LARGEST).all())


def _resize(node: ir.Node, groups: Groups) -> bool:
    if node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return False
    data = node.inputs[0]
    if data is None or is_constant(data):
        return False
    groups.join([data, node.outputs[0]])
    return True


def _limit(node: ir.Node, groups: Groups) -> bool:
    """A Clip from zero up; what is beyond all values is no limit."""
    data, (low, high) = node.inputs[0], clip_limits(node) or (None, None)
    if data is None or is_constant(data) or low != 0 or (high is not None and not high > 0):
        return False
    groups.join([data, node.outputs[0]])
    if high is not None and high < _LARGEST:
        groups.limits.append(node)
    return True


def _layer(node: ir.Node, groups: Groups) -> bool:
    """The weight takes up the ratio of the factors, and the bias has the output's."""
    operator = find_operator(node)
    assert operator is not None
    data, weight = node.inputs[0], node.inputs[operator.weight]
    bias = node.inputs[operator.bias] if operator.bias is not None and operator.bias < len(node.inputs) else None
    if data is None or is_constant(data) or not _is_own(weight) or not (bias is None or _is_own(bias)):
        return False
    assert weight is not None
    groups.layers.append(ScaledLayer(data, node.outputs[0], weight))
    if bias is not None:
        groups.constants.append((bias, node.outputs[0]))
    return True


def _scaled(node: ir.Node, groups: Groups) -> bool:
    """A product with a constant, or a quotient by one: the constant takes up the ratio of the factors."""
    variables = _variables(node)
    if len(variables) != 1 or node.inputs.count(variables[0]) != 1:
        return False
    index = node.inputs.index(variables[0])
    constant = node.inputs[1 - index]
    if node.op_type == "Div" and index == 1:
        return False
    if not _is_own(constant):
        groups.join([variables[0], node.outputs[0]])
        return True
    assert constant is not None
    groups.layers.append(ScaledLayer(variables[0], node.outputs[0], constant, node.op_type == "Div"))
    return True


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("Abs", "AveragePool", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalAveragePool"),
                *("GlobalMaxPool", "Identity", "LeakyRelu", "MaxPool", "Neg", "PRelu", "ReduceMax", "ReduceMean"),
                *("ReduceMin", "ReduceSum", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
                *("Transpose", "Unsqueeze"),
            ),
            _first,
        ),
        **dict.fromkeys(("Add", "Concat", "Max", "Mean", "Min", "Pad", "Sub", "Sum", "Where"), _every),
        "Clip": _limit,
        **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), _layer),
        **dict.fromkeys(("Div", "Mul"), _scaled),
        "Resize": _resize,
    }
)
