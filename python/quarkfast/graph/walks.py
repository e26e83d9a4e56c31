"""Walks over a graph: back to what a tensor was moved from, and groups of nodes that grow from seeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.operators import SELECTORS, SHAPE_READERS

__all__ = ["clip_limits", "grow_back", "grow_forward", "leads_to", "limits_of", "moved_from"]

Enters = Callable[[ir.Node, int], bool]
"""Whether a group grows back through an input of one of its nodes."""


def _any_input(node: ir.Node, index: int) -> bool:
    return True


def moved_from(value: ir.Value | None, movers: Collection[str]) -> Iterator[ir.Value]:
    """Yields a tensor, and what it was moved from by the first inputs of operators of `movers`, one by one.

    Example:
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> '
        ...                           'g (float[1,2] x) => (float[2,1] y) { r = Relu (x) y = Transpose (r) }')
        >>> [value.name for value in moved_from(model.graph.outputs[0], {"Transpose"})]
        ['y', 'r']
    """
    while value is not None:
        yield value
        node = value.producer()
        moved = node is not None and is_standard(node) and node.op_type in movers and node.inputs
        value = node.inputs[0] if moved and node is not None else None


def leads_to(node: ir.Node, group: Collection[ir.Node], enters: Enters = _any_input) -> bool:
    """Whether nodes of `group`, at inputs that it enters, and nothing else read what `node` gives, shapes apart."""
    uses = [use for output in node.outputs for use in output.uses() if use.node.op_type not in SHAPE_READERS]
    shown = any(output.is_graph_output() for output in node.outputs)
    return bool(uses) and not shown and all(reader in group and enters(reader, index) for reader, index in uses)


def grow_back(
    nodes: Iterable[ir.Node],
    seeds: Iterable[ir.Node],
    passes: Callable[[ir.Node], bool],
    enters: Enters = _any_input,
) -> set[ir.Node]:
    """Returns `seeds`, and the nodes in front that lead to nothing else.

    Args:
        nodes: The nodes of a graph, the last first.
        seeds: Where to begin.
        passes: Whether the group may grow through a node of the standard.
        enters: Whether it may grow through an input of a node.
    """
    group = set(seeds)
    for node in nodes:
        if node not in group and is_standard(node) and passes(node) and leads_to(node, group, enters):
            group.add(node)
    return group


def grow_forward(nodes: Iterable[ir.Node], seeds: Iterable[ir.Node], passes: Callable[[ir.Node], bool]) -> set[ir.Node]:
    """Returns `seeds`, and the nodes behind that read what one of them gives.

    Args:
        nodes: The nodes of a graph in their order.
        seeds: Where to begin.
        passes: Whether the group may grow through a node of the standard.
    """
    group = set(seeds)
    for node in nodes:
        behind = any(value is not None and value.producer() in group for value in node.inputs)
        if behind and is_standard(node) and passes(node):
            group.add(node)
    return group


def limits_of(value: ir.Value) -> tuple[float | None, float | None]:
    """Returns the limits of the Relu or Clip that `value` comes from, seen through what moves values; None for none.

    Example:
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> '
        ...                           'g (float[1,2] x) => (float[2,1] y) { r = Relu (x) y = Transpose (r) }')
        >>> limits_of(model.graph.outputs[0])
        (0.0, None)
    """
    for source in moved_from(value, SELECTORS):
        node = source.producer()
        if node is None or not is_standard(node):
            continue
        if node.op_type == "Relu":
            return 0.0, None
        if node.op_type == "Clip":
            return clip_limits(node) or (None, None)
    return None, None


def clip_limits(node: ir.Node) -> tuple[float | None, float | None] | None:
    """Returns the limits of a Clip of operator set 11 or newer; None where they are not known beforehand."""
    given = [*node.inputs[1:3], None, None][:2]
    if any(value is not None and (not is_constant(value) or value.is_graph_input()) for value in given):
        return None
    low, high = (None if value is None else float(array_of(value).reshape(())) for value in given)
    return low, high
