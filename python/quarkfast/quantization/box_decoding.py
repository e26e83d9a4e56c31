"""Box decoding: offsets to the points of a grid become coordinates, which eight bits cannot carry."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard
from quarkfast.graph.operators import BOX_CHOOSERS, BOX_STEPS, JOINING_MOVERS, SHAPE_READERS

__all__ = ["box_decoding"]


def box_decoding(graph: ir.Graph) -> set[ir.Node]:
    """Returns the nodes behind the last layers of a model that make coordinates of offsets.

    A detector's last layers give offsets of a few cells, to which it adds the points of a grid, and multiplies the sum
    by the size of a cell: with eight bits boxes in an image of 960 pixels move by steps of 9 pixels, where the codes of
    the offsets tell single ones apart.

    1. An Add or Sub of a tensor and a grid that nothing but arithmetic, moves and the choice of boxes is behind, and
       the arithmetic and moves of these. A grid is a constant, or follows from shapes, and differs along two axes,
       which no bias does.
    2. In front of these, arithmetic and moves that lead to them alone. What layers, Sigmoids and Softmaxes give keeps
       its pair.
    """
    end, moving = _end(graph), _depending(graph)
    found = set[ir.Node]()
    for node in graph:
        behind = any(value is not None and value.producer() in found for value in node.inputs)
        if (behind and node.op_type in BOX_STEPS | JOINING_MOVERS) or (node in end and _adds_grid(node, moving)):
            found.add(node)
    for node in reversed(graph if found else ()):
        if is_standard(node) and node.op_type in BOX_STEPS | JOINING_MOVERS and _leads_to(node, found):
            found.add(node)
    return found


def _end(graph: ir.Graph) -> set[ir.Node]:
    """Returns the nodes that nothing but arithmetic, moves, the choice of boxes and integers are behind."""
    found = set[ir.Node]()
    for node in reversed(graph):
        passes = node.op_type in BOX_STEPS | JOINING_MOVERS | BOX_CHOOSERS or not any(map(holds_floats, node.outputs))
        if is_standard(node) and passes and all(reader in found for reader in _readers(node)):
            found.add(node)
    return found


def _depending(graph: ir.Graph) -> set[ir.Value]:
    """Returns the values that depend on those of the inputs, not on their shapes alone."""
    found = {value for value in graph.inputs if not is_constant(value)}
    for node in graph:
        if node.op_type not in SHAPE_READERS and any(value in found for value in node.inputs if value is not None):
            found.update(node.outputs)
    return found


def _adds_grid(node: ir.Node, moving: set[ir.Value]) -> bool:
    if node.op_type not in ("Add", "Sub") or len(node.inputs) != 2:
        return False
    data = [value for value in node.inputs if value in moving]
    grids = [value for value in node.inputs if value is not None and value not in moving]
    return len(data) == len(grids) == 1 and holds_floats(data[0]) and _is_grid(grids[0])


def _is_grid(value: ir.Value) -> bool:
    return value.shape is None or sum(size != 1 for size in value.shape) > 1


def _leads_to(node: ir.Node, found: set[ir.Node]) -> bool:
    readers = _readers(node)
    shown = any(output.is_graph_output() for output in node.outputs)
    return bool(readers) and not shown and all(reader in found for reader in readers)


def _readers(node: ir.Node) -> list[ir.Node]:
    """Returns what reads the values of a node's results."""
    readers = (reader for output in node.outputs for reader, _ in output.uses())
    return [reader for reader in readers if reader.op_type not in SHAPE_READERS]
