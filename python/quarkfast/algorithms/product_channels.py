"""Makes outlier channels of activations smaller in front of matrix products: which tensors, and by which factors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.channel_range_estimation import is_product, reads_columns
from quarkfast.algorithms.channel_rewriting import is_own
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of, shape_of, tensor_of
from quarkfast.graph.builder import GraphBuilder

__all__ = ["Factors", "Rewrite", "powers_of_two", "rewrite_channels", "smoothable_axes", "smoothing_note"]

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
