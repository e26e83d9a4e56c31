"""Tensors whose values say nothing about a scale: zeros alone, one value alone, channels of zeros."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of
from quarkfast.graph.placement import Placement
from quarkfast.kernels import Range

__all__ = ["count_flat"]

_KINDS = ("activation of zeros", "activation of one value", "weight of zeros", "channel of zeros")


def count_flat(model: ir.Model, placement: Placement, seen: Mapping[str, Range]) -> tuple[str, ...]:
    """Returns a sentence that counts such tensors, or none.

    They get finite scales all the same: zeros scale 1, one value the scale that it fills the codes with, and a channel
    of zeros the largest scale of its tensor. Many of them hint at data that does not exercise the model.

    Args:
        model: The prepared model.
        placement: What is quantized.
        seen: What calibration saw of the activations.
    """
    found = [seen[name] for name in placement.observed if name in seen]
    counts = Counter(dict.fromkeys(_KINDS, 0))
    counts["activation of zeros"] = sum(each.min == each.max == 0 for each in found)
    counts["activation of one value"] = sum(each.min == each.max != 0 for each in found)
    for kind, count in _constants(model, placement):
        counts[kind] += count
    plural = {kind: kind.replace(" of", "s of", 1) for kind in _KINDS}
    counted = ", ".join(f"{count} {kind if count == 1 else plural[kind]}" for kind, count in counts.items() if count)
    return (f"flat tensors: {counted}; their scales are finite, and arbitrary",) if counted else ()


def _constants(model: ir.Model, placement: Placement) -> Iterator[tuple[str, int]]:
    for slot in placement.constants:
        values = array_of(model.graph.initializers[slot.tensor])
        if slot.role != "weight" or not slot.spec.needs_range or not values.size:
            continue
        if not values.any():
            yield "weight of zeros", 1
        elif slot.axis is not None:
            others = tuple(axis for axis in range(values.ndim) if axis != slot.axis % values.ndim)
            yield "channel of zeros", int((~values.any(axis=others)).sum())
