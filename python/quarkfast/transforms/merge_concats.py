"""A Concat whose result enters another one along the same axis is taken out: that one joins all parts."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_read_once, is_standard
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["merge_concats"]


def merge_concats(model: ir.Model) -> bool:
    """Merges each Concat into the one that alone reads it, in place; returns whether there were any.

    Exporters write a loop that appends to a tensor as one Concat behind another. With pairs all but the last part would
    be rounded once more by each.

    Types are known (`quarkfast.transforms.infer_types`). Idempotent; graph inputs and outputs keep names and types;
    error 0.
    """
    changed = False
    for node in nodes_of(model.graph):  # in order: what a Concat reads has taken its own parts by then
        if node.op_type == "Concat" and is_standard(node):
            changed |= _take_parts(node)
    return changed


def _take_parts(node: ir.Node) -> bool:
    parts: list[ir.Value | None] = []
    inner: list[ir.Node] = []
    for value in node.inputs:
        found = _inner(node, value)
        parts += [value] if found is None else found.inputs
        inner += [] if found is None else [found]
    if inner and node.graph is not None:
        node.resize_inputs(len(parts))
        for index, value in enumerate(parts):
            node.replace_input_with(index, value)
        node.graph.remove(inner, safe=True)
    return bool(inner)


def _inner(node: ir.Node, value: ir.Value | None) -> ir.Node | None:
    """Returns the Concat that makes what a Concat reads, if the latter can take its parts."""
    producer = None if value is None else value.producer()
    if value is None or producer is None or producer.op_type != "Concat" or not is_standard(producer):
        return None
    alone = producer.graph is node.graph and is_read_once(value)
    return producer if alone and _axis(producer) == _axis(node) else None


def _axis(node: ir.Node) -> int:
    """Returns the axis of a Concat, from the first dimension on where the rank is known."""
    axis, shape = node.attributes.get_int("axis", 0), node.outputs[0].shape
    return axis + len(shape) if axis < 0 and shape is not None else axis
