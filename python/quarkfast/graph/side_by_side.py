"""Two models as one, which computes both on the same inputs."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import name_of
from quarkfast.graph.names import Names
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["put_beside"]


def put_beside(model: ir.Model, other: ir.Model, prefix: str) -> dict[str, ir.Value]:
    """Moves the nodes and constants of `other` into `model`, where they read the inputs of `model`.

    Outputs of `other` are none of the result. What is moved gets `prefix` in front of its name.

    Args:
        model: A model without local functions; changed in place.
        other: Another of the same operator set; of no use afterwards.
        prefix: In front of names; more is added where that is not enough to tell them apart.

    Returns:
        The names that values of the graph of `other` had -> these values.

    Raises:
        ModelError: If the inputs of both are not the same, or their operator sets differ.
    """
    if opset_version(model) != opset_version(other):
        raise ModelError(
            f"compare: expected models that can be brought to one operator set, got {opset_version(model)} and "
            f"{opset_version(other)}"
        )
    fed = _inputs(model, other)
    known = {name_of(value): value for value in (*other.graph.initializers.values(), *_computed(other.graph))}
    other.graph.outputs.clear()  # which would hold inputs and constants that are handed out
    names = Names.of(model)
    constants = list(other.graph.initializers.values())
    other.graph.initializers.clear()
    for graph in graphs_of(other):
        _rename_nodes(graph, names, prefix)
        if graph is not other.graph:
            for value in (*graph.inputs, *graph.initializers.values()):
                value.name = names.fresh(prefix + name_of(value))
    for value in constants:
        value.name = names.fresh(prefix + name_of(value))
    for name, value in fed.items():
        (own,) = (each for each in other.graph.inputs if name_of(each) == name)
        ir.convenience.replace_all_uses_with(own, value)
    nodes = list(other.graph)
    other.graph.remove(nodes)
    for value in constants:
        if value not in other.graph.inputs:
            model.graph.register_initializer(value)
    model.graph.extend(nodes)
    for domain, version in other.opset_imports.items():
        model.opset_imports.setdefault(domain, version)
    return known | fed


def _inputs(model: ir.Model, other: ir.Model) -> dict[str, ir.Value]:
    """Returns the inputs of `other` -> those of `model` that take their place: by name, or by position."""
    own, theirs = ([value for value in each.graph.inputs if value.const_value is None] for each in (model, other))
    if len(own) != len(theirs):
        raise ModelError(f"compare: expected models of as many inputs, got {len(own)} and {len(theirs)}")
    by_name = {name_of(value): value for value in own}
    if set(by_name) == {name_of(value) for value in theirs}:
        return {name_of(value): by_name[name_of(value)] for value in theirs}
    return {name_of(one): value for one, value in zip(theirs, own, strict=True)}


def _computed(graph: ir.Graph) -> list[ir.Value]:
    return [value for node in graph for value in node.outputs if value.name]


def _rename_nodes(graph: ir.Graph, names: Names, prefix: str) -> None:
    """Gives the nodes of a graph, and what they compute, other names."""
    for node in graph:
        node.name = names.fresh(prefix + (node.name or node.op_type))
        for value in node.outputs:
            if value.name:
                value.name = names.fresh(prefix + value.name)
