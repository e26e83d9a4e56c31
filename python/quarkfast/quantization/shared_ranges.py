"""Operators whose inputs and output have one scale: their range is that of the output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.placement import ConstantSlot, Edge, Placement
from quarkfast.kernels import Range

__all__ = ["share_ranges"]

Member: TypeAlias = str | ConstantSlot


def share_ranges(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], op_types: Collection[str]
) -> tuple[Placement, Mapping[str, Range], Mapping[ConstantSlot, tuple[float, float]]]:
    """Returns a placement and ranges in which the inputs of operators have the range of their output, and constants'.

    Where one tensor takes part in several, all of them have the widest range of their outputs. A tensor of another type
    or of other symmetry than the output, which cannot have its scale, keeps its own.

    Args:
        model: The prepared model.
        placement: What is quantized.
        ranges: What is kept of the activations.
        op_types: The operators, of the standard.
    """
    shared, constants, fixed = dict(ranges), dict[ConstantSlot, tuple[float, float]](), dict(placement.fixed)
    for members, results in _groups(model, placement, ranges, op_types):
        limits = [placement.fixed.get(name) or (ranges[name].min, ranges[name].max) for name in results]
        low, high = min(low for low, _ in limits), max(high for _, high in limits)
        for member in members:
            if isinstance(member, str):
                shared[member] = replace(ranges.get(member, ranges[results[0]]), min=low, max=high)
                fixed.pop(member, None)
            else:
                constants[member] = low, high
    return replace(placement, fixed=fixed), shared, constants


def _groups(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], op_types: Collection[str]
) -> list[tuple[list[Member], list[str]]]:
    """Returns the activations and constants that have one range, with those among them that decide it."""
    slots = {edge: slot for slot in placement.constants for edge in slot.edges}
    groups: dict[Member, list[Member]] = {}
    results: dict[str, None] = {}
    for node in model.graph:
        if not is_standard(node) or node.op_type not in op_types or name_of(node) not in placement.quantized:
            continue
        result = placement.activations.get(name_of(node.outputs[0]))
        found = None if result is None else ranges.get(result)
        if result is None or found is None or found.min > found.max:
            continue
        operands = [
            slots.get(Edge(name_of(node), index)) or placement.activations.get(name_of(value))
            for index, value in enumerate(node.inputs)
        ]
        spec = placement.specs[result]
        members = [result, *(each for each in operands if each is not None and _same(each, spec, placement))]
        merged = list(dict.fromkeys(each for member in members for each in groups.get(member, [member])))
        groups |= dict.fromkeys(merged, merged)
        results[result] = None
    return [
        (group, [each for each in group if isinstance(each, str) and each in results])
        for group in {id(each): each for each in groups.values()}.values()
    ]


def _same(member: Member, spec: TensorSpec, placement: Placement) -> bool:
    own = placement.specs[member] if isinstance(member, str) else member.spec
    return (own.dtype, own.symmetric, own.scale) == (spec.dtype, spec.symmetric, spec.scale)
