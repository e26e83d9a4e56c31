"""Nodes that add nothing: removed, or merged with those that do."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard, shape_of, tensor_of
from quarkfast.graph.operators import EMPTY_STEPS
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.transforms.clean import bypass

__all__ = ["merge_concats", "remove_no_ops"]


def remove_no_ops(model: ir.Model) -> bool:
    """Removes nodes and inputs of nodes that add nothing, in place; returns whether there were any.

    1. What reads ``y = Cast(x)`` reads ``x`` where that has the type already. Exporters write such Casts where the
       author calls ``to``; a Cast ends what targets run in integers.
    2. A Concat loses the parts that are known to be empty, and is taken out if one is left: a ConstantOfShape with a
       constant 0, as of positions that are padded by none, arithmetic with it, and a constant. They show no values that
       a scale could follow from, and the other parts have to share their scale. What a shape only declares is no proof.

    Types are known (`quarkfast.transforms.infer_types`). Idempotent; graph inputs and outputs keep names and types;
    error 0.
    """
    changed = False
    for node in nodes_of(model.graph):
        if not is_standard(node):
            continue
        if node.op_type == "Cast" and _keeps_type(node):
            changed |= bypass(node)
        elif node.op_type == "Concat":
            changed |= _drop_empty_parts(node)
    if changed:
        passes.RemoveUnusedNodesPass()(model)
    return changed


def _keeps_type(node: ir.Node) -> bool:
    source = node.inputs[0]
    return source is not None and source.dtype is not None and source.dtype == node.attributes.get_int("to")


def _drop_empty_parts(node: ir.Node) -> bool:
    axis = node.attributes.get_int("axis", 0)
    kept = [value for value in node.inputs if value is not None and not _is_empty(value, axis)]
    if not kept or len(kept) == len(node.inputs):
        return False
    for index, value in enumerate(kept):
        node.replace_input_with(index, value)
    node.resize_inputs(len(kept))
    if len(kept) == 1:
        bypass(node)
    return True


def _is_empty(value: ir.Value, axis: int) -> bool:
    """Whether `value` has no elements along an axis, whatever the inputs of the model are."""
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if is_constant(value):
            shape = shape_of(tensor_of(value))
            if -len(shape) <= axis < len(shape) and shape[axis] == 0:
                return True
        elif node is not None and is_standard(node) and node.op_type == "ConstantOfShape":
            if _size(node.inputs[0], axis) == 0:
                return True
        elif node is not None and is_standard(node) and node.op_type in EMPTY_STEPS and value.shape is not None:
            parts = [each for each in node.inputs if each is not None and each not in seen]
            seen.update(parts)
            waiting += [each for each in parts if each.shape is not None and len(each.shape) == len(value.shape)]
    return False


def _size(shape: ir.Value | None, axis: int) -> int | None:
    """Returns the size along an axis that a tensor of sizes has, or None if it is not constant."""
    node = None if shape is None or is_constant(shape) else shape.producer()
    if node is not None and node.op_type == "Concat" and is_standard(node):
        parts = [_sizes(each) for each in node.inputs]
        sizes = None if any(part is None for part in parts) else [size for part in parts for size in part or ()]
    else:
        sizes = None if shape is None else _sizes(shape)
    return sizes[axis] if sizes is not None and -len(sizes) <= axis < len(sizes) else None


def _sizes(value: ir.Value | None) -> list[int | None] | None:
    """Returns the sizes that a vector of known length holds, None for each that is not constant."""
    if value is None:
        return None
    if is_constant(value):
        return [int(size) for size in array_of(value).ravel()]
    length = None if value.shape is None or len(value.shape) != 1 else value.shape[0]
    return [None] * length if isinstance(length, int) else None


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
