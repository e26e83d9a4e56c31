"""Scaled pairs of cross-layer equalization: channels, how far they may go, what biases count, and the noise of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.layer_pairs import (
    Gate,
    by_input,
    by_output,
    find_gated_pairs,
    next_layer,
    reads_rows,
    values_between,
)
from quarkfast.config import Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of

__all__ = ["ScaledPair", "channel_absmax", "find_scaled_pairs", "lessens_noise", "shrunk_bias"]

Values = NDArray[np.float64]

# What stands for the weights of a channel that has none, and is still a number to divide by.
_NONE = 1e-7


def shrunk_bias(bias: Values, weights: Values) -> Values:
    """Returns a bias divided by what keeps it from outweighing the weights of its channel.

    With ``f`` the magnitude of the bias over that of each weight: if no bias reaches 10 nor 20 times the largest
    weight, it is divided by 5 where the median of ``f`` lies above 100 or its mean above 1000, else by 2; otherwise by
    20 where the median lies above 30 or the mean above 500, by 10 from 15 and 100 on, else by 5.

    Args:
        bias: ``[channels]``.
        weights: ``[channels, n]``. A weight of zero counts as the least magnitude of its channel; a channel of zeros
            has no bias to count.

    Source:
        AMD Quark 0.13, CLEScaleAppendBias.

    Example:
        >>> import numpy as np
        >>> shrunk_bias(np.array([1.0, 40.0]), np.array([[1.0, -2.0], [4.0, 0.0]])).tolist()
        [0.2, 8.0]
    """
    magnitudes = np.abs(weights)
    least = np.where(magnitudes > 0, magnitudes, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    live = np.isfinite(least)
    counted = np.where(live[:, 0], np.abs(bias), 0.0)
    filled = np.where(magnitudes > 0, magnitudes, np.where(live, least, _NONE))
    ratios = counted[:, None] / filled
    median, mean = float(np.median(ratios)), float(ratios.mean())
    if counted.max(initial=0.0) < 10 and counted.max(initial=0.0) < 20 * magnitudes.max(initial=0.0):
        divisor = 5 if median > 100 or mean > 1000 else 2
    elif median > 30 or mean > 500:
        divisor = 20
    else:
        divisor = 10 if median > 15 or mean > 100 else 5
    return np.where(live[:, 0], bias, 0.0) / divisor


def channel_absmax(rows: Values) -> Values:
    """Returns the largest magnitude of each row.

    Example:
        >>> channel_absmax(np.array([[1.0, -3.0], [2.0, 0.5]])).tolist()
        [3.0, 2.0]
    """
    found: Values = np.abs(rows).max(axis=1, initial=0.0)
    return found


def lessens_noise(written: Values, read: Sequence[Values], factors: Values, least_gain: float) -> bool:
    """Whether rounding the weights on both sides of channels adds clearly less to the outputs once they are scaled.

    Args:
        written: Weights that make each channel, ``[channels, n0]``.
        read: Weights that read it, ``[channels, n1]``, of each layer that does.
        factors: One for each channel.
        least_gain: The least ratio of noise before and after.

    Example:
        >>> unlike = np.array([[1.0], [0.01]])
        >>> lessens_noise(unlike, [unlike[::-1]], np.array([1.0, 8.0]), 1.26)
        True
    """
    made, used = np.einsum("ij,ij->i", written, written), [np.einsum("ij,ij->i", rows, rows) for rows in read]
    reach, reaches = channel_absmax(written), [channel_absmax(rows) for rows in read]
    sizes, up, down = [rows.shape[1] for rows in read], factors, 1 / factors
    before = sum(_noise(written.shape[1], reach, made, *each) for each in zip(sizes, reaches, used, strict=True))
    after = sum(
        _noise(written.shape[1], reach * up, made * up**2, size, other * down, energy * down**2)
        for size, other, energy in zip(sizes, reaches, used, strict=True)
    )
    return before > least_gain * after


def _noise(n0: int, reach0: Values, energy0: Values, n1: int, reach1: Values, energy1: Values) -> float:
    """Returns what the roundings of two layers' weights add to the outputs, up to a factor that scaling leaves alone.

    The square of a step is in proportion to that of a layer's largest magnitude; through a channel pass the ``n0``
    roundings that make it, times the energy of what reads it, and its own energy times the ``n1`` roundings there.
    """
    square0, square1 = reach0.max(initial=0.0) ** 2, reach1.max(initial=0.0) ** 2
    return float((square0 * n0 * energy1 + energy0 * square1 * n1).sum())


@dataclass(eq=False)
class ScaledPair:
    """A layer, those behind it, and the gate between them if there is one.

    Attributes:
        limit: The upper limit of a Clip between the layers, which channels must not reach; infinite without one.
        factors: What each channel has been multiplied by so far.
        reach: The largest magnitude of each channel of what is between the layers before that, if it is known.
    """

    head: ir.Node
    tails: tuple[ir.Node, ...]
    gate: Gate | None = None
    limit: float = math.inf
    factors: Values = field(init=False)
    reach: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Scales nothing yet."""
        self.factors = np.ones(len(by_output(self.head, array_of(self.head.inputs[1]))))

    @property
    def read(self) -> ir.Value:
        """What is between the layers: behind the gate, or as the second layer reads it."""
        value = self.tails[0].inputs[0] if self.gate is None else self.gate.product.outputs[0]
        assert value is not None
        return value

    @property
    def is_clipped(self) -> bool:
        """Whether there is a Clip between the layers."""
        return math.isfinite(self.limit)

    def within_room(self, factors: Values, policy: Policy) -> Values:
        """Returns factors by which channels reach no further than the furthest one, if it is known how far they reach.

        Where there is a Clip, channels that come near to its limit keep what they have, and others do not come near. No
        bias grows far beyond the largest one there: of dead channels nothing else limits them.
        """
        if self.reach is None:
            return np.ones_like(factors) if self.is_clipped else factors
        reach: Values = self.reach * self.factors
        free = policy.equalization_unclipped * self.limit
        furthest = min(float(reach.max(initial=0.0)), free)
        ratios = np.divide(furthest, reach, out=np.full(reach.shape, np.inf), where=reach > 0)
        found: Values = np.minimum(factors, _octave_below(ratios))
        if not self.is_clipped:
            return found
        if self.bias is not None:
            largest = policy.equalization_bias_growth * np.abs(self.bias).max()
            grown = np.divide(largest, np.abs(self.bias), out=np.full(found.shape, np.inf), where=self.bias != 0)
            found = np.minimum(found, _octave_below(grown))
        return np.where(reach > free, 1.0, found)

    @property
    def bias(self) -> Values | None:
        """The first layer's bias, ``[channels]``; None for zeros, which no factor changes."""
        value = self.head.inputs[2] if len(self.head.inputs) > 2 else None
        return array_of(value).astype(np.float64) if value is not None and array_of(value).any() else None

    def weights(self) -> tuple[Values, list[Values]]:
        """Returns the weights that make each channel, ``[channels, n0]``, and those of each layer that read it."""
        written = by_output(self.head, _weight(self.head))
        return _flat(written), [_flat(by_input(node, _weight(node))) for node in self.tails]

    def scale(self, factors: Values) -> float:
        """Multiplies channels, in place; returns the mean change of a weight, added up over the layers."""
        self.factors = self.factors * factors
        changes = [_change(self.head.inputs[1], lambda weight: weight * _for_output(self.head, factors, weight.ndim))]
        if self.bias is not None:
            _change(self.head.inputs[2], lambda bias: bias * factors)
        for node in self.tails:
            changes.append(_change(node.inputs[1], partial(_divided, node, factors)))
        return sum(changes)

    def values(self) -> list[ir.Value]:
        """Returns the tensors that have the factors."""
        if self.gate is None:
            return values_between(self.head.outputs[0], self.tails)
        return [self.gate.entry, *values_between(self.gate.product.outputs[0], self.tails)]


def find_scaled_pairs(model: ir.Model, through_gates: bool, through_clip: bool) -> list[ScaledPair]:
    """Returns the pairs in the order of their first layers, those with a gate or a Clip between them if asked for."""
    found = dict[ir.Node, ScaledPair]()
    for node in model.graph:
        behind = next_layer(node)
        if behind is not None and (through_clip or math.isinf(behind.limit)):
            found[node] = ScaledPair(node, (behind.layer,), limit=behind.limit)
    if through_gates:
        found |= {head: ScaledPair(head, tails, gate) for head, gate, tails in find_gated_pairs(model)}
    return [found[node] for node in model.graph if node in found]


def _octave_below(ratios: Values) -> Values:
    found: Values = np.exp2(np.floor(np.log2(ratios)))
    return found


def _weight(node: ir.Node) -> Values:
    return array_of(node.inputs[1]).astype(np.float64)


def _flat(rows: Values) -> Values:
    return rows.reshape(len(rows), -1)


def _for_output(node: ir.Node, factors: Values, rank: int) -> Values:
    return factors if reads_rows(node) else factors.reshape(-1, *[1] * (rank - 1))


def _divided(node: ir.Node, factors: Values, weight: Values) -> Values:
    """Returns the weight of a layer that reads channels which have the factors."""
    if node.op_type == "Gemm":
        return weight / (factors[:, None] if reads_rows(node) else factors)
    groups = node.attributes.get_int("group", 1)
    table = factors.reshape(groups, -1).repeat(weight.shape[0] // groups, axis=0)
    return weight / table.reshape(*table.shape, *[1] * (weight.ndim - 2))


def _change(value: ir.Value | None, changed: Callable[[Values], Values]) -> float:
    """Changes a constant of one layer; returns by how much in the mean."""
    assert value is not None  # layer_pairs has made sure
    before = array_of(value).astype(np.float64)
    value.const_value = ir.Tensor(changed(before).astype(np.float32), name=value.name)
    return float(np.abs(array_of(value) - before).mean())
