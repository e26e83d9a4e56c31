"""Nodes of its own for each reader of a tensor, for compilers that look at one operator with its pairs at a time."""

from __future__ import annotations

from collections.abc import Sequence

from quarkfast.config import Shares
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder

__all__ = ["OwnPairs"]


class OwnPairs:
    """Chains of nodes that lead from floats or codes to what readers take, copied for all readers but the first.

    The copies compute the same, from the same scales and zero points.
    """

    def __init__(self, builder: GraphBuilder, graph: ir.Graph, shares: Shares) -> None:
        """Takes what names nodes, the graph that gets the copies, and what readers share."""
        self._builder = builder
        self._graph = graph
        self._shares = shares
        self._chains: list[tuple[Sequence[ir.Node], int]] = []

    def add(self, nodes: Sequence[ir.Node], quantizing: int) -> None:
        """Adds a chain, whose first `quantizing` nodes lead to codes."""
        if self._shares != "pair":
            self._chains.append((nodes, quantizing if self._shares == "codes" else 0))

    def write(self) -> None:
        """Copies the chains. What is handed out as a graph output stays with the first."""
        for nodes, shared in self._chains:
            result = nodes[-1].outputs[0]
            uses = tuple(result.uses())
            for reader, index in uses if result.is_graph_output() else uses[1:]:
                copies = self._copy(nodes[shared:])
                self._graph.insert_after(nodes[-1], copies)
                reader.replace_input_with(index, copies[-1].outputs[0])

    def _copy(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        made: dict[ir.Value | None, ir.Value] = {}
        copies = []
        for node in nodes:
            inputs = [made.get(value, value) for value in node.inputs]
            copy = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), num_outputs=1)
            copies.append(self._builder.call(copy, name_of(node)))
            old, new = node.outputs[0], copy.outputs[0]
            new.type, new.shape = old.type, old.shape
            made[old] = new
        return copies
