"""Groups of tensors that have one offset in common, and the layers and sums between which offsets may differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from quarkfast.algorithms.scale_groups import TensorGroups
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard
from quarkfast.graph.affine import Affine, data_index
from quarkfast.graph.affine_flows import pass_forward
from quarkfast.graph.linear_layers import BiasedLayer, layer_behind
from quarkfast.graph.operators import SHAPE_READERS
from quarkfast.graph.walks import clip_limits, limits_of

__all__ = ["OffsetGroups", "Sum", "find_offset_groups", "pads_of"]

_PROBE = Affine(np.ones(1), np.ones(1))


class Sum(NamedTuple):
    """A sum, whose offset is that of its first term and that of the second together."""

    first: ir.Value
    second: ir.Value
    result: ir.Value


@dataclass
class OffsetGroups(TensorGroups):
    """Tensors joined where an operator keeps their offsets equal, and those that must keep the offset 0.

    Attributes:
        layers: What takes up an offset of its data and of its output in its bias, in the order of the graph.
        sums: Sums of two tensors.
        limits: Relu and Clip, whose limits move along.
        pads: Pad with a constant, which moves along.
    """

    layers: list[BiasedLayer] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    limits: list[ir.Node] = field(default_factory=list)
    pads: list[ir.Node] = field(default_factory=list)


Rule = Callable[[ir.Node, OffsetGroups], bool]
"""Notes what a node makes of offsets; returns whether it can, else everything that the node touches is pinned."""


def find_offset_groups(graph: ir.Graph) -> OffsetGroups:
    """Returns the groups of the tensors of `graph`; graph inputs and outputs are pinned.

    Args:
        graph: Of a prepared model, operator set 11 or newer.
    """
    groups = OffsetGroups()
    groups.pin((*graph.inputs, *graph.outputs))
    for node in graph:
        if is_standard(node) and node.op_type in SHAPE_READERS:
            continue
        layer = layer_behind(node, 0)
        if layer is not None:
            if not _add_layer(layer, groups):
                groups.pin((*node.inputs, *node.outputs))
        else:
            rule = _RULES.get(node.op_type, _follow) if is_standard(node) and _computes_floats(node) else None
            if rule is None or not rule(node, groups):
                groups.pin((*node.inputs, *node.outputs))
    values = (output for node in graph for output in node.outputs)
    groups.pin(value for value in values if any(reader.graph is not graph for reader, _ in value.uses()))
    return groups


def pads_of(node: ir.Node) -> list[int]:
    """Returns the numbers of zeros that a Conv puts around its data, empty for none."""
    given = list(node.attributes.get_ints("pads", ())) if node.op_type == "Conv" else []
    return given if any(given) else []


def _computes_floats(node: ir.Node) -> bool:
    return node.outputs[0].dtype == ir.DataType.FLOAT


def _add_layer(layer: BiasedLayer, groups: OffsetGroups) -> bool:
    """A layer has any offset at its output; at its data where it adds up all its weights, or is padded in front.

    Zeros in front are a Pad of the number that a limit of the data becomes, which its scale holds. The bias has to make
    up for rounded weights as well: it must have codes, which those of a MatMul have not, and weights of its own.
    """
    node, data = layer.node, layer.node.inputs[0]
    if data is None or is_constant(data) or node.op_type == "MatMul":
        return False
    automatic = node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    misses = node.op_type == "ConvTranspose" or automatic or (pads_of(node) and 0.0 not in limits_of(data))
    if misses or not is_read_once(layer.weight):
        groups.pin([data])
    groups.layers.append(layer)
    return True


def _follow(node: ir.Node, groups: OffsetGroups) -> bool:
    """An operator behind which the offset is what it is in front."""
    data = node.inputs[0] if node.inputs else None
    if data is None or is_constant(data):
        return False
    behind = pass_forward(node, _PROBE)
    if behind is None or behind.has_factor or behind.axis is not None or (behind.offset != 1).any():
        return False
    groups.join([data, node.outputs[0]])
    return True


def _add_limit(node: ir.Node, groups: OffsetGroups) -> bool:
    data = node.inputs[0]
    if data is None or is_constant(data) or (node.op_type == "Clip" and clip_limits(node) is None):
        return False
    groups.join([data, node.outputs[0]])
    groups.limits.append(node)
    return True


def _add_pad(node: ir.Node, groups: OffsetGroups) -> bool:
    data = node.inputs[0]
    if data is None or is_constant(data):
        return False
    if node.attributes.get_string("mode", "constant") == "constant":
        given = node.inputs[2] if len(node.inputs) > 2 else None
        known = given is None or (is_constant(given) and not given.is_graph_input())
        value = 0.0 if given is None or not known else float(array_of(given).reshape(()))
        if not known or value not in limits_of(data):
            return False
        groups.pads.append(node)
    groups.join([data, node.outputs[0]])
    return True


def _add_sum(node: ir.Node, groups: OffsetGroups) -> bool:
    if data_index(node) is not None:
        # A sum with a constant.
        data = node.inputs[data_index(node) or 0]
        if data is None:
            return False
        groups.join([data, node.outputs[0]])
        return True
    first, second = node.inputs
    if first is None or second is None or is_constant(first) or is_constant(second) or first is second:
        return False
    groups.sums.append(Sum(first, second, node.outputs[0]))
    return True


def _join_all(node: ir.Node, groups: OffsetGroups) -> bool:
    if any(value is None or is_constant(value) for value in node.inputs):
        return False
    groups.join([*(value for value in node.inputs if value is not None), node.outputs[0]])
    return True


_RULES: Mapping[str, Rule] = MappingProxyType(
    {"Add": _add_sum, "Clip": _add_limit, "Concat": _join_all, "Pad": _add_pad, "Relu": _add_limit}
)
