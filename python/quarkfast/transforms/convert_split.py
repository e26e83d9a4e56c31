"""A Split becomes Slices, one for each part, which NPUs have."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.notes import inherit_names
from quarkfast.graph.opset import opset_version

__all__ = ["convert_split"]

# Slice takes its bounds as inputs from this operator set on.
_BOUNDS_AS_INPUTS = 10


def convert_split(model: ir.Model) -> bool:
    """Turns Split into one Slice for each output, in place; returns whether there was one to turn.

    1. The sizes of its parts are constants, or follow from a known dimension: equal, the last one smaller where it does
       not come out even.
    2. The bounds are called after the output: ``<output>_starts_0``, ``_ends_0``, ``_axes_0``, ``_steps_0``, with the
       number of the part.

    Needs operator set 10. Idempotent; graph inputs and outputs are kept; error 0.
    """
    if opset_version(model) < _BOUNDS_AS_INPUTS:
        return False
    builder, converted = GraphBuilder(model), False
    for node in tuple(model.graph):
        if is_standard(node) and node.op_type == "Split" and (sizes := _sizes(node)):
            _slice(builder, node, sizes)
            converted = True
    drop_unread(model.graph)
    return converted


def _sizes(node: ir.Node) -> list[int]:
    """Returns the sizes of the parts of `node`; empty if they are not known."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None:
        known = is_constant(given) and not given.is_graph_input()
        return [int(size) for size in array_of(given)] if known else []
    if "split" in node.attributes:
        return list(node.attributes.get_ints("split", ()))
    shape, axis = node.inputs[0].shape if node.inputs[0] is not None else None, node.attributes.get_int("axis", 0)
    size = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
    count = len(node.outputs)
    if not isinstance(size, int):
        return []
    part = -(-size // count)
    return [min(part, size - start) for start in range(0, part * count, part)] if part * (count - 1) < size else []


def _slice(builder: GraphBuilder, node: ir.Node, sizes: list[int]) -> None:
    graph, axis = node.graph, node.attributes.get_int("axis", 0)
    assert graph is not None
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    for index, (output, (start, end)) in enumerate(zip(tuple(node.outputs), bounds, strict=True)):
        name = name_of(output)
        numbers = {"starts": start, "ends": end, "axes": axis, "steps": 1}
        inputs = [
            builder.initializer(f"{name}_{key}_{index}", np.array([number], np.int64))
            for key, number in numbers.items()
        ]
        part = ir.node("Slice", [node.inputs[0], *inputs], name=builder.fresh(f"{name_of(node)}_{index}"))
        inherit_names(part, node)
        graph.insert_before(node, part)
        result = part.outputs[0]
        result.type, result.shape = output.type, output.shape
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        output.name = builder.fresh(f"{name}_replaced")
        result.name = name
    graph.remove(node, safe=True)
