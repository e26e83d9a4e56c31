"""Functions that an exporter wrote out as many small operators (Gelu, Softmax, ...), and layer normalizations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard, name_of, rank_of
from quarkfast.graph.operators import FUNCTION_CORES, FUNCTION_STEPS, NORMALIZATIONS

__all__ = ["Normalization", "find_normalization", "inner_tensors", "is_vector", "nodes_within_functions", "vector_of"]


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


class Normalization(NamedTuple):
    """A layer normalization of `source`: ``normalized * gain + offset``, constants with one value for each channel."""

    source: ir.Value | None
    gain: ir.Value
    offset: ir.Value | None


def find_normalization(value: ir.Value) -> Normalization | None:
    """Returns the constants of the layer normalization over the last axis that `value` is the result of, or None."""
    node = value.producer()
    if node is None or not is_standard(node):
        return None
    if node.op_type in NORMALIZATIONS:
        source, gain, offset = (*node.inputs, None)[:3]
        over_last = node.attributes.get_int("axis", -1) == -1 and value is node.outputs[0]
        known = gain is not None and is_vector(gain) and (offset is None or is_vector(offset))
        return Normalization(source, gain, offset) if over_last and known and gain is not None else None
    offset, scaled = vector_of(node, "Add")
    gain, normalized = vector_of(node if scaled is None else scaled.producer(), "Mul")
    centred = None if normalized is None else _centred(normalized)
    if gain is None or centred is None:
        return None
    taken = centred.producer()
    source = taken.inputs[0] if taken is not None and taken.op_type == "Sub" else centred
    return Normalization(source, gain, offset)


def is_vector(value: ir.Value | None) -> bool:
    """Whether a value is a constant of float32 of one dimension."""
    return value is not None and is_constant(value) and value.dtype == ir.DataType.FLOAT and rank_of(value) == 1


def vector_of(node: ir.Node | None, op_type: str) -> tuple[ir.Value | None, ir.Value | None]:
    """Returns the constant vector and the other operand of an Add or Mul; None and None if `node` is no such one."""
    if node is None or not is_standard(node) or node.op_type != op_type:
        return None, None
    first, second = node.inputs
    if is_vector(first) == is_vector(second):
        return None, None
    return (first, second) if is_vector(first) else (second, first)


def _centred(value: ir.Value) -> ir.Value | None:
    """Returns what `value` is, divided by a root, as exporters write a normalization out, or None."""
    node = value.producer()
    if node is None or node.op_type not in ("Div", "Mul"):
        return None
    wanted = "Sqrt" if node.op_type == "Div" else "Reciprocal"
    for dividend, divisor in (node.inputs, node.inputs[::-1])[: 1 if node.op_type == "Div" else 2]:
        producer = None if divisor is None else divisor.producer()
        if producer is not None and producer.op_type == wanted:
            return dividend
    return None
