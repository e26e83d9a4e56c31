"""Biases that make up for what rounded weights make of an offset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quarkfast.algorithms.algorithm import Context
from quarkfast.algorithms.bias_correction import corrected_bias
from quarkfast.reconstruction import linear_layers

__all__ = ["correct_offset_biases"]


def correct_offset_biases(context: Context, offsets: Mapping[str, float]) -> bool:
    """Adds offsets times the rounded weights to biases, where those of float weights were added.

    A layer of data less ``c`` adds ``c`` times the sum of its weights to its bias. With the weights that codes stand
    for it loses nothing by the offset: ``W^ (x - c) + W^ c = W^ x``.

    Args:
        context: With a plan; its biases change.
        offsets: Those of tensors that layers read, by name.

    Returns:
        Whether any bias changed.
    """
    weights, biases = context.coded_weights(), context.coded_biases()
    changed = {}
    for layer in linear_layers(context.model):
        offset, weight = offsets.get(layer.data, 0.0), weights.get(layer.weight)
        groups, outputs, inputs = layer.matrix_shape
        bias = biases.get(layer.bias or "")
        if not offset or weight is None or bias is None or bias.values.size != groups * outputs:
            continue
        mean = np.full((groups, inputs), -offset)
        changed[str(layer.bias)] = bias.with_nearest(corrected_bias(bias, weight, weight.decoded(), layer, mean))
    context.replace_codes(changed)
    return bool(changed)
