"""Two models as one that runs both on the same inputs and sums up how far apart their tensors are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, Names
from quarkfast.graph.operators import CHANNELS_SECOND
from quarkfast.graph.opset import choose_ir_version, opset_version
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["Asked", "add_comparisons", "put_beside", "use_own_dequantizers"]


def put_beside(model: ir.Model, other: ir.Model, prefix: str) -> dict[str, ir.Value]:
    """Moves the nodes and constants of `other` into `model`, where they read the inputs of `model`.

    Outputs of `other` are none of the result. What is moved gets `prefix` in front of its name.

    Args:
        model: A model without local functions; changed in place.
        other: Another of the same operator set; of no use afterwards.
        prefix: In front of names; more is added where that is not enough to tell them apart.

    Returns:
        The names that values of the graph of `other` had -> these values.

    Raises:
        ModelError: If the inputs of both are not the same, or their operator sets differ.
    """
    if opset_version(model) != opset_version(other):
        raise ModelError(
            f"compare: expected models that can be brought to one operator set, got {opset_version(model)} and "
            f"{opset_version(other)}"
        )
    fed = _inputs(model, other)
    known = {name_of(value): value for value in (*other.graph.initializers.values(), *_computed(other.graph))}
    other.graph.outputs.clear()  # which would hold inputs and constants that are handed out
    names = Names.of(model)
    constants = list(other.graph.initializers.values())
    other.graph.initializers.clear()
    for graph in graphs_of(other):
        _rename_nodes(graph, names, prefix)
        if graph is not other.graph:
            for value in (*graph.inputs, *graph.initializers.values()):
                value.name = names.fresh(prefix + name_of(value))
    for value in constants:
        value.name = names.fresh(prefix + name_of(value))
    for name, value in fed.items():
        (own,) = (each for each in other.graph.inputs if name_of(each) == name)
        ir.convenience.replace_all_uses_with(own, value)
    nodes = list(other.graph)
    other.graph.remove(nodes)
    for value in constants:
        if value not in other.graph.inputs:
            model.graph.register_initializer(value)
    model.graph.extend(nodes)
    for domain, version in other.opset_imports.items():
        model.opset_imports.setdefault(domain, version)
    return known | fed


def _inputs(model: ir.Model, other: ir.Model) -> dict[str, ir.Value]:
    """Returns the inputs of `other` -> those of `model` that take their place: by name, or by position."""
    own, theirs = ([value for value in each.graph.inputs if value.const_value is None] for each in (model, other))
    if len(own) != len(theirs):
        raise ModelError(f"compare: expected models of as many inputs, got {len(own)} and {len(theirs)}")
    by_name = {name_of(value): value for value in own}
    if set(by_name) == {name_of(value) for value in theirs}:
        return {name_of(value): by_name[name_of(value)] for value in theirs}
    return {name_of(one): value for one, value in zip(theirs, own, strict=True)}


def _computed(graph: ir.Graph) -> list[ir.Value]:
    return [value for node in graph for value in node.outputs if value.name]


def _rename_nodes(graph: ir.Graph, names: Names, prefix: str) -> None:
    """Gives the nodes of a graph, and what they compute, other names."""
    for node in graph:
        node.name = names.fresh(prefix + (node.name or node.op_type))
        for value in node.outputs:
            if value.name:
                value.name = names.fresh(prefix + value.name)


_OPERATOR, _OWN_DOMAIN = "ExtendedDequantizeLinear", "com.amd.quark"
_CODES = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})

_OTHERS = frozenset({"block_size", "output_dtype"})


def use_own_dequantizers(model: ir.Model) -> int:
    """Makes every DequantizeLinear of the graph that can be one an ExtendedDequantizeLinear; returns how many.

    Without its optimizations ONNX Runtime dequantizes element by element. Codes of 8 and 16 bits and their distances
    from the zero point are exact in float32, so that both round the product alone. Scales must be known, of float32,
    finite and above 0, one or one for each index of an axis.
    """
    found = [node for node in model.graph if _may_be_own(node)]
    for node in found:
        axis = node.attributes.get_int("axis", 1)
        node.op_type, node.domain, node.version = _OPERATOR, _OWN_DOMAIN, None
        node.attributes.clear()
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
    if found:
        model.opset_imports.setdefault(_OWN_DOMAIN, 1)
    return len(found)


def _may_be_own(node: ir.Node) -> bool:
    if not is_standard(node) or node.op_type != "DequantizeLinear" or len(node.inputs) != 3:
        return False
    codes, scale, zero_point = node.inputs
    if zero_point is None or zero_point.dtype not in _CODES or zero_point.shape is None or codes is None:
        return False
    if not is_constant(scale) or scale is None or scale.is_graph_input() or scale.dtype != ir.DataType.FLOAT:
        return False
    steps = array_of(scale)
    if steps.ndim > 1 or tuple(zero_point.shape) != steps.shape or node.attributes.keys() & _OTHERS:
        return False
    return bool((np.isfinite(steps) & (steps > 0)).all())


_DOMAIN = "quarkfast"


class Asked(NamedTuple):
    """Two tensors to compare, of which `rounding` says whether it is a tensor's own rounding or all errors up to it."""

    tensor: int
    rounding: bool
    reference: ir.Value
    value: ir.Value
    limit: float


def add_comparisons(model: ir.Model, asked: Iterable[Asked]) -> None:
    """Makes the sums of what is asked for the outputs of `model`, the first of which is the first."""
    builder = GraphBuilder(model)
    made: list[ir.Node] = []
    outputs = []
    for each in asked:
        operands = [_as_float32(value, builder, made) for value in (each.reference, each.value)]
        attributes: dict[str, Any] = {"limit": float(each.limit)}
        if not each.rounding:
            attributes["axis"] = _channel_axis(each.reference)
        node = builder.call(ir.node("Compare", operands, attributes=attributes, domain=_DOMAIN), "compare")
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.DOUBLE), ir.Shape([None, None])
        outputs.append(node.outputs[0])
        made.append(node)
    # ONNX Runtime runs what the last node of a file without readers needs first, so the shallowest comparison goes
    # last, and each is made as soon as both of its tensors are there. It sorts nodes itself.
    first = next(iter(model.graph), None)
    if first is not None:
        model.graph.insert_before(first, list(reversed(made)))
    del model.graph.outputs[:]
    model.graph.outputs.extend(outputs)
    model.opset_imports.setdefault(_DOMAIN, 1)
    choose_ir_version(model)


def _as_float32(value: ir.Value, builder: GraphBuilder, made: list[ir.Node]) -> ir.Value:
    if value.dtype in (None, ir.DataType.FLOAT):
        return value
    cast = builder.call(ir.node("Cast", [value], attributes={"to": int(ir.DataType.FLOAT)}), "compared")
    made.append(cast)
    return cast.outputs[0]


def _channel_axis(value: ir.Value) -> int:
    """Returns the axis of channels: the second around convolutions and of four dimensions and more, else the last."""
    around = [node for node, _ in value.uses()] + [node for node in [value.producer()] if node is not None]
    rank = len(value.shape) if value.shape is not None else 0
    return 1 if rank > 3 or (rank != 2 and any(node.op_type in CHANNELS_SECOND for node in around)) else -1
