"""The channels that matrix products read: which tensors have them, and factors that make some of them smaller."""

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

__all__ = ["Rewrite", "powers_of_two", "rewrite_channels", "smoothable_axes"]

Rewrite = Callable[[GraphBuilder, ir.Value, Sequence[ir.Node], NDArray[np.int64]], None]

_DONE = "quarkfast.smoothed"


def smoothable_axes(model: ir.Model, nodes: Collection[str] | None = None) -> dict[str, int]:
    """Returns the tensors that smoothing may change, and the axis of the channels of each: the last."""
    values = [value for node in model.graph for value in node.outputs]
    return {name_of(value): -1 for value in values if _channels(_products(value, nodes))}


def rewrite_channels(
    model: ir.Model,
    nodes: Collection[str] | None,
    channel_absmax: Callable[[ir.Value], NDArray[Any] | None],
    factors: Callable[[NDArray[Any], float], NDArray[np.int64]],
    rewrite: Rewrite,
) -> int:
    """Makes channels of the tensors of :func:`smoothable_axes` smaller, in place, and returns how many do.

    A tensor whose channels are not known, or whose median channel is zero, stays as it is. Idempotent: a model that
    was rewritten says so.

    Args:
        model: Changed in place.
        nodes: Names of the products that will be quantized, of which alone this is about; None means all.
        channel_absmax: From a tensor to the largest magnitude of each channel, or None.
        factors: From these and their median to the factor of each channel, at least 1.
        rewrite: Divides or splits the channels of a tensor by their factors, for the products that read it.
    """
    if model.meta.get(_DONE):
        return 0
    model.meta[_DONE] = True
    found = [(value, _products(value, nodes)) for node in model.graph for value in node.outputs]
    decided = [
        (value, products, _factors(channel_absmax(value), products, factors)) for value, products in found if products
    ]
    chosen = [(value, products, each) for value, products, each in decided if (each != 1).any()]
    builder = GraphBuilder(model)
    for value, products, each in chosen:
        rewrite(builder, value, products, each)
    return len(chosen)


def powers_of_two(ratios: NDArray[Any], most_octaves: int) -> NDArray[np.int64]:
    """Returns the powers of two nearest to `ratios` on a scale of octaves, from 1 to 2 to the power `most_octaves`."""
    octaves = np.rint(np.log2(np.maximum(ratios.astype(np.float64), 1.0)))
    factors: NDArray[np.int64] = np.exp2(np.minimum(octaves, most_octaves)).astype(np.int64)
    return factors


def _factors(
    absmax: NDArray[Any] | None,
    products: Sequence[ir.Node],
    factors: Callable[[NDArray[Any], float], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Returns the factor of each channel, all 1 where nothing is known of it."""
    if absmax is None or absmax.shape != (_channels(products),) or not np.isfinite(absmax).all():
        return np.ones(1, np.int64)
    median = float(np.median(absmax))
    return factors(absmax, median) if median else np.ones(1, np.int64)


def _products(value: ir.Value, nodes: Collection[str] | None) -> list[ir.Node]:
    """Returns the products among `nodes` that read a value, none if one cannot have a weight of its own."""
    readers = [node for node, index in value.uses() if index == 0 and (nodes is None or node.name in nodes)]
    found = [node for node in readers if is_product(node) and node.graph is value.graph]
    weights = [node.inputs[1] for node in found]
    return found if all(is_own(weight, found) for weight in weights) else []


def _channels(products: Sequence[ir.Node]) -> int:
    """Returns the number of channels that products read, 0 if there is none or they do not agree."""
    found = {shape_of(tensor_of(node.inputs[1]))[1 if reads_columns(node) else 0] for node in products}
    return int(found.pop()) if len(found) == 1 else 0
