"""Channel rewriting: outlier channels in front of products, by which factors they shrink, and weights that make up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.channel_range_estimation import Activation, find_activation, is_product, reads_columns
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, name_of, shape_of, tensor_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.functions import find_normalization
from quarkfast.graph.rewriting import keep_float

__all__ = [
    "Factors",
    "Rewrite",
    "divide_channels",
    "is_own",
    "powers_of_two",
    "rewrite_channels",
    "smoothable_axes",
    "smoothing_note",
    "split_channels",
]


def divide_channels(builder: GraphBuilder, value: ir.Value, products: Sequence[ir.Node], factors: NDArray[Any]) -> None:
    """Divides channels of `value` for `products`, in place, and multiplies the rows of weights that read them.

    A Mul divides; where all readers of a layer normalization are products, its gain and offset are divided instead.
    With powers of two the products' results have the same bits, but where numbers become subnormal or infinite.

    Args:
        builder: Of the model of all these.
        value: An output of one of its nodes.
        products: Readers of `value`; nothing else reads their weights.
        factors: One for each channel along the last axis of `value`.
    """
    _read(products, _divided(builder, value, products, factors))
    for weight, axis in _weights(products):
        _edit(weight, axis, np.arange(factors.size), factors)


def split_channels(
    builder: GraphBuilder, value: ir.Value, products: Sequence[ir.Node], parts: NDArray[np.int64]
) -> None:
    """Splits channels of `value` into equal parts for `products`, in place, and repeats the rows that read them.

    Behind an activation of a product that nothing else reads, that product makes the parts: columns of its weight and
    values of its bias are repeated, and a Mul divides behind the activation. Elsewhere channels are divided as by
    :func:`divide_channels`, a Gather repeats them and a Concat puts the repeats behind the others. Results are the same
    but for the order of sums.

    Args:
        builder: Of the model of all these.
        value: An output of one of its nodes.
        products: Readers of `value`; nothing else reads their weights.
        parts: How many each channel along the last axis of `value` becomes. The first stays where it is.
    """
    repeats = np.repeat(np.arange(parts.size), parts - 1)
    order = np.concatenate([np.arange(parts.size), repeats])
    activation = find_activation(value)
    between = _between(activation, value) if activation is not None and _is_alone(value, products) else None
    if activation is not None and between is not None:
        # Makes a product compute the channels of `order`, of which some are repeats.
        _edit(activation.product.inputs[1], 0 if reads_columns(activation.product) else 1, order)
        if activation.bias is not None:
            _edit(activation.bias, 0, order)
        for output in (output for node in between for output in node.outputs):
            output.shape = _with_channels(output.shape, order.size)
        _read(products, _multiplied(builder, value, 1 / parts[order]))
    else:
        divided = _divided(builder, value, products, parts)
        _read(products, _with_repeats(builder, divided, parts.size, repeats))
    for weight, axis in _weights(products):
        _edit(weight, axis, order)


def is_own(value: ir.Value | None, readers: Sequence[ir.Node]) -> bool:
    """Whether nobody but `readers` reads a constant, and each of them once."""
    if value is None or value.is_graph_output() or value.is_graph_input():
        return False
    return all(node in readers and node.inputs.count(value) == 1 for node, _ in value.uses())


def _is_alone(value: ir.Value, products: Sequence[ir.Node]) -> bool:
    """Whether nothing but `products` reads a value."""
    return not value.is_graph_output() and all(node in products for node, _ in value.uses())


def _read(products: Sequence[ir.Node], value: ir.Value) -> None:
    for product in products:
        product.replace_input_with(0, value)


def _weights(products: Sequence[ir.Node]) -> list[tuple[ir.Value | None, int]]:
    """Returns each weight once, and the axis along which it meets the channels."""
    return [
        (weight, 1 if reads_columns(node) else 0)
        for weight, node in {each.inputs[1]: each for each in products}.items()
    ]


def _between(activation: Activation, value: ir.Value) -> list[ir.Node] | None:
    """Returns the nodes from a product to its activation `value`, None if others read what is between or constants."""
    found: list[ir.Node] = [activation.product]
    waiting = [value]
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in found:
            found.append(node)
            waiting += [each for each in node.inputs if each is not None and not is_constant(each)]
    inner = [output for node in found for output in node.outputs if output is not value]
    constants = [each for each in (activation.product.inputs[1], activation.bias) if each is not None]
    hidden = all(not each.is_graph_output() and all(node in found for node, _ in each.uses()) for each in inner)
    return found if hidden and all(map(is_read_once, constants)) else None


def _divided(builder: GraphBuilder, value: ir.Value, products: Sequence[ir.Node], factors: NDArray[Any]) -> ir.Value:
    """Returns `value` with its channels divided: itself, if a layer normalization can do it."""
    normalization = find_normalization(value)
    constants = () if normalization is None else (normalization.gain, normalization.offset)
    found = [each for each in constants if each is not None]
    if not found or not all(map(is_read_once, found)) or not _is_alone(value, products):
        return _multiplied(builder, value, 1 / factors)
    for constant in found:
        _edit(constant, 0, np.arange(factors.size), 1 / factors)
    return value


def _multiplied(builder: GraphBuilder, value: ir.Value, factors: NDArray[np.float64]) -> ir.Value:
    constant = builder.initializer(f"{name_of(value)}_factors", factors.astype(np.float32))
    return _append(builder, "Mul", [value, constant], value.shape)


def _with_repeats(builder: GraphBuilder, value: ir.Value, channels: int, repeats: NDArray[np.int64]) -> ir.Value:
    index = builder.initializer(f"{name_of(value)}_channels", repeats)
    repeated = _append(builder, "Gather", [value, index], _with_channels(value.shape, repeats.size), axis=-1)
    shape = _with_channels(value.shape, channels + repeats.size)
    return _append(builder, "Concat", [value, repeated], shape, axis=-1)


def _with_channels(shape: ir.Shape | None, channels: int) -> ir.Shape | None:
    return None if shape is None else ir.Shape([*shape[:-1], channels])


def _append(
    builder: GraphBuilder, op_type: str, inputs: Sequence[ir.Value], shape: ir.Shape | None, **attributes: int
) -> ir.Value:
    """Puts a node behind what makes the last of its inputs that is no constant, and returns its output."""
    first, last = inputs[0], next(each for each in reversed(inputs) if not is_constant(each))
    node = ir.node(op_type, inputs, attributes, name=builder.fresh(f"{name_of(first)}_{op_type}"))
    keep_float(node, "it makes channels smaller that one scale cannot carry")
    result = node.outputs[0]
    result.name, result.type, result.shape = builder.fresh(f"{name_of(first)}_{op_type}_output"), first.type, shape
    producer = last.producer()
    assert producer is not None  # the values to split are outputs of nodes
    builder.graph.insert_after(producer, node)
    return result


def _edit(value: ir.Value | None, axis: int, order: NDArray[np.int64], factors: NDArray[Any] | None = None) -> None:
    """Puts a constant's rows or columns in `order`, and multiplies them, whenever it is read: none is held twice."""
    assert value is not None  # is_own has made sure
    source = ir.Value(name=value.name, const_value=tensor_of(value))

    def made() -> ir.TensorProtocol:
        array = array_of(source).take(order, axis)
        if factors is not None:
            array *= np.expand_dims(
                factors.astype(np.float32), tuple(each for each in range(array.ndim) if each != axis)
            )
        return ir.Tensor(array, name=source.name)

    shape = list(shape_of(tensor_of(value)))
    shape[axis] = order.size
    value.shape = ir.Shape(shape)
    value.const_value = ir.LazyTensor(made, dtype=ir.DataType.FLOAT, shape=ir.Shape(shape), name=value.name)


Rewrite = Callable[[GraphBuilder, ir.Value, Sequence[ir.Node], NDArray[Any]], None]
Factors = Callable[[NDArray[Any], Sequence[ir.Node]], NDArray[Any]]

# Key in `model.meta` of a model that was rewritten.
_MARK = "quarkfast.smoothed"


def smoothable_axes(model: ir.Model, nodes: Collection[str] | None = None) -> dict[str, int]:
    """Returns the tensors that smoothing may change, and for each the axis of its channels, which is the last."""
    values = [value for node in model.graph for value in node.outputs]
    return {name_of(value): -1 for value in values if _channels(_products(value, nodes))}


def rewrite_channels(
    model: ir.Model,
    nodes: Collection[str] | None,
    channel_absmax: Callable[[ir.Value], NDArray[Any] | None],
    factors: Factors,
    rewrite: Rewrite,
) -> int:
    """Makes outlier channels of the tensors of :func:`smoothable_axes` smaller, in place.

    A tensor stays as it is if its channel maxima are not known or all its factors are 1. Idempotent: `model.meta`
    says whether a model was rewritten.

    Args:
        model: Changed in place.
        nodes: Names of the products that will be quantized; others are left alone. None means all.
        channel_absmax: From a tensor to the largest magnitude of each channel, or None if it is not known.
        factors: From channel maxima and the products that read them to the factor of each channel.
        rewrite: Divides or splits the channels of a tensor by their factors, for the products that read it.

    Returns:
        The number of tensors that were rewritten.
    """
    if model.meta.get(_MARK):
        return 0
    model.meta[_MARK] = True
    candidates = [(value, _products(value, nodes)) for node in model.graph for value in node.outputs]
    decided = [
        (value, products, _factors_of(channel_absmax(value), products, factors))
        for value, products in candidates
        if products
    ]
    changes = [(value, products, by_channel) for value, products, by_channel in decided if (by_channel != 1).any()]
    builder = GraphBuilder(model)
    for value, products, by_channel in changes:
        rewrite(builder, value, products, by_channel)
    return len(changes)


def smoothing_note(changed: int, smoothable: int, basis: str) -> list[str]:
    """Returns what the summary says of `changed` tensors among those that are `smoothable`; nothing for none."""
    tensors = f"{changed} of {smoothable} tensors"
    return [f"smoothing: {tensors} have smaller channels in front of matrix products, {basis}"] if changed else []


def powers_of_two(ratios: NDArray[Any], most_octaves: int) -> NDArray[np.int64]:
    """Returns the powers of two nearest to `ratios` in logarithm, from 1 to ``2**most_octaves``."""
    octaves = np.rint(np.log2(np.maximum(ratios.astype(np.float64), 1.0)))
    factors: NDArray[np.int64] = np.exp2(np.minimum(octaves, most_octaves)).astype(np.int64)
    return factors


def _factors_of(
    absmax: NDArray[Any] | None,
    products: Sequence[ir.Node],
    factors: Factors,
) -> NDArray[Any]:
    """Returns the factor of each channel, or a single 1 if the channel maxima are not known."""
    if absmax is None or absmax.shape != (_channels(products),) or not np.isfinite(absmax).all():
        return np.ones(1, np.int64)
    return factors(absmax, products)


def _products(value: ir.Value, nodes: Collection[str] | None) -> list[ir.Node]:
    """Returns the products among `nodes` that read `value`, or none of them if a weight has other readers too."""
    readers = [node for node, index in value.uses() if index == 0 and (nodes is None or node.name in nodes)]
    found = [node for node in readers if is_product(node) and node.graph is value.graph]
    weights = [node.inputs[1] for node in found]
    return found if all(is_own(weight, found) for weight in weights) else []


def _channels(products: Sequence[ir.Node]) -> int:
    """Returns the number of channels that all `products` read, or 0 if there are none or they differ."""
    found = {shape_of(tensor_of(node.inputs[1]))[1 if reads_columns(node) else 0] for node in products}
    return int(found.pop()) if len(found) == 1 else 0
