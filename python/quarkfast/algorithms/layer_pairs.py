"""Pairs of layers between which a positive factor of a channel passes, directly or beside a gate (x * g(x))."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard, name_of, rank_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.notes import add_note
from quarkfast.graph.operators import HOMOGENEOUS
from quarkfast.graph.scalar_functions import FoundFunction, find_scalar_functions
from quarkfast.graph.walks import clip_limits
from quarkfast.wording import counted

__all__ = [
    "Gate",
    "GatedPair",
    "NextLayer",
    "by_input",
    "by_output",
    "carry_factors",
    "find_gated_pairs",
    "layers_behind",
    "makes_channels",
    "next_layer",
    "reads_rows",
    "values_between",
]

Values = NDArray[np.float64]


class NextLayer(NamedTuple):
    """A layer that a factor of a channel passes to.

    Attributes:
        layer: The layer.
        limit: The upper limit of the Clips on the way there, whose lower one is zero; infinite without a Clip. A factor
            passes a Clip as long as what it clips stays below that.
    """

    layer: ir.Node
    limit: float


def next_layer(node: ir.Node) -> NextLayer | None:
    """Returns the layer that alone reads what `node` gives, if a factor of a channel passes to it; else None.

    Both are Conv, or both Gemm, with weights and biases of their own.
    """
    if not makes_channels(node):
        return None
    value, limit = node.outputs[0], math.inf
    while True:
        uses = tuple(value.uses())
        if len(uses) != 1 or value.is_graph_output():
            return None
        reader, index = uses[0]
        if reader.graph is not node.graph or index != 0 or not is_standard(reader):
            return None
        # The upper limit of a Clip whose lower one is zero, such as a ReLU6; None for other nodes.
        low, high = (clip_limits(reader) or (None, None)) if reader.op_type == "Clip" else (None, None)
        clipped = high if low == 0 and high is not None and high > 0 else None
        if clipped is None and not _passes_through(reader):
            return NextLayer(reader, limit) if _reads_channels_of(reader, node) else None
        limit = min(limit, math.inf if clipped is None else clipped)
        if any(output.uses() or output.is_graph_output() for output in reader.outputs[1:]):
            return None
        value = reader.outputs[0]


def makes_channels(node: ir.Node) -> bool:
    """Whether a node is a Conv or a Gemm with a weight and a bias of its own, each channel of which may be scaled."""
    return _is_layer(node) and _is_vector(node)


def layers_behind(head: ir.Node, value: ir.Value) -> tuple[ir.Node, ...]:
    """Returns the layers that take up a factor of each channel of `value`, all that it passes to; nothing if others do.

    Args:
        head: What makes the channels (`makes_channels`).
        value: What has the factor.
    """
    layers, carried, others, waiting = list[ir.Node](), {value}, list[ir.Value | None](), [value]
    while waiting:
        read = waiting.pop()
        if read.is_graph_output() or not read.uses():
            return ()
        for reader, index in read.uses():
            if reader.graph is not head.graph or not is_standard(reader):
                return ()
            if index == 0 and _reads_channels_of(reader, head):
                layers.append(reader)
                continue
            if reader.op_type == "Mul":  # by whatever: channels stay where they are
                others.append(reader.inputs[1 - index])
            elif index or not _passes_through(reader) or any(each.uses() for each in reader.outputs[1:]):
                return ()
            carried.add(reader.outputs[0])
            waiting.append(reader.outputs[0])
    return () if carried.intersection(others) else tuple(dict.fromkeys(layers))


def values_between(value: ir.Value, layers: Sequence[ir.Node]) -> list[ir.Value]:
    """Returns `value` and what computes from it in front of layers that are all that it passes to."""
    found, waiting = dict[ir.Value, None](), [value]
    while waiting:
        read = waiting.pop()
        found[read] = None
        waiting += [reader.outputs[0] for reader, _ in read.uses() if reader not in layers]
    return list(found)


def _passes_through(node: ir.Node) -> bool:
    """Whether a positive factor of a channel passes through `node`."""
    if node.op_type == "Pad":
        rest = [each for each in node.inputs[2:3] if each is not None]
        zero = all(is_constant(each) and not array_of(each).any() for each in rest)
        return zero and node.attributes.get_float("value", 0.0) == 0 and _pads_places_alone(node)
    if node.op_type == "ReduceMean":
        axes = _integers(node, "axes", 1)
        return bool(axes) and min(axes) >= 2 and bool(node.attributes.get_int("keepdims", 1))
    return node.op_type in HOMOGENEOUS


def _pads_places_alone(node: ir.Node) -> bool:
    """Whether a Pad adds neither samples nor channels, by its full list of sizes."""
    sizes, constant = _integers(node, "pads", 1), node.attributes.get_string("mode", "constant") == "constant"
    rank = len(sizes) // 2
    whole = len(node.inputs) < 4 or node.inputs[3] is None
    return constant and whole and rank > 2 and not any((*sizes[:2], *sizes[rank : rank + 2]))


def _integers(node: ir.Node, name: str, index: int) -> list[int]:
    """Returns integers that are an attribute in old operator sets, and a constant input in others."""
    value = node.inputs[index] if len(node.inputs) > index else None
    if value is None:
        return list(node.attributes.get_ints(name, ()))
    return array_of(value).ravel().tolist() if is_constant(value) else []


def _is_layer(node: ir.Node) -> bool:
    return is_standard(node) and node.op_type in ("Conv", "Gemm") and _is_own(node.inputs[1])


def _is_own(value: ir.Value | None) -> bool:
    """Whether `value` is a constant of floats that one node reads."""
    if value is None or not is_constant(value) or value.dtype != ir.DataType.FLOAT:
        return False
    return is_read_once(value)


def _is_vector(node: ir.Node) -> bool:
    """Whether the layer has no bias, zeros alone, or one that can be scaled for each channel."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None or (is_constant(bias) and not array_of(bias).any()):
        return True
    return _is_own(bias) and array_of(bias).shape == (_channels_out(node),)


def _channels_out(node: ir.Node) -> int:
    return int(array_of(node.inputs[1]).shape[1 if reads_rows(node) else 0])


def _reads_channels_of(node: ir.Node, head: ir.Node) -> bool:
    if not _is_layer(node) or node.op_type != head.op_type or int(node.attributes.get_int("transA", 0)):
        return False
    return bool(by_input(node, array_of(node.inputs[1])).shape[0] == _channels_out(head))


def reads_rows(node: ir.Node) -> bool:
    """Whether the first axis of a layer's weight is that of its input."""
    return node.op_type == "Gemm" and int(node.attributes.get_int("transB", 0)) == 0


def by_output(node: ir.Node, weight: Values) -> Values:
    """Returns a weight with one row for each output channel."""
    return np.moveaxis(weight, 1 if reads_rows(node) else 0, 0)


def by_input(node: ir.Node, weight: Values) -> Values:
    """Returns a weight with one row for each input channel; ``[M, C / groups, ...]`` holds those of its group."""
    if node.op_type == "Gemm":
        return weight if reads_rows(node) else weight.T
    groups = node.attributes.get_int("group", 1)
    split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).swapaxes(1, 2)
    return split.reshape(groups * weight.shape[1], -1)


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
