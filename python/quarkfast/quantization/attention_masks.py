"""Attention masks: large negative numbers in front of a Softmax, added or put in, which must not decide a scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of, range_of
from quarkfast.graph.attention import is_step, leads_to_softmax
from quarkfast.graph.operators import PASS_THROUGH, SCORE_LIMITS
from quarkfast.graph.placement import Placement
from quarkfast.kernels import Range

__all__ = ["limit_masks"]

# exp(-16) = 1e-7: what a masked position may still weigh beside any position that is not masked.
_DISTANCE = 16.0

# A tensor is taken for a mask if its least value is this many times further from zero than any score. Masks are -1e4
# and beyond, scores hardly reach 1e2.
_RATIO = 8.0

# Operators that mask, with the inputs that hold scores and mask, in either order.
_OPERANDS = {"Add": (0, 1), "Sub": (0, 1), "Where": (1, 2)}


_NOTHING = Range(math.inf, -math.inf, 0, 0, 0, 0)


def limit_masks(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], seen: Mapping[str, Range]
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Returns `ranges` in which masks reach no further down than they need to, and a sentence for each.

    Where ``Softmax(scores + mask)`` is quantized, scores lie in ``[a, b]`` and the mask in ``[m, 0]``, or holds -inf:

    1. The mask is limited to ``[-(b - a) - 16, 0]``: added to any score that is at most ``a - 16``. What it holds
       apart from -inf, as a bias of positions does, stays.
    2. The sum, and each tensor that passes it on to the Softmax, is limited to ``[a - 16, b]``. Masked positions
       saturate there, at least 16 below every other.

    ``Softmax(Where(condition, scores, mask))`` is the same but for the mask, limited to ``[a - 16, 0]``, and
    ``Softmax(scores - mask)`` but for its sign. The range
    of the sum follows from the scores, so that histograms, which such numbers make coarse, are not asked. Where a mask
    joins a sum that is masked already, ``[a, b]`` are the scores without either.

    3. Any other tensor that reaches a quantized Softmax and holds -inf is limited to 16 below its least number.

    A mask that several sums share takes the widest of their limits. Without this an int8 scale in front of each
    Softmax is 10000 / 127 = 79 and every score becomes 0, and codes have none for -inf: it would become the least
    score. A row that is masked as a whole is the same everywhere, and the Softmax of it 1 / n.

    Args:
        model: The prepared model.
        placement: What is quantized.
        ranges: What a method keeps of what calibration saw.
        seen: What it saw.
    """
    limiter = _Limiter(model, placement, ranges, seen)
    leading = leads_to_softmax(model.graph)
    for node in model.graph:
        if node in leading:
            limiter.visit(node)
    return limiter.limited()


class _Mask(NamedTuple):
    """A mask beside scores: how far down it must reach, and the range of the scores where it does not mask."""

    name: str
    least: float
    low: float
    high: float


class _Limiter:
    """Follows scores through the nodes that lead to a Softmax, in topological order."""

    def __init__(
        self, model: ir.Model, placement: Placement, ranges: Mapping[str, Range], seen: Mapping[str, Range]
    ) -> None:
        self._model, self._placement = model, placement
        self._kept, self._seen = ranges, seen
        self._roots = dict(placement.activations)  # also tensors that float nodes pass on unchanged -> their origin
        self._scores: dict[str, tuple[float, float]] = {}  # masked tensor -> range of what is not masked
        self._limits: dict[str, float] = {}  # mask that is added or put in -> its least value
        self._taken: dict[str, float] = {}  # mask that is subtracted -> the same with the other sign
        self._sums: dict[str, tuple[float, float]] = {}

    def visit(self, node: ir.Node) -> None:
        result, source = name_of(node.outputs[0]), name_of(node.inputs[0])
        if node.op_type == "Softmax":
            found = self._kept.get(self._root(source))
            if found is not None and found.neg_inf and found.min <= found.max:
                self._sums.setdefault(self._root(source), (found.min, found.max))
        elif node.op_type in PASS_THROUGH:
            self._roots.setdefault(result, self._root(source))
            self._pass_through(source, result)
        elif node.op_type in SCORE_LIMITS and is_step(node):
            for value in node.inputs:
                self._pass_through(name_of(value), result)
        elif node.op_type in _OPERANDS:
            self._join(node, result)

    def limited(self) -> tuple[dict[str, Range], tuple[str, ...]]:
        """Returns all ranges, and the sentences."""
        limited, notes = dict(self._kept), []
        for name, (low, high) in self._sums.items():
            limited[name] = replace(self._kept[name], min=low - _DISTANCE, max=high, neg_inf=0)
        for mask, least in self._limits.items():
            whole = self._range(mask, self._seen)
            limited[mask] = replace(whole, min=least, max=max(whole.max, least), neg_inf=0)
            notes.append(_note(mask, f"down to {_least(whole):g}", least))
        for mask, least in self._taken.items():
            whole = self._range(mask, self._seen)
            limited[mask] = replace(whole, min=min(whole.min, -least), max=-least, pos_inf=0)
            notes.append(_note(mask, f"up to {-_least(_mirrored(whole)):g}", -least))
        return limited, tuple(notes)

    def _join(self, node: ir.Node, result: str) -> None:
        names = [name_of(node.inputs[index]) for index in _OPERANDS[node.op_type]]
        for mask, scores in (names[::-1], names)[: 1 if node.op_type == "Sub" else 2]:
            found = self._masking(mask, scores, node.op_type)
            if found is None:
                continue
            if name_of(node) in self._placement.quantized:
                limits = self._taken if node.op_type == "Sub" else self._limits
                limits[found.name] = min(limits.get(found.name, 0.0), found.least)
            self._scores[result] = found.low, found.high
            self._limit(result)
            return

    def _masking(self, mask: str, scores: str, op_type: str) -> _Mask | None:
        """Returns what there is to know if `mask` is one beside `scores`, with the sign that it is added with."""
        low, high = self._scores.get(scores, self._ends(scores, self._seen))
        if low > high:
            return None
        name = self._root(mask)
        whole = self._range(name, self._seen)
        whole = _mirrored(whole) if op_type == "Sub" else whole
        far = -_RATIO * max(abs(low), abs(high), 1.0)
        if _least(whole) >= far or (whole.max > 0 and not whole.neg_inf):
            return None
        low, high = self._scores.get(scores, self._ends(scores, self._kept))
        bias = (whole.min, whole.max) if far <= whole.min <= whole.max else (0.0, max(whole.max, 0.0))
        if op_type != "Where":
            least = low + bias[0] - high - _DISTANCE
            return _Mask(name, least, low + bias[0], high + bias[1])
        if far <= whole.min <= whole.max:
            low, high = min(low, bias[0]), max(high, bias[1])
        return _Mask(name, low - _DISTANCE, low, high)

    def _pass_through(self, source: str, result: str) -> None:
        if source in self._scores:
            self._scores[result] = self._scores[source]
            self._limit(result)

    def _limit(self, tensor: str) -> None:
        root = self._placement.activations.get(tensor)
        if root is not None and root in self._kept:
            self._sums[root] = self._scores[tensor]

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)

    def _ends(self, name: str, ranges: Mapping[str, Range]) -> tuple[float, float]:
        found = self._range(self._root(name), ranges)
        return found.min, found.max

    def _range(self, name: str, ranges: Mapping[str, Range]) -> Range:
        value = self._model.graph.initializers.get(name)
        if value is None or not is_constant(value):
            return ranges.get(name, _NOTHING)
        # Shapes, and masks in whole numbers or doubles, lead here as well.
        floats = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
        return range_of(value) if value.dtype in floats else _NOTHING


def _mirrored(found: Range) -> Range:
    return replace(found, min=-found.max, max=-found.min, pos_inf=found.neg_inf, neg_inf=found.pos_inf)


def _note(mask: str, reach: str, end: float) -> str:
    return f"tensor {mask!r}: values {reach} mask a Softmax; its range ends at {end:.3g}"


def _least(found: Range) -> float:
    return -math.inf if found.neg_inf else found.min
