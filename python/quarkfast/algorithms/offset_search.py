"""The search for offsets of activations with which symmetric codes have the smallest scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.offset_groups import OffsetGroups
from quarkfast.config import POLICY, Policy, TensorSpec
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.walks import limits_of
from quarkfast.kernels import Range
from quarkfast.ranges.decibels import ratio_of

__all__ = ["Reach", "Shifts", "find_shifts", "reach_of"]

Values = NDArray[np.float64]

# Offsets of a group that are tried at once, and how often the surroundings of the best one are looked at again.
_TRIED, _ZOOMS = 65, 4

# Turns of the groups at most.
_SWEEPS = 20


class Reach(NamedTuple):
    """The range to keep of a tensor, and the codes that hold it.

    Attributes:
        low: Its lower end.
        high: Its upper end.
        below: Codes below zero: all of them where saturation is what a limit of the tensor does anyway.
        above: Codes above zero.
    """

    low: float
    high: float
    below: int
    above: int

    @property
    def is_limited(self) -> bool:
        """Whether the lower end is a limit, where many values may lie."""
        return self.below > self.above

    @property
    def unit(self) -> float:
        """The step of codes that the range fills; of one value, that of a range from there to zero."""
        return ((self.high - self.low) or abs(self.high)) / (self.below + self.above)

    def shifted(self, offset: float) -> tuple[float, float]:
        """Returns the range of the tensor less an offset; a symmetric one has the scale that holds it."""
        return (self.low - offset) * self.above / self.below, self.high - offset


def reach_of(value: ir.Value, kept: Range, spec: TensorSpec, policy: Policy = POLICY) -> Reach | None:
    """Returns the reach of an activation; None if it has zero points, wide codes, power-of-two scales or no values.

    Args:
        value: The activation.
        kept: The range to keep of it.
        spec: The form of its codes.
        policy: The codes that are narrow: wider ones hold either side of zero with steps that are fine enough.
    """
    narrow = spec.format.is_integer and spec.format.bits <= policy.narrow_bits
    if not narrow or not spec.symmetric or spec.scale != "float32":
        return None
    if spec.granularity != "tensor" or spec.reduce_range or not kept.min <= kept.max or kept.min == kept.max == 0:
        return None
    row, (limit, _) = qtype(spec.dtype), limits_of(value)
    least, most = int(row.qmin), int(row.qmax)
    low = min(kept.min, 0.0) if limit == 0 else kept.min  # zeros of a padding may come to what a Relu limits
    return Reach(low, kept.max, -least if low == limit else most, most)


class Shifts(NamedTuple):
    """Offsets that were found.

    Attributes:
        offsets: Of each group, by the tensor that stands for it; those of 0 are left out.
        gain: What the sum of the costs falls by, as a ratio.
    """

    offsets: Mapping[ir.Value, float]
    gain: float


def find_shifts(groups: OffsetGroups, reaches: Mapping[ir.Value, Reach], policy: Policy = POLICY) -> Shifts | None:
    """Returns the offsets with which scales are smallest, or None where there is hardly anything to gain.

    1. The scale of a tensor is ``max((high - c) / above, (c - low) / below)`` at the offset ``c`` of its group. What
       its rounding costs is the square of that as a part of what the tensor spans, ``high - low``: from 0 up four times
       as much as where both sides of zero are as wide.
    2. The offset of a sum is that of both terms together, so that one of the three follows from the others: that of a
       term which no Relu limits, if there is one.
    3. The sum of the costs is convex. Groups take their turns, each with the best offset while the others stand, until
       nothing changes; from offsets of 0, and from those that suit each group alone.
    4. An offset at which a limit lies between two codes moves until it is one.

    Args:
        groups: Those of the graph.
        reaches: Of the activations that have symmetric codes.
        policy: What there has to be to gain.
    """
    tied = _solve(groups)
    rows = [(tied.get(root, {root: 1.0}), reach) for root, reach in _by_group(groups, reaches)]
    free = list(dict.fromkeys(root for parts, _ in rows for root in parts))
    if not free:
        return None
    parts = np.array([[each.get(root, 0.0) for root in free] for each, _ in rows])
    costs = _Costs.of([reach for _, reach in rows])._replace(unit=_units(groups, reaches))
    starts = np.zeros(len(free)), np.array([_best(costs, parts, np.zeros(len(free)), i)[0] for i in range(len(free))])
    found = min((_descend(costs, parts, start) for start in starts), key=lambda each: costs.total(parts @ each))
    gain = costs.total(np.zeros(len(rows))) / costs.total(parts @ found)
    if gain < ratio_of(policy.shift_gain):
        return None
    chosen = dict(zip(free, map(float, found), strict=True))
    for root in free:
        limited = [reach for group, reach in _by_group(groups, reaches) if group is root and reach.is_limited]
        chosen[root] = _on_code(chosen[root], limited)
    chosen |= {root: sum(part * chosen.get(name, 0.0) for name, part in each.items()) for root, each in tied.items()}
    return Shifts({root: float(np.float32(offset)) for root, offset in chosen.items() if np.float32(offset)}, gain)


def _units(groups: OffsetGroups, reaches: Mapping[ir.Value, Reach]) -> Values:
    """Returns the step of what each tensor spans; of a term of a sum, that of the sum, where its noise ends up."""
    rows = _by_group(groups, reaches)
    units = [each.unit for _, each in rows]
    for one in groups.sums:
        result, terms = groups.of(one.result), {groups.of(one.first), groups.of(one.second)}
        whole = max([unit for unit, (root, _) in zip(units, rows, strict=True) if root is result], default=0.0)
        units = [max(unit, whole) if root in terms else unit for unit, (root, _) in zip(units, rows, strict=True)]
    return np.array(units)


def _on_code(offset: float, limited: list[Reach]) -> float:
    """Returns an offset like this with which limits are codes, so that the many values there are exact.

    A limit is the last code where it is as far from zero as the other end. Of one tensor it may be any code ``-k``:
    the scale is ``(high - c) / above``, and ``c = k * scale``.
    """
    short = [each for each in limited if offset - each.low < (each.high - offset) * each.below / each.above]
    if len(short) == 1 and short[0].low == 0 and offset > 0:
        code = round(offset * short[0].above / (short[0].high - offset))
        return code * short[0].high / (code + short[0].above)
    middles = [(each.low * each.above + each.high * each.below) / (each.above + each.below) for each in short]
    return max(offset, *middles) if middles else offset


def _by_group(groups: OffsetGroups, reaches: Mapping[ir.Value, Reach]) -> list[tuple[ir.Value, Reach]]:
    return [(groups.of(value), reach) for value, reach in reaches.items() if not groups.is_pinned(value)]


def _solve(groups: OffsetGroups) -> dict[ir.Value, dict[ir.Value, float]]:
    """Returns the groups whose offset follows from those of others, each with its part of these."""
    limited = {groups.of(node.outputs[0]) for node in groups.limits}
    tied: dict[ir.Value, dict[ir.Value, float]] = {}
    for each in groups.sums:
        rest: dict[ir.Value, float] = {}
        for value, sign in ((each.result, 1.0), (each.second, -1.0), (each.first, -1.0)):
            if not groups.is_pinned(value):
                _add(rest, tied.get(groups.of(value), {groups.of(value): 1.0}), sign)
        if not rest:
            continue
        found = min(rest, key=lambda root: root in limited)
        part = -rest.pop(found)
        expressed = {root: number / part for root, number in rest.items()}
        for parts in tied.values():
            _add(parts, expressed, parts.pop(found, 0.0))
        tied[found] = expressed
    return tied


def _add(parts: dict[ir.Value, float], others: Mapping[ir.Value, float], factor: float) -> None:
    """Adds multiples of offsets to a sum of such, in place; what cancels out goes."""
    for root, number in others.items() if factor else ():
        parts[root] = parts.get(root, 0.0) + factor * number
        if not parts[root]:
            del parts[root]


class _Costs(NamedTuple):
    """What roundings of tensors cost, each array ``[tensors]``; ``unit`` is the step of what a tensor spans."""

    low: Values
    high: Values
    below: Values
    above: Values
    unit: Values

    @classmethod
    def of(cls, reaches: list[Reach]) -> _Costs:
        """Returns the costs of tensors with these reaches."""
        low, high, below, above = np.array(reaches, np.float64).T
        return cls(low, high, below, above, np.ones(len(reaches)))

    def at(self, offsets: Values) -> Values:
        """Returns the cost of each tensor at its offset, ``[..., tensors]``."""
        scale = np.maximum((self.high - offsets) / self.above, (offsets - self.low) / self.below)
        costs: Values = np.square(scale / self.unit)
        return costs

    def total(self, offsets: Values) -> float:
        """Returns the sum of the costs."""
        return float(self.at(offsets).sum())


def _descend(costs: _Costs, parts: Values, start: Values) -> Values:
    """Gives each group in turn the best offset while the others stand."""
    found = start.copy()
    for _ in range(_SWEEPS):
        gains = np.zeros(found.size)
        for place in range(found.size):
            found[place], gains[place] = _best(costs, parts, found, place)
        if not gains.any():
            break
    return found


def _best(costs: _Costs, parts: Values, found: Values, place: int) -> tuple[float, float]:
    """Returns the best offset of one group while the others stand, and what the cost falls by."""
    rows = parts[:, place] != 0
    part, base, own = parts[rows, place], parts[rows] @ found, _Costs(*(each[rows] for each in costs))
    reach = float((np.maximum(np.abs(own.low - base), np.abs(own.high - base)) / np.abs(part)).max())
    best = 0.0
    least = before = own.total(base)
    for _ in range(_ZOOMS):
        steps = best + np.linspace(-reach, reach, _TRIED)
        tried = own.at(base + steps[:, None] * part).sum(axis=1)
        index = int(np.argmin(tried))
        if tried[index] < least:
            best, least = float(steps[index]), float(tried[index])
        reach *= 4 / (_TRIED - 1)
    return float(found[place] + best), before - least
