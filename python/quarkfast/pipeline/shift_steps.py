"""Steps that follow scale alignment and shifting once scales are final: limits that codes imply, biases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quarkfast.algorithms.activation_shifting import correct_offset_biases, shift_tensors
from quarkfast.algorithms.offset_groups import find_offset_groups
from quarkfast.algorithms.offset_search import Reach, find_shifts, reach_of
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import name_of
from quarkfast.kernels import Range
from quarkfast.pipeline.context import Context
from quarkfast.quantization import place
from quarkfast.ranges.estimate import estimate_ranges
from quarkfast.statistics.scaling import shift_statistics
from quarkfast.transforms.settle_limits import LastCode, drop_upper_limits, settle_limits
from quarkfast.wording import counted

__all__ = [
    "aligns_scales",
    "balance_biases",
    "drop_aligned_limits",
    "settle_shifted_limits",
    "shift_activations",
    "shifts_activations",
]


def aligns_scales(context: Context) -> bool:
    """Whether the scheme asks for scale alignment."""
    return context.scheme.aligned


def drop_aligned_limits(context: Context) -> bool:
    """Makes a Relu of each Clip whose limit a factor has moved, where it has the last code or lies beyond."""
    assert context.plan is not None
    quantizers = context.plan.quantizers
    ends = {
        name: LastCode(int(qtype(quantizers[name].dtype).qmax), float(quantizers[name].scale))
        for name in context.factors
        if name in quantizers and quantizers[name].scale.size == 1 and not np.any(quantizers[name].zero_point)
    }
    dropped = drop_upper_limits(context.model.graph, ends)
    if dropped:
        reason = "codes end where they limit, and devices compute it along with a layer"
        context.notes.append(f"{len(dropped)} Clip became Relu: {reason}")
        quantized = {**context.placement.quantized, **{name_of(node): node.op_type for node in dropped}}
        context.placement = replace(context.placement, quantized=quantized)
    return bool(dropped)


def shifts_activations(context: Context) -> bool:
    """Whether the scheme asks for it."""
    return context.scheme.shift_activations


def shift_activations(context: Context) -> bool:
    """Subtracts offsets from activations with symmetric codes, and places the model anew; returns whether it did.

    Statistics and ranges move along: samples are not run again.
    """
    placement, graph = context.placement, context.model.graph
    values = {name_of(value): value for node in graph for value in node.outputs}
    groups = find_offset_groups(graph)
    groups.pin(values.get(name) for name in (*placement.fixed, *placement.bounds))
    found_reaches = {
        values[name]: reach_of(values[name], _kept(context, name, kept), placement.specs[name], context.scheme.policy)
        for name, kept in context.ranges.items()
        if name in values
    }
    # Codes that have no use for an offset get no Pad for the sake of others.
    groups.pin(value for value, reach in found_reaches.items() if reach is None)
    reaches = {value: reach for value, reach in found_reaches.items() if reach is not None}
    found = find_shifts(groups, reaches, context.scheme.policy)
    context.shifted = None if found is None else shift_tensors(context.model, groups, found.offsets)
    if found is None or context.shifted is None:
        context.notes.append("activation shifting was left out: no offset makes scales smaller")
        context.scheme = replace(context.scheme, shift_activations=False)
        return False
    moved = context.shifted.offsets
    context.ranges = {name: _moved(name, kept, moved, reaches, values) for name, kept in context.ranges.items()}
    context.wider = {name: context.ranges[name] for name in context.wider}
    context.statistics = {
        name: shift_statistics(seen, moved[name]) if name in moved else seen
        for name, seen in context.statistics.items()
    }
    scheme = replace(context.scheme, tensors=(*context.scheme.tensors, *context.tensor_rules))
    context.placement = place(context.model, scheme, context.target)
    gained = 10 * math.log10(found.gain)
    count = sum(name in moved for name in context.ranges)
    pads = counted(context.shifted.pads, "Pad")
    context.notes.append(
        f"activation shifting: {count} of {len(reaches)} activations lose an offset, with {pads} in front of "
        f"convolutions; their steps, squared, are {gained:.1f} dB smaller in the mean"
    )
    return True


def _kept(context: Context, name: str, kept: Range) -> Range:
    """Returns the range to keep of an activation; of one without values below zero, that for all codes there are."""
    spec, seen = context.placement.specs[name], context.statistics.get(name)
    if seen is None or seen.histogram is None or seen.range.min < 0 or name in context.cut or name in context.wider:
        return kept
    return estimate_ranges({name: seen}, {name: replace(spec, symmetric=False)})[name]


def _moved(
    name: str,
    kept: Range,
    moved: Mapping[str, float],
    reaches: Mapping[ir.Value, Reach],
    values: Mapping[str, ir.Value],
) -> Range:
    if name not in moved:
        return kept
    reach = reaches.get(values[name])
    low, high = (kept.min - moved[name], kept.max - moved[name]) if reach is None else reach.shifted(moved[name])
    return replace(kept, min=low, max=high)


def balance_biases(context: Context) -> bool:
    """Gives biases what the offsets of activations are worth with rounded weights.

    Codes that a rounding chooses beside biases that stay have to make up for that themselves.
    """
    scheme, shifted = context.scheme, context.shifted
    stay = scheme.rounding != "nearest" and not dict(scheme.rounding_options).get("update_bias", True)
    return shifted is not None and not stay and correct_offset_biases(context, shifted.layers)


def settle_shifted_limits(context: Context) -> bool:
    """Moves limits onto the ends of codes where these do the same.

    They are looked for by name: the model may be a copy of the one that lost offsets (`keep_unwritten`).
    """
    if context.shifted is None:
        return False
    names = {name_of(node) for node in context.shifted.limits}
    return settle_limits(node for node in context.model.graph if name_of(node) in names)
