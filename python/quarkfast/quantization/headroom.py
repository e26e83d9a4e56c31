"""Ranges of activations of 16 bits: twice what samples showed, for what others exceed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quarkfast.config import TensorSpec
from quarkfast.graph.placement import Placement
from quarkfast.kernels import Range

__all__ = ["has_bits_to_spare", "note_of_headroom", "with_headroom"]

_FACTOR = 2.0

# Formats of so many bits have one to spare: rounding in 15 lies 80 dB below an activation, weights of 8 bits at 40.
_LEAST_BITS = 16


def with_headroom(placement: Placement, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Returns the ranges of those activations that are doubled.

    What saturates costs as much in 16 bits as in 8, and a calibration of few samples shows few of the largest values.
    Ranges that the user or the target gives stay, and those of power-of-two scales, which are rounded up.

    Args:
        placement: Where pairs go.
        ranges: What the methods keep.
    """
    return {
        name: replace(kept, min=_FACTOR * kept.min, max=_FACTOR * kept.max)
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
