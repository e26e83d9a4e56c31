"""Layers with a gate between them, ``x * g(x)`` as in hard-swish and SiLU: factors of channels pass beside the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.layer_pairs import layers_behind, makes_channels
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of, rank_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.notes import add_note
from quarkfast.graph.scalar_functions import FoundFunction, find_scalar_functions
from quarkfast.wording import counted

__all__ = ["Gate", "GatedPair", "carry_factors", "find_gated_pairs"]


class Gate(NamedTuple):
    """A function that is a product of its entry and a gate, which is a function of the entry too.

    Attributes:
        entry: The tensor, which nothing else reads.
        product: The Mul of it and the gate; a HardSwish, which becomes one.
    """

    entry: ir.Value
    product: ir.Node


class GatedPair(NamedTuple):
    """A layer, the gate that alone reads it, and the layers behind that."""

    head: ir.Node
    gate: Gate
    tails: tuple[ir.Node, ...]


def find_gated_pairs(model: ir.Model) -> Iterator[GatedPair]:
    """Yields pairs whose second layers are all that reads what a gate lets through, in the order of the graph.

    Between a gate and the layers may be what a positive factor passes through, and a Mul by what has no factor, as of a
    squeeze-and-excite block, whose first layer is one of those behind.
    """
    entries = [node.outputs[0] for node in model.graph if makes_channels(node)]
    for found in find_scalar_functions(model.graph, entries):
        head, gate = found.entry.producer(), _gate_of(found)
        if head is not None and gate is not None:
            tails = layers_behind(head, found.nodes[-1].outputs[0])
            if tails:
                yield GatedPair(head, gate, tails)


def _gate_of(found: FoundFunction) -> Gate | None:
    """Returns the gate of a function that is one, however it is written."""
    if [node.op_type for node in found.nodes] == ["HardSwish"]:
        return Gate(found.entry, found.nodes[0])
    products = [node for node in found.nodes if node.op_type == "Mul" and found.entry in node.inputs]
    products = [node for node in products if not any(map(is_constant, node.inputs)) and len(set(node.inputs)) == 2]
    if len(products) != 1:
        return None
    (product,) = products
    behind = found.nodes[found.nodes.index(product) + 1 :]
    scaled = all(node.op_type in ("Mul", "Div") and is_constant(node.inputs[1]) for node in behind)
    return Gate(found.entry, product) if scaled else None


def carry_factors(model: ir.Model, factors: Mapping[Gate, NDArray[np.float64]]) -> None:
    """Puts a Mul in front of each gate whose entry has been multiplied, in place, so that the gate reads what it did.

    A HardSwish becomes HardSigmoid and Mul. The summary says how many there are.

    Args:
        model: The model.
        factors: What each channel of an entry has been multiplied by, ``[channels]``, powers of two or others.
    """
    builder = GraphBuilder(model)
    if factors:
        count = counted(len(factors), "Mul")
        add_note(model, f"cross-layer equalization: {count} in front of gates, by which factors of channels pass them")
    for (entry, product), by_channel in factors.items():
        layer = entry.producer()
        assert layer is not None
        places = rank_of(layer.inputs[1]) - 2
        inverse = (1 / by_channel).astype(np.float32).reshape(-1, *[1] * places)
        constant = builder.initializer(f"{name_of(entry)}_factors", inverse)
        divided = _add(builder, "Mul", [entry, constant])
        if product.op_type == "HardSwish":
            opened = _add(builder, "HardSigmoid", [divided], alpha=1 / 6, beta=0.5)
            product.op_type = "Mul"
            product.resize_inputs(2)
            product.replace_input_with(1, opened)
            continue
        for reader, index in tuple(entry.uses()):
            if reader is not product and reader is not divided.producer():
                reader.replace_input_with(index, divided)


def _add(builder: GraphBuilder, op_type: str, inputs: Sequence[ir.Value], **attributes: float) -> ir.Value:
    """Puts a node behind what makes its first input, and returns its output."""
    first, producer = inputs[0], inputs[0].producer()
    assert producer is not None  # entries are outputs of layers
    node = builder.call(ir.node(op_type, inputs, attributes), f"{name_of(first)}_{op_type}")
    node.outputs[0].type, node.outputs[0].shape = first.type, first.shape
    builder.graph.insert_after(producer, node)
    return node.outputs[0]
