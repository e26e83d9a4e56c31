"""Attention masks: large negative numbers in front of a Softmax, added or put in, which must not decide a scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.extremes import range_of
from quarkfast.graph.placement import Placement
from quarkfast.kernels import Range

__all__ = ["limit_masks"]

# exp(-16) = 1e-7: what a masked position may still weigh beside any position that is not masked.
_DISTANCE = 16.0

# A tensor is taken for a mask if its least value is this many times further from zero than any score. Masks are -1e4
# and beyond, scores hardly reach 1e2.
_RATIO = 8.0

# Operators that mask, with the inputs that hold scores and mask, in either order.
_OPERANDS = {"Add": (0, 1), "Where": (1, 2)}


def limit_masks(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], seen: Mapping[str, Range]
) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Returns `ranges` in which masks reach no further down than they need to, and a sentence for each.

    Where ``Softmax(scores + mask)`` is quantized, scores lie in ``[a, b]`` and the mask in ``[m, 0]``:

    1. The mask is limited to ``[-(b - a) - 16, 0]``: added to any score that is at most ``a - 16``.
    2. The sum is limited to ``[a - 16, b]``. Masked positions saturate there, at least 16 below every other.

    ``Softmax(Where(condition, scores, mask))`` is the same but for the mask, limited to ``[a - 16, 0]``. The range
    of the sum follows from the scores, so that histograms, which such numbers make coarse, are not asked.

    A mask that several sums share takes the widest of their limits. Without this an int8 scale in front of each
    Softmax is 10000 / 127 = 79 and every score becomes 0.

    Args:
        model: The prepared model.
        placement: What is quantized.
        ranges: What a method keeps of what calibration saw.
        seen: What it saw.
    """
    limits: dict[str, float] = {}
    limited = dict(ranges)
    for mask, total, found, added in _masked_sums(model, placement, seen):
        scores = _range_of(found, model, ranges)
        limits[mask] = min(limits.get(mask, 0.0), scores.min - scores.max * added - _DISTANCE)
        if total in limited:
            limited[total] = replace(limited[total], min=scores.min - _DISTANCE, max=scores.max)
    for mask, least in limits.items():
        whole = _range_of(mask, model, seen)
        limited[mask] = replace(whole, min=least, max=max(whole.max, least))
    return limited, tuple(_note(mask, _range_of(mask, model, seen).min, least) for mask, least in limits.items())


def _note(mask: str, seen: float, least: float) -> str:
    return f"tensor {mask!r}: values down to {seen:g} mask a Softmax; its range ends at {least:.3g}"


def _masked_sums(
    model: ir.Model, placement: Placement, seen: Mapping[str, Range]
) -> Iterator[tuple[str, str, str, bool]]:
    """Yields mask, sum, scores and whether the mask is added, for each quantized sum in front of a Softmax."""
    roots = placement.activations
    for node in model.graph:
        total = name_of(node.outputs[0])
        if not is_standard(node) or node.op_type not in _OPERANDS or total not in roots or not _feeds_softmax(node):
            continue
        names = [roots.get(name_of(node.inputs[i]), name_of(node.inputs[i])) for i in _OPERANDS[node.op_type]]
        found = [_range_of(name, model, seen) for name in names]
        for mask, scores in ((0, 1), (1, 0)):
            reach = max(abs(found[scores].min), abs(found[scores].max), 1.0)
            if found[scores].min <= found[scores].max and found[mask].max <= 0 and found[mask].min < -_RATIO * reach:
                yield names[mask], roots[total], names[scores], node.op_type == "Add"


def _feeds_softmax(node: ir.Node) -> bool:
    return any(reader.op_type == "Softmax" for reader, _ in node.outputs[0].uses())


def _range_of(name: str, model: ir.Model, ranges: Mapping[str, Range]) -> Range:
    value = model.graph.initializers.get(name)
    if value is not None and is_constant(value):
        return range_of(value)
    return ranges.get(name, Range(float("inf"), float("-inf"), 0, 0, 0, 0))
