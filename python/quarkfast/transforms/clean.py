"""A named, sorted graph: constants as initializers, nothing unused."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.graph.builder import Names
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.transforms.lift_constants import lift_constants
from quarkfast.transforms.remove_identities import remove_identities

__all__ = ["clean", "name_apart", "sort"]


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


def name_apart(model: ir.Model) -> bool:
    """Gives nodes and constants of bodies names that no other graph of `model` has, in place.

    Two bodies may call different things the same. Idempotent; returns whether any was renamed.
    """
    graphs = graphs_of(model)
    if len(graphs) == 1:
        return False
    names, taken = Names.of(model), {node.name for node in model.graph} | set(model.graph.initializers)
    renamed = False
    for graph in graphs[1:]:
        for each in (*graph, *graph.initializers.values()):
            if each.name in taken:
                each.name, renamed = names.fresh(each.name or ""), True
            taken.add(each.name)
    return renamed


def sort(model: ir.Model) -> bool:
    """Sorts the nodes so that each comes after those it reads from; returns whether the model's own had to move."""
    before = list(model.graph)
    for graph in graphs_of(model):
        graph.sort()
    return list(model.graph) != before
