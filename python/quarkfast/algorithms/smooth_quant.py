"""SmoothQuant: what is hard to quantize in activations moves into the weights that read them, by one exponent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.channel_range_estimation import reads_columns
from quarkfast.algorithms.channel_rewriting import divide_channels, rewrite_channels
from quarkfast.config import POLICY, Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, name_of

__all__ = ["SmoothQuantSettings", "smooth_quant"]


@dataclass(frozen=True, slots=True)
class SmoothQuantSettings:
    """Settings of :func:`smooth_quant`.

    Attributes:
        alpha: How much moves into the weights: 0 makes rows of weights alike, 1 channels of activations.
        activation_bits: Width of codes of activations, which have one scale for a tensor.
        weight_bits: Width of codes of weights.
        weight_channels: Whether each output channel of a weight has a scale.
        policy: The largest factor: a channel that is nearly zero in the samples may not be so elsewhere.
    """

    alpha: float = 0.5
    activation_bits: int = 8
    weight_bits: int = 8
    weight_channels: bool = False
    policy: Policy = POLICY


def smooth_quant(
    model: ir.Model,
    channel_absmax: Mapping[str, NDArray[np.float32]],
    nodes: Collection[str] | None = None,
    settings: SmoothQuantSettings | None = None,
) -> int:
    """Divides channels in front of matrix products, in place, and multiplies the rows of weights that read them.

    Channel `k` of an activation is divided by ``s_k = a_k^alpha / w_k^(1 - alpha)``, with ``a_k`` its largest magnitude
    over the samples and ``w_k`` that of the rows of all weights that read it. Factors are divided by their geometric
    mean, so that tensors keep their magnitude, and limited (`Policy.smooth_quant_factor`). A channel that is zero in
    all samples, or that all weights ignore, stays as it is. So does a tensor for which these factors are expected to
    make noise, by what its maxima and its weights tell (:func:`_expected_noise`).

    Products that read one tensor share its factors. A layer normalization whose readers are all products takes them
    into its gain and offset; elsewhere a Mul is added. A tensor stays as it is if one of the products shares its weight
    with another reader. Idempotent: `model.meta` says whether it was smoothed. Graph inputs and outputs are kept.
    Error: the rounding of constants and of one product each.

    Args:
        model: Changed in place.
        channel_absmax: The largest magnitude of each channel over the samples, by tensor of
            `quarkfast.algorithms.smoothable_axes`; tensors without an entry stay as they are.
        nodes: Names of the products that will be quantized; others are left alone. None means all.
        settings: The exponent; Quark's default if None.

    Returns:
        The number of tensors that have other channels now.

    Source:
        G. Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models",
        2023, arXiv:2211.10438, equation 4.
    """
    chosen = settings or SmoothQuantSettings()

    def absmax_of(value: ir.Value) -> NDArray[Any] | None:
        return channel_absmax.get(name_of(value))

    def factors(absmax: NDArray[Any], products: Sequence[ir.Node]) -> NDArray[np.float64]:
        maxima, weights = absmax.astype(np.float64), [_weight_of(node) for node in products]
        found = _factors(maxima, np.max([np.abs(each).max(axis=1) for each in weights], axis=0), chosen)
        smoothed = _expected_noise(maxima / found, [found[:, None] * each for each in weights], chosen)
        return found if smoothed < _expected_noise(maxima, weights, chosen) else np.ones(1)

    return rewrite_channels(model, nodes, absmax_of, factors, divide_channels)


def _factors(
    absmax: NDArray[np.float64], rows: NDArray[np.float64], chosen: SmoothQuantSettings
) -> NDArray[np.float64]:
    alpha, known = chosen.alpha, (absmax > 0) & (rows > 0)
    factors = np.ones(absmax.shape)
    if not known.any():
        return factors
    logarithms = alpha * np.log2(absmax[known]) - (1 - alpha) * np.log2(rows[known])
    most = np.log2(chosen.policy.smooth_quant_factor)
    found = np.exp2(np.clip(logarithms - logarithms.mean(), -most, most))
    factors[known] = found.astype(np.float32)
    return factors


def _expected_noise(
    maxima: NDArray[np.float64], weights: Sequence[NDArray[np.float64]], chosen: SmoothQuantSettings
) -> float:
    """Returns the noise of products of rounded operands, as far as maxima tell, up to a factor.

    Each operand is off by a step, whose square is multiplied by the squares of the other operand: a channel's mean
    square is taken for a ninth of that of its largest magnitude.
    """
    step = maxima.max() / 2.0**chosen.activation_bits
    squares = (maxima**2).sum() / 9
    total = 0.0
    for weight in weights:
        largest = np.abs(weight).max(axis=0 if chosen.weight_channels else None)
        steps = np.broadcast_to(largest / 2.0**chosen.weight_bits, weight.shape[1])
        total += float(step**2 * (weight**2).sum() + squares * (steps**2).sum())
    return total


def _weight_of(node: ir.Node) -> NDArray[np.float64]:
    """Returns the weight of a product as ``[channels, outputs]``."""
    weight = node.inputs[1]
    assert weight is not None  # rewrite_channels has made sure
    array = array_of(weight).astype(np.float64)
    return array.T if reads_columns(node) else array
