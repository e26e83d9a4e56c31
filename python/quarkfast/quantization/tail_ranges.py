"""Ranges that reach beyond what samples showed: of activations of 16 bits, and of the answers of a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.operators import ANSWER_FUNCTIONS, BOUNDED, MOVERS
from quarkfast.graph.placement import Placement
from quarkfast.graph.walks import moved_from
from quarkfast.kernels import Range
from quarkfast.ranges.summary import TensorSummary
from quarkfast.ranges.tail_range import range_with_tails

__all__ = ["few_valued", "has_bits_to_spare", "note_of_headroom", "note_of_tails", "widen_tails", "with_headroom"]

# Formats of so many bits have one to spare: rounding in 15 lies 80 dB below an activation, weights of 8 bits at 40.
_LEAST_BITS = 16


def with_headroom(placement: Placement, ranges: Mapping[str, Range], factor: float) -> dict[str, Range]:
    """Returns the ranges of those activations that are multiplied.

    What saturates costs as much in 16 bits as in 8, and a calibration of few samples shows few of the largest values.
    Ranges that the user or the target gives stay, and those of power-of-two scales, which are rounded up.

    Args:
        placement: Where pairs go.
        ranges: What the methods keep.
        factor: How many times as far they reach (`quarkfast.config.Policy.headroom`).
    """
    return {
        name: replace(kept, min=factor * kept.min, max=factor * kept.max)
        for name, kept in ranges.items()
        if kept.min <= kept.max and name not in placement.fixed and has_bits_to_spare(placement.specs[name])
    }


def has_bits_to_spare(spec: TensorSpec) -> bool:
    """Whether activations of `spec` are integers of 16 bits whose scale may be any number."""
    return spec.format.is_integer and spec.format.bits >= _LEAST_BITS and spec.scale != "power_of_two"


def note_of_headroom(doubled: Mapping[str, Range]) -> list[str]:
    """Returns the sentence that says how many activations have wider ranges, if there are any."""
    if not doubled:
        return []
    have = "activations of 16 bits have ranges" if len(doubled) > 1 else "activation of 16 bits has a range"
    return [f"{len(doubled)} {have} twice as wide as what samples showed, which leaves 15 bits; strict=True keeps 16"]


# A row of such a tensor has one number for each channel; others have that many at each of many places.
_MOST_RANK = 2


def few_valued(model: ir.Model, placement: Placement) -> tuple[str, ...]:
    """Returns the observed tensors that the model answers with: one number for each channel, no limits by definition.

    Left out are tensors in between, whose channels may lie far apart, so that a wider range takes the small ones their
    digits, tensors with power-of-two scales, which leave one or two ranges to choose from, and those of 16 bits, whose
    ranges are doubled (`quarkfast.quantization.tail_ranges`).

    Args:
        model: The prepared model.
        placement: Where pairs go.
    """
    wanted = {name for name in placement.observed if _is_fine(placement.specs[name])}
    values = {name_of(value): value for node in model.graph for value in node.outputs}
    return tuple(
        name
        for name in placement.observed
        if name in wanted and name in values and _is_answer(values[name]) and _is_open(values[name], placement)
    )


def _is_fine(spec: TensorSpec) -> bool:
    return spec.format.is_integer and spec.scale != "power_of_two" and not has_bits_to_spare(spec)


def _is_answer(value: ir.Value) -> bool:
    """Whether a tensor is an output, or nothing but moves and a last function lies between."""
    waiting, seen = [value], {value}
    while waiting:
        moved = waiting.pop()
        readers = [reader for reader, _ in moved.uses()]
        if not (readers or moved.is_graph_output()) or not all(map(is_standard, readers)):
            return False
        behind = [reader for reader in readers if reader.op_type not in ANSWER_FUNCTIONS]
        if any(reader.op_type not in MOVERS for reader in behind):
            return False
        waiting += [reader.outputs[0] for reader in behind if reader.outputs[0] not in seen]
        seen.update(reader.outputs[0] for reader in behind)
    return True


def _is_open(value: ir.Value, placement: Placement) -> bool:
    """Whether a tensor has one number for each channel, and no operator keeps it within limits."""
    if value.shape is None or len(value.shape) > _MOST_RANK:
        return False
    *_, origin = sources = list(moved_from(value, MOVERS))
    makers = [source.producer() for source in sources]
    bounded = (node is not None and is_standard(node) and node.op_type in BOUNDED for node in makers)
    limited = any(name_of(source) in placement.bounds for source in sources if source.producer() is not None)
    return origin.producer() is not None and not limited and not any(bounded)


def widen_tails(
    names: Collection[str],
    placement: Placement,
    ranges: Mapping[str, Range],
    statistics: Mapping[str, TensorSummary],
    samples: int,
    fewest: int,
) -> dict[str, Range]:
    """Returns the ranges of those of `names` that reach further than what the methods keep.

    Where there is no histogram a range stays as it is.

    Args:
        names: From :func:`few_valued`.
        placement: Where pairs go.
        ranges: What the methods keep.
        statistics: What calibration gathered.
        samples: Of how many samples.
        fewest: Fewest values that show how a tail falls off.
    """
    wider: dict[str, Range] = {}
    for name in names:
        histogram, kept = statistics[name].histogram, ranges[name]
        if histogram is None or kept.min > kept.max:
            continue
        low, high = range_with_tails(histogram, (kept.min, kept.max), placement.specs[name], samples, fewest)
        if (low, high) != (kept.min, kept.max):
            wider[name] = replace(kept, min=low, max=high)
    return wider


def note_of_tails(wider: Mapping[str, Range], ranges: Mapping[str, Range]) -> list[str]:
    """Returns the sentence that names tensors with wider ranges, if there are any."""
    if not wider:
        return []
    factor = {name: max(-each.min, each.max) / max(-ranges[name].min, ranges[name].max) for name, each in wider.items()}
    words = ", ".join(f"{name!r} {factor[name]:.2f} times" for name in list(wider)[:3])
    more = f" and {len(wider) - 3} more" if len(wider) > 3 else ""
    return [f"ranges reach beyond the few values that samples showed, as far as these fall off: {words}{more}"]
