"""The levers of a quality target where weights alone have codes, or activations are rounded as they come."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.config import Scheme
from quarkfast.evaluate.constant_trial import decibels
from quarkfast.pipeline.quality_ladder import Ladder
from quarkfast.pipeline.quality_levers import AIMS, SPLITS
from quarkfast.quantization.weight_precision import Effort

__all__ = ["SMALL_GROUP", "has_larger_groups", "widen_stored_weights"]

SMALL_GROUP = 32
"""Weights that share a scale where more of them share one too coarse."""


def has_larger_groups(scheme: Scheme) -> bool:
    """Whether more weights share a scale than need to."""
    return scheme.weight.granularity == "group" and scheme.weight.group_size > SMALL_GROUP


def widen_stored_weights(ladder: Ladder) -> None:
    """Stores weights in more bits that cost the outputs most; beside activations of 8 bits their layers stay float.

    They are chosen with the nearest codes. What codes that are chosen by outputs bring beyond these is taken off.
    """
    plan = ladder.plan
    if ladder.is_met or plan.scheme.strict:
        return
    plain = ladder.with_nearest_codes()
    gained, seen = ladder.gain(plain, ladder.best), {plain.data}
    for wanted in _wanted(ladder):
        most = 10 ** ((gained - wanted) / 10)
        effort = Effort(
            most, gain=1.0, splits=SPLITS, logits=True, of_worst=True, largest_share=ladder.goal.largest_share
        )
        widened = replace(plan, effort=effort)
        # Codes chosen by outputs take longer than to see whether anything changes.
        changed = ladder.quantize(widened.plain).data
        if changed in seen:
            continue
        seen.add(changed)
        ladder.pull(f"weights that alone leave {decibels(most)}", widened)
        if ladder.is_met:
            break


def _wanted(ladder: Ladder) -> list[float]:
    """Returns the ratios in dB to choose weights for, one after the other.

    Those that choose are other samples than those that are judged, and other weights than those with codes that are
    chosen by outputs may matter to them.
    """
    if ladder.goal.min_sqnr is None:
        return [ladder.aim(more) for more in AIMS]
    return [ladder.aim(0.0) + more for more in (0.0, *AIMS)]
