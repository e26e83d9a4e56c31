"""Who reads an activation as it was computed, where a target quantizes the operands of its operators alone."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.placement import Edge

__all__ = ["Operands"]


class Operands:
    """The inputs that read quantized activations, gathered while a graph is walked over."""

    def __init__(self) -> None:
        self._values: dict[str, ir.Value] = {}
        self._edges: set[Edge] = set()

    def add(self, node: ir.Node, index: int) -> None:
        """Notes that input `index` of `node`, no constant, is an operand."""
        value = node.inputs[index]
        if value is None:
            return
        self._values[name_of(value)] = value
        self._edges.add(Edge(name_of(node), index))

    def float_edges(self, results: set[str]) -> set[Edge]:
        """Returns all other inputs that read one of these activations, but for those of `results`."""
        uses = (use for name, value in self._values.items() if name not in results for use in value.uses())
        return {edge for node, index in uses if (edge := Edge(name_of(node), index)) not in self._edges}

    def float_outputs(self, results: set[str]) -> frozenset[str]:
        """Returns those of these activations that are graph outputs, but for `results`."""
        return frozenset(
            name for name, value in self._values.items() if value.is_graph_output() and name not in results
        )
