"""Attention that an exporter wrote out: what stands between its products, what computes its mask and what guards it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, holds_floats, is_constant, is_standard, range_of, rank_of
from quarkfast.graph.operators import (
    COMPARISONS,
    DEQUANTIZERS,
    MASK_STEPS,
    MATRIX_PRODUCTS,
    PASS_THROUGH,
    QUANTIZERS,
    SCORE_JOINS,
    SCORE_STEPS,
)

__all__ = [
    "Masks",
    "adds_bias",
    "find_masks",
    "is_step",
    "leads_to_softmax",
    "nodes_before_guards",
    "nodes_of_attention",
]

# A constant this far from zero is there to mask: exp(-1000) is 0 in float64 as well.
_FAR = 1000.0


class Masks(NamedTuple):
    """What is computed only to be joined with scores in front of a Softmax.

    Attributes:
        nodes: The nodes that compute it.
        values: The tensors that these nodes read and give, and masks that are inputs of the graph or constants.
        sums: What joins them with scores.
    """

    nodes: frozenset[ir.Node]
    values: frozenset[ir.Value]
    sums: frozenset[ir.Value]


def nodes_of_attention(graph: ir.Graph) -> frozenset[ir.Node]:
    """Returns the nodes between the product of queries and keys and that of the weights with values.

    1. A Softmax that a matrix product reads, directly or through nodes that pass its values on or replace some of them.
    2. Those nodes.
    3. In front of the Softmax, nodes that join scores with masks, and nodes that pass on or scale the operands of these
       and have no other reader.
    """
    found: set[ir.Node] = set()
    for node in graph:
        if node.op_type == "Softmax" and is_standard(node):
            after = _until_product(node)
            if after is not None:
                found.update((node, *after))
    for node in reversed(graph):
        if node not in found and is_standard(node) and _leads(node, found):
            found.add(node)
    return frozenset(found)


def adds_bias(node: ir.Node) -> int | None:
    """Returns which input of `node` is a bias, if it adds one to a matrix product with a constant; otherwise None."""
    if node.op_type != "Add" or not is_standard(node):
        return None
    for index, value in enumerate(node.inputs):
        other = node.inputs[1 - index]
        producer = None if other is None else other.producer()
        if producer is None or producer.op_type != "MatMul" or not is_constant(producer.inputs[1]):
            continue
        if is_constant(value) and rank_of(value) == 1 and len(producer.outputs[0].uses()) == 1:
            return index
    return None


def is_step(node: ir.Node) -> bool:
    """Whether `node` changes one tensor element by element, or passes it on."""
    return node.op_type in PASS_THROUGH or (node.op_type in SCORE_STEPS and len(_data(node)) == 1)


def leads_to_softmax(graph: ir.Graph) -> frozenset[ir.Node]:
    """Returns the nodes whose result reaches a Softmax through joins and steps, and each Softmax."""
    found: set[ir.Node] = set()
    for node in reversed(graph):
        if not is_standard(node):
            continue
        joins = node.op_type in SCORE_JOINS or is_step(node)
        if node.op_type == "Softmax" or (joins and any(reader in found for reader, _ in node.outputs[0].uses())):
            found.add(node)
    return frozenset(found)


def find_masks(graph: ir.Graph) -> Masks:
    """Returns what computes masks.

    An operand of a join in front of a Softmax is a mask if it follows from constants, inputs of the graph and tensors
    of other types alone, without a product, and either the other operand does not, or it holds a constant that is
    infinite or at least 1000 from zero.
    """
    cones = _Cones()
    nodes: set[ir.Node] = set()
    values: set[ir.Value] = set()
    sums: set[ir.Value] = set()
    for node in leads_to_softmax(graph):
        if node.op_type not in SCORE_JOINS:
            continue
        closed = {value: cones.of(value) for value in _floats(node, outputs=False)}
        for value, cone in closed.items():
            if cone is not None and (None in closed.values() or cones.is_far(cone, value)):
                nodes |= cone
                sums.update(node.outputs)
                values.update((value, *(each for inner in cone for each in _floats(inner))))
    return Masks(frozenset(nodes), frozenset(values), frozenset(sums))


class _Cones:
    """The nodes that tensors follow from, where these are such as masks are computed with."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, frozenset[ir.Node] | None] = {}
        self._far: dict[ir.Value, bool] = {}

    def of(self, value: ir.Value) -> frozenset[ir.Node] | None:
        """Returns them back to constants, graph inputs and other types; None if others are among them."""
        if value not in self._known:
            self._known[value] = _cone(value)
        return self._known[value]

    def is_far(self, cone: frozenset[ir.Node], value: ir.Value) -> bool:
        """Whether something that masks is among the constants of `cone`, or is `value`."""
        constants = [each for node in cone for each in (*node.inputs, *node.outputs) if each is not None]
        return any(self._holds_far(each) for each in (value, *constants))

    def _holds_far(self, value: ir.Value) -> bool:
        if value not in self._far:
            self._far[value] = _holds_far(value)
        return self._far[value]


def _cone(value: ir.Value) -> frozenset[ir.Node] | None:
    found: set[ir.Node] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop().producer()
        if node is None or node in found:
            continue
        inputs = _floats(node, outputs=False)
        if not is_standard(node) or (inputs and node.op_type not in MASK_STEPS):
            return None
        if node.op_type == "Gather" and is_constant(node.inputs[0]):
            return None  # a table that was trained
        found.add(node)
        waiting += inputs
    return frozenset(found)


def _holds_far(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is not None and producer.op_type == "ConstantOfShape":
        fill = producer.attributes.get("value")
        return fill is not None and bool(np.any(np.abs(fill.as_tensor().numpy().astype(np.float64)) >= _FAR))
    if not is_constant(value) or not holds_floats(value):
        return False
    if value.dtype != ir.DataType.FLOAT:
        return bool(np.any(np.abs(array_of(value).astype(np.float64)) >= _FAR))
    found = range_of(value)
    return bool(found.pos_inf or found.neg_inf or max(-found.min, found.max) >= _FAR)


def _until_product(softmax: ir.Node) -> frozenset[ir.Node] | None:
    """Returns the nodes between `softmax` and the products that read it, or None if none does."""
    paths = [path for reader, path in _paths(softmax) if reader.op_type in MATRIX_PRODUCTS]
    return frozenset(node for path in paths for node in path) if paths else None


def _paths(node: ir.Node) -> Iterator[tuple[ir.Node, tuple[ir.Node, ...]]]:
    """Yields what reads the values of `node`, each with the nodes that pass them on."""
    waiting: list[tuple[ir.Node, tuple[ir.Node, ...]]] = [(node, ())]
    while waiting:
        last, path = waiting.pop()
        for reader, _ in last.outputs[0].uses():
            if reader.op_type in QUANTIZERS | DEQUANTIZERS:
                waiting.append((reader, path))
            elif reader.op_type in PASS_THROUGH | {"Where"} and is_standard(reader):
                waiting.append((reader, (*path, reader)))
            else:
                yield reader, path


def _leads(node: ir.Node, found: set[ir.Node]) -> bool:
    """Whether the result of `node` is on its way to the Softmax of an attention."""
    output = node.outputs[0]
    within = [reader in found for reader, _ in output.uses()]
    if node.op_type in SCORE_JOINS and adds_bias(node) is None:
        return any(within)
    return is_step(node) and bool(within) and all(within) and not output.is_graph_output()


def _data(node: ir.Node) -> list[ir.Value]:
    return [value for value in _floats(node, outputs=False) if not is_constant(value)]


def _floats(node: ir.Node, outputs: bool = True) -> list[ir.Value]:
    values = (*node.inputs, *node.outputs) if outputs else node.inputs
    return [value for value in values if value is not None and holds_floats(value)]


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
        for value in _floats(node, outputs=False):
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
        return {node, *(each for source in _floats(node, outputs=False) for each in _joins(source))}
    left = products - (node.op_type in MATRIX_PRODUCTS)
    if left < 0 or node.op_type not in _PASSING | MATRIX_PRODUCTS:
        return set()
    found = {each for source in _floats(node, outputs=False) for each in _back_to_softmax(source, left)}
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
            waiting += _floats(node, outputs=False)
    return found
