"""Smoothing: channels that reach far beyond the others are made smaller in front of matrix products."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.channel_range_estimation import is_product, reach_of, reads_columns
from quarkfast.algorithms.outlier_channel_splitting import is_own, scale, split
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of, shape_of, tensor_of
from quarkfast.graph.names import Names

__all__ = ["smooth", "smoothable_axes"]

_DONE = "quarkfast.smoothed"

# Twice the median is far out: some channels reach that by chance. MiniLM, split by 64 sentences, has 25.9 dB on
# headlines with 1, 25.6 with 1.5 and 2, 24.3 with 3; the larger the bound, the fewer the repeats.
_SEEN_BEYOND = 2.0

# Where rows of weights are multiplied, activations gain less beyond a factor of 8 than weights lose. Rows that are
# repeated lose nothing; what grows is the product, by an eighth at most.
_MOST_OCTAVES, _MOST_OCTAVES_SEEN = 3, 6
_MOST_REPEATS = 1 / 8


def smooth(
    model: ir.Model, nodes: Collection[str] | None = None, seen: Mapping[str, NDArray[np.float32]] | None = None
) -> int:
    """Makes channels in front of matrix products smaller, in place, and lets the weights that read them make up for it.

    1. How far each channel reaches is what samples have shown, or else estimated
       (`quarkfast.algorithms.channel_range_estimation`). One that reaches further than the median of its
       tensor, or twice that where it was seen, has the ratio of the two as its factor, rounded to a power of two.
    2. Without samples channels are divided by their factors, at most 8, and the rows of weights that read them
       multiplied (:func:`quarkfast.algorithms.outlier_channel_splitting.scale`). Rows that grow cost the others some
       of their digits.
    3. With samples, which tell the few that matter, channels are split into as many equal parts as their factors say,
       at most 64, and the rows repeated as they are (:func:`quarkfast.algorithms.outlier_channel_splitting.split`).
       The bound is raised by quarters of an octave until the repeats are no more than an eighth of the channels.

    One scale for a tensor is then set by more channels than the one or two that reach furthest. A residual sum reads
    the tensor as it was. A tensor stays as it is if one of the products shares its weight with another reader.
    Idempotent: a model that was smoothed says so. Graph inputs and outputs are kept.

    Args:
        model: Changed in place.
        nodes: Names of the products that will be quantized, of which alone this is about; None means all.
        seen: The largest magnitude of each channel, by tensor of :func:`smoothable_axes`; None without samples.

    Returns:
        The number of tensors that have smaller channels now.

    Source:
        G. Xiao et al., "SmoothQuant", 2023, arXiv:2211.10438, without moving what weights lack into activations.
        X. Wei et al., "Outlier Suppression", 2022, arXiv:2209.13325, for the gain of a layer normalization as what
        tells the channels that stand out. R. Zhao et al., "Improving Neural Network Quantization without Retraining
        using Outlier Channel Splitting", 2019, arXiv:1901.09504, for parts in place of factors.
    """
    if model.meta.get(_DONE):
        return 0
    model.meta[_DONE] = True
    found = [(value, _products(value, nodes)) for node in model.graph for value in node.outputs]
    decided = [(value, products, _factors(value, products, seen)) for value, products in found if products]
    chosen = [(value, products, factors) for value, products, factors in decided if (factors != 1).any()]
    names = Names.of(model)
    make = scale if seen is None else split
    for value, products, factors in chosen:
        make(model.graph, value, products, factors, names)
    return len(chosen)


def smoothable_axes(model: ir.Model, nodes: Collection[str] | None = None) -> dict[str, int]:
    """Returns the tensors that :func:`smooth` may change, and the axis of the channels of each: the last."""
    values = [value for node in model.graph for value in node.outputs]
    return {name_of(value): -1 for value in values if _channels(_products(value, nodes))}


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


def _factors(
    value: ir.Value, products: Sequence[ir.Node], seen: Mapping[str, NDArray[np.float32]] | None
) -> NDArray[np.int64]:
    """Returns the factor of each channel of `value`, all 1 where nothing is known of it."""
    reach = reach_of(value) if seen is None else seen.get(name_of(value))
    if reach is None or reach.shape != (_channels(products),) or not np.isfinite(reach).all():
        return np.ones(1, np.int64)
    median = float(np.median(reach))
    if median == 0:
        return np.ones(1, np.int64)
    if seen is None:
        return _powers_of_two(reach / median, _MOST_OCTAVES)
    bound = _SEEN_BEYOND * median
    while True:
        factors = _powers_of_two(reach / bound, _MOST_OCTAVES_SEEN)
        if (factors - 1).sum() <= _MOST_REPEATS * factors.size:
            return factors
        bound *= 2**0.25


def _powers_of_two(ratios: NDArray[Any], most_octaves: int) -> NDArray[np.int64]:
    octaves = np.rint(np.log2(np.maximum(ratios.astype(np.float64), 1.0)))
    factors: NDArray[np.int64] = np.exp2(np.minimum(octaves, most_octaves)).astype(np.int64)
    return factors
