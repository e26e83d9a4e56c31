"""Bias correction of shifted activations: biases make up for what rounded weights make of an offset."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.graph.access import array_of_tensor, name_of
from quarkfast.graph.linear_layers import BiasedLayer

__all__ = ["correct_offset_biases"]


def correct_offset_biases(context: AlgorithmContext, layers: Iterable[tuple[BiasedLayer, float]]) -> bool:
    """Adds offsets times the rounded weights to biases, where those of float weights were added.

    A layer of data less ``c`` adds ``c`` times the sum of its weights to its bias. With the weights that codes stand
    for it loses nothing by the offset: ``W^ (x - c) + W^ c = W^ x``.

    Args:
        context: With a plan; its biases change.
        layers: Layers, with what their data have lost.

    Returns:
        Whether any bias changed.
    """
    weights, biases = context.coded_weights(), context.movable_biases()
    changed = {}
    for layer, offset in layers:
        weight, bias = weights.get(name_of(layer.weight)), biases.get(name_of(layer.bias))
        if weight is None or bias is None:
            continue
        floats, rounded = (np.asarray(each, np.float64) for each in (array_of_tensor(weight.values), weight.decoded()))
        given = np.asarray(array_of_tensor(bias.values), np.float64)
        missing = layer.response(offset, rounded - floats).reshape(given.shape)
        changed[name_of(layer.bias)] = bias.with_nearest((given + missing).astype(np.float32))
    context.replace_codes(changed)
    return bool(changed)
