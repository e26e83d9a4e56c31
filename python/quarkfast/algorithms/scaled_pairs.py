"""Pairs of layers as cross-layer equalization scales them: their channels, and how far these may go."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.gated_pairs import Gate, find_gated_pairs
from quarkfast.algorithms.layer_pairs import by_input, by_output, next_layer, reads_rows, values_between
from quarkfast.config import Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of

__all__ = ["ScaledPair", "find_scaled_pairs"]

Values = NDArray[np.float64]


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
