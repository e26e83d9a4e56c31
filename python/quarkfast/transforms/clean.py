"""Cleaning: functions inlined, constants lifted, identities and unread nodes removed, nodes sorted."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.graph.access import graph_of, is_standard
from quarkfast.graph.builder import Names
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = ["bypass", "clean", "inline_functions", "lift_constants", "name_apart", "remove_identities", "sort"]


def lift_constants(model: ir.Model) -> bool:
    """Makes initializers of the Constant nodes of `model`, in place, but for those that are graph outputs.

    Returns whether there were such nodes.

    An initializer has the name, the metadata and the readers of the node's output, and lies in the node's graph. As
    onnx-ir's LiftConstantsToInitializersPass does, which holds each tensor against a protocol (0.1 ms each) and is
    left with models in which a constant is no tensor. Idempotent; error 0.
    """
    constants = [node for node in nodes_of(model.graph) if node.op_type == "Constant" and node.domain == ""]
    if not all(map(_holds_a_tensor, constants)):
        return passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).modified
    lifted = [node for node in constants if not node.outputs[0].is_graph_output()]
    for node in lifted:
        output, tensor, graph = node.outputs[0], node.attributes["value"].value, graph_of(node.outputs[0])
        value = ir.Value(
            name=output.name,
            shape=tensor.shape,
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
            metadata_props=output.metadata_props.copy(),
        )
        value.meta.update(output.meta)
        graph.register_initializer(value)
        output.replace_all_uses_with(value)
        graph.remove(node, safe=True)
    return bool(lifted)


def _holds_a_tensor(node: ir.Node) -> bool:
    value = node.attributes.data.get("value")
    return len(node.attributes) == 1 and value is not None and value.type == ir.AttributeType.TENSOR


def remove_identities(model: ir.Model) -> bool:
    """Removes Identity nodes, in place; returns whether there was one to remove.

    1. What reads ``y = Identity(x)`` reads ``x``; where ``x`` has no type or shape, it gets those of ``y``.
    2. If ``y`` is an output of a graph, ``x`` takes its place, name and type, provided that a node of the same graph
       computes ``x`` and that it is no output yet. Elsewhere the node stays: in bodies of If, Loop and Scan an output
       must be computed there, and no two outputs may be one value (ONNX Runtime hands out uninitialized memory).

    Idempotent; graph inputs and outputs keep names and types; error 0.
    """
    removed = False
    for node in nodes_of(model.graph):
        if node.op_type == "Identity" and is_standard(node):
            removed |= bypass(node)
    return removed


def bypass(node: ir.Node) -> bool:
    """Removes a node that gives its first input as it is, by the rules of `remove_identities`; tells whether it did."""
    source, result, graph = node.inputs[0], node.outputs[0], node.graph
    if source is None or graph is None:
        return False
    if result.is_graph_output():
        producer = source.producer()
        if producer is None or producer.graph is not graph or source.is_graph_output():
            return False
        source.type, source.shape = result.type or source.type, result.shape or source.shape
    elif source.type is None:
        source.type = result.type
    if source.shape is None:
        source.shape = result.shape
    handed_out, name = result.is_graph_output(), result.name
    ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    if handed_out:
        source.name = name
    return True


def inline_functions(model: ir.Model) -> bool:
    """Inlines every call of a local function, in place, and gives every node and value a name of its own.

    Comes first: onnx converts no functions to another operator set. Idempotent; graph inputs and outputs keep names and
    types; error 0. Returns whether there was a function or a name to change.

    Raises:
        ModelError: If functions call each other in a circle.
        UnsupportedError: If a function is of another operator set than the model, or takes a graph as an attribute.
    """
    called = bool(model.functions)
    if called:
        try:
            passes.InlinePass()(model)
        except ir.passes.PreconditionError as error:
            raise ModelError(
                "model: expected local functions without recursion, got some that call each other"
            ) from error
        except ValueError as error:
            cause = " ".join(str(error).split())
            raise UnsupportedError(f"model: expected local functions that can be inlined, got: {cause}") from error
    return passes.NameFixPass()(model).modified or called


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
