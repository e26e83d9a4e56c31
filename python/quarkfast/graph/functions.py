"""Functions that an exporter wrote out as many small operators: Gelu, LayerNormalization, Softmax, L2 normalization."""

from __future__ import annotations

from collections.abc import Iterator

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard, name_of
from quarkfast.graph.operators import FUNCTION_CORES, FUNCTION_STEPS

__all__ = ["inner_tensors", "nodes_within_functions"]


def nodes_within_functions(graph: ir.Graph) -> frozenset[ir.Node]:
    """Returns the nodes that together compute one function of one tensor.

    Such a group reads one float tensor (and constants), more than once, and all that leaves it is one tensor: its
    paths fork and meet again. It holds an operator that makes it more than arithmetic (Erf, Exp, Sqrt, a mean, ...).
    Arithmetic with constants that follows belongs to it. Its inner tensors have no use outside and ranges that no scale
    fits: ``mean(x^2) - mean(x)^2`` loses everything in 8 bits.

    Source:
        The definitions of Gelu, LayerNormalization, Softmax, LpNormalization and Mish as functions, ONNX operator
        specification.
    """
    return frozenset(node for function in _functions(graph) for node in function)


def inner_tensors(graph: ir.Graph) -> frozenset[str]:
    """Returns the names of what the functions of :func:`nodes_within_functions` compute on their way.

    A device that computes a function at once, as one operator or as a loop over elements, stores none of them.
    """
    return frozenset(name_of(node.outputs[0]) for function in _functions(graph) for node in function[:-1])


def _functions(graph: ir.Graph) -> list[list[ir.Node]]:
    """Returns the nodes of each function; what leaves it is the output of the last."""
    found: list[list[ir.Node]] = []
    taken: set[ir.Node] = set()
    order = {node: position for position, node in enumerate(graph)}
    for entry in _entries(graph):
        function = [] if any(reader in taken for reader, _ in entry.uses()) else _function_of(entry, order)
        if function:
            found.append(function)
            taken.update(function)
    return found


def _entries(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yields the float tensors with more than one reader, in the order of the graph."""
    values = (*graph.inputs, *(output for node in graph for output in node.outputs))
    return (value for value in values if holds_floats(value) and len(value.uses()) > 1)


def _function_of(entry: ir.Value, order: dict[ir.Node, int]) -> list[ir.Node]:
    """Returns the longest group that starts at `entry`, or an empty list."""
    reached = _reached(entry, order)
    longest = 0
    inside: set[ir.Value] = set()
    open_values: dict[ir.Value, int] = {}
    has_core = False
    for count, node in enumerate(reached, start=1):
        inputs = [value for value in node.inputs if _is_data(value)]
        for value in inputs:
            if value in open_values:
                open_values[value] -= 1
                if not open_values[value]:
                    del open_values[value]
        output = node.outputs[0]
        inside.add(output)
        has_core |= node.op_type in FUNCTION_CORES
        open_values[output] = len(output.uses()) + output.is_graph_output()
        meets = len(inputs) > 1
        follows = longest == count - 1 and longest > 0
        if has_core and set(open_values) == {output} and (meets or follows):
            longest = count
    return reached[:longest]


def _reached(entry: ir.Value, order: dict[ir.Node, int]) -> list[ir.Node]:
    """Returns the nodes that depend on `entry` and constants alone, sorted."""
    known = {entry}
    reached: set[ir.Node] = set()
    waiting = [reader for reader, _ in entry.uses()]
    while waiting:
        node = waiting.pop()
        if node in reached or node not in order or not is_standard(node) or node.op_type not in FUNCTION_STEPS:
            continue
        data = [value for value in node.inputs if _is_data(value)]
        if len(node.outputs) != 1 or not holds_floats(node.outputs[0]) or not all(value in known for value in data):
            continue
        reached.add(node)
        known.add(node.outputs[0])
        waiting.extend(reader for reader, _ in node.outputs[0].uses())
    return sorted(reached, key=order.__getitem__)


def _is_data(value: ir.Value | None) -> bool:
    return value is not None and holds_floats(value) and not is_constant(value)
