"""What looks for NaN and infinities: guards of rows that an attention mask hides as a whole."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_standard
from quarkfast.graph.attention import is_step, leads_to_softmax
from quarkfast.graph.operators import COMPARISONS, MATRIX_PRODUCTS, PASS_THROUGH, SCORE_JOINS

__all__ = ["nodes_before_guards"]

_PASSING = PASS_THROUGH | {"Where"}


def nodes_before_guards(graph: ir.Graph) -> frozenset[ir.Node]:
    """Returns the nodes whose NaN and infinities a guard of hidden rows looks for.

    The Softmax of a row of nothing but -inf is NaN, which exporters write a guard against:

    1. An IsNaN of the Softmax, or of its product with the values: these, what passes them on, and what joins scores
       with the mask in front.
    2. An IsInf, or a comparison, of the masked scores: what joins them with the mask.
    """
    found = set[ir.Node]()
    leading: frozenset[ir.Node] | None = None
    for node in graph:
        if node.op_type not in COMPARISONS or not is_standard(node):
            continue
        leading = leads_to_softmax(graph) if leading is None else leading
        for value in _floats(node):
            if node.op_type == "IsNaN":
                found |= _back_to_softmax(value, products=1)
            producer = value.producer()
            if producer in leading and producer is not None and producer.op_type != "Softmax":
                found |= _joins(value)
    return frozenset(found)


def _back_to_softmax(value: ir.Value, products: int) -> set[ir.Node]:
    """Returns the nodes from a Softmax to `value`, over so many products at most, and the joins in front of it."""
    node = value.producer()
    if node is None or not is_standard(node):
        return set()
    if node.op_type == "Softmax":
        return {node, *(each for source in _floats(node) for each in _joins(source))}
    left = products - (node.op_type in MATRIX_PRODUCTS)
    if left < 0 or node.op_type not in _PASSING | MATRIX_PRODUCTS:
        return set()
    found = {each for source in _floats(node) for each in _back_to_softmax(source, left)}
    return {node, *found} if found else set()


def _joins(value: ir.Value) -> set[ir.Node]:
    """Returns the nodes that join scores with masks and lead to `value`."""
    found, waiting = set[ir.Node](), [value]
    while waiting:
        node = waiting.pop().producer()
        if node is None or node in found or not is_standard(node):
            continue
        if node.op_type in SCORE_JOINS or is_step(node):
            found.add(node)
            waiting += _floats(node)
    return found


def _floats(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None and holds_floats(value)]
