"""Shared weights: those that several layers read, none of which needs what another one gives."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_read_once, is_standard, name_of
from quarkfast.graph.subgraphs import bodies_of, nodes_of
from quarkfast.reconstruction.linear_layer import layer_of

__all__ = ["shared_weights"]


def shared_weights(model: ir.Model) -> frozenset[str]:
    """Returns the names of constants that are the weight of two or more layers of the model's own graph alone.

    The heads of a detector run on each level of a pyramid, filters on each octave. What all of these layers multiply is
    known before the weight has to be. It is not where one of them comes behind another, as the steps of a recurrent
    network that is written out do: such weights are left out.
    """
    shared = [each for each in model.graph.initializers.values() if _is_weight_of_several(model, each)]
    bits = {weight: 1 << index for index, weight in enumerate(shared)}
    behind = _weights_in_front(model, bits)
    for middle in shared:
        for weight in shared:
            if behind[weight] & bits[middle]:
                behind[weight] |= behind[middle]
    return frozenset(name_of(weight) for weight in shared if not behind[weight] & bits[weight])


def _is_weight_of_several(model: ir.Model, weight: ir.Value) -> bool:
    if is_read_once(weight) or weight.is_graph_output() or not is_constant(weight):
        return False
    forms = set()
    for node, place in weight.uses():
        layer = layer_of(node) if place == 1 and node.graph is model.graph and is_standard(node) else None
        if layer is None:
            return False
        forms.add((layer.op_type, layer.groups, layer.by_column, layer.window is not None and layer.window.transposed))
    return len(forms) == 1


def _weights_in_front(model: ir.Model, bits: dict[ir.Value, int]) -> dict[ir.Value, int]:
    """Returns for each of some weights those of them that what its layers multiply comes from, as bits."""
    front, behind = dict[ir.Value, int](), dict.fromkeys(bits, 0)
    for node in model.graph:
        found = 0
        for value in _read(node):
            found |= front.get(value, 0)
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        if weight is not None and weight in bits:
            behind[weight] |= found
            found |= bits[weight]
        if found:
            front.update(dict.fromkeys(node.outputs, found))
    return behind


def _read(node: ir.Node) -> list[ir.Value]:
    """Returns what a node reads, its bodies included."""
    inner = [each for body in bodies_of(node) for each in nodes_of(body)]
    handed_out = [value for body in bodies_of(node) for value in body.outputs]
    return [value for each in (node, *inner) for value in each.inputs if value is not None] + handed_out
