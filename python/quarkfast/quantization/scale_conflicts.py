"""Concat of tensors whose ranges differ: one scale for all of them would round the smaller ones to zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.extremes import range_of
from quarkfast.graph.placement import LeftFloat, Placement
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.kernels import Range

__all__ = ["resolve_conflicts"]

# Three of eight bits: the smallest input keeps at least five.
_RATIO = 8.0


def resolve_conflicts(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range]
) -> tuple[Placement, tuple[str, ...]]:
    """Returns a placement without scales that inputs of a Concat cannot share, and a sentence for each such Concat.

    Where the largest magnitudes of the inputs differ by more than a factor of 8 (boxes in pixels and scores up to 1):

    1. If nothing but model outputs and what moves values reads the result, the Concat and what moves its values stay
       float. The inputs keep their pairs, and with them their scales.
    2. Otherwise the result keeps its scale, because a quantized operator reads it, and the sentence says what that
       costs.

    Only results of at most 8 bits are looked at.

    Args:
        model: The prepared model.
        placement: Where pairs go.
        ranges: What is kept of each activation's values.
    """
    notes: list[str] = []
    for node, ratio in _conflicts(model, placement, ranges):
        result = name_of(node.outputs[0])
        moved = [tensor for tensor, root in placement.activations.items() if root == result]
        reader = _needing(model, placement, moved)
        if reader:
            notes.append(
                f"node {name_of(node)!r}: ranges of its inputs differ by a factor of {ratio:.3g}, and {reader!r} reads "
                "them with one scale; give the result 16 bits (tensors), or exclude both"
            )
            continue
        placement = _without(model, placement, moved, f"ranges of its inputs differ by a factor of {ratio:.3g}")
        notes.append(
            f"node {name_of(node)!r}: ranges of its inputs differ by a factor of {ratio:.3g}; they keep separate "
            "scales and the result is float"
        )
    return placement, tuple(notes)


def _conflicts(model: ir.Model, placement: Placement, ranges: Mapping[str, Range]) -> Iterator[tuple[ir.Node, float]]:
    for node in model.graph:
        result = name_of(node.outputs[0])
        spec = placement.specs.get(result)
        if not is_standard(node) or node.op_type != "Concat" or spec is None or not spec.format.integer_operators:
            continue
        found = [_magnitude(value, placement, ranges) for value in node.inputs]
        known = [magnitude for magnitude in found if magnitude]
        if known and max(known) > _RATIO * min(known):
            yield node, max(known) / min(known)


def _magnitude(value: ir.Value | None, placement: Placement, ranges: Mapping[str, Range]) -> float:
    """Returns the largest magnitude of a tensor; 0 if it is unknown or empty."""
    root = placement.activations.get(name_of(value), name_of(value))
    if root in placement.fixed:
        return max(map(abs, placement.fixed[root]))
    found = range_of(value) if is_constant(value) else ranges.get(root)
    return 0.0 if found is None or found.min > found.max else float(max(abs(found.min), abs(found.max)))


def _needing(model: ir.Model, placement: Placement, moved: list[str]) -> str:
    """Returns the name of a quantized node that reads one of `moved` and writes none of them, or an empty one."""
    for node in nodes_of(model.graph):
        reads = any(name_of(value) in moved for value in node.inputs)
        writes = any(name_of(value) in moved for value in node.outputs)
        if reads and not writes and name_of(node) in placement.quantized:
            return name_of(node)
    return ""


def _without(model: ir.Model, placement: Placement, moved: list[str], reason: str) -> Placement:
    left = [node for node in model.graph if any(name_of(value) in moved for value in node.outputs)]
    names = {name_of(node) for node in left}
    return replace(
        placement,
        activations={tensor: root for tensor, root in placement.activations.items() if tensor not in moved},
        quantized={name: op_type for name, op_type in placement.quantized.items() if name not in names},
        left_float=(*placement.left_float, *(LeftFloat(name_of(node), node.op_type, reason) for node in left)),
        specs={root: spec for root, spec in placement.specs.items() if root not in moved},
    )
