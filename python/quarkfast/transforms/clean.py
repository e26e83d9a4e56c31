"""A named, sorted graph: constants as initializers, nothing unused."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.errors import ModelError
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.transforms.lift_constants import lift_constants
from quarkfast.transforms.remove_identities import remove_identities

__all__ = ["clean", "sort"]


def clean(model: ir.Model) -> bool:
    """Brings `model` into the form that the other passes expect, in place.

    1. Initializers are no graph inputs (a model of IR version 3 lists them there), so they are constants.
    2. Constant nodes become initializers.
    3. Identity nodes that nothing needs (`remove_identities`) and everything that no output needs are removed.
    4. Every value and node has a name of its own; names that are unique already are kept.

    Idempotent; graph inputs (apart from 1) and outputs keep names and types; error 0. Returns whether it changed
    anything.
    """
    changed = [
        passes.RemoveInitializersFromInputsPass()(model).modified,
        lift_constants(model),
        remove_identities(model),
        passes.RemoveUnusedNodesPass()(model).modified,
        passes.NameFixPass()(model).modified,
    ]
    return any(changed)


def sort(model: ir.Model) -> bool:
    """Sorts the nodes so that each comes after those it reads from; returns whether the model's own had to move.

    Raises:
        ModelError: If the graph has a cycle, or reads or hands out a tensor that nothing produces.
    """
    before = list(model.graph)
    for graph in graphs_of(model):
        try:
            graph.sort()
        except ValueError as error:
            raise ModelError("model: expected a graph without cycles, got one whose nodes feed each other") from error
    for node in nodes_of(model.graph):
        for value in node.inputs:
            if value is not None and value.producer() is None and value.graph is None:
                raise ModelError(
                    f"model: expected every input of a node to exist, got {value.name!r} as input of node "
                    f"{node.name or node.op_type!r}, which nothing produces"
                )
    for graph in graphs_of(model):
        for value in graph.outputs:
            if value.producer() is None and not value.is_graph_input() and not value.is_initializer():
                raise ModelError(f"model: expected every output to exist, got {value.name!r}, which nothing produces")
    return list(model.graph) != before
