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

_FAR = Effort(gain=1.0, splits=SPLITS, logits=True, of_worst=True)


def has_larger_groups(scheme: Scheme) -> bool:
    """Whether more weights share a scale than need to."""
    return scheme.weight.granularity == "group" and scheme.weight.group_size > SMALL_GROUP


def widen_stored_weights(ladder: Ladder) -> None:
    """Stores weights in more bits that cost the outputs most; beside activations of 8 bits their layers stay float.

    They are chosen with the nearest codes. What codes that are chosen by outputs bring beyond these is taken off. Where
    the samples that choose say that few weights matter, and others that they do, as many have more bits in the end as
    may.
    """
    plan = ladder.plan
    if ladder.is_met or plan.scheme.strict:
        return
    plain = ladder.with_nearest_codes()
    gained, share, seen = ladder.gain(plain, ladder.best), ladder.goal.largest_share, {plain.data}

    def pull(lever: str, effort: Effort) -> None:
        """Pulls a lever where weights change by it; codes chosen by outputs take longer than to see that."""
        widened = replace(plan, effort=effort)
        changed = plain.data if ladder.is_met else ladder.quantize(widened.plain).data
        if changed not in seen:
            seen.add(changed)
            ladder.pull(lever, widened)

    for wanted in _wanted(ladder):
        most = 10 ** ((gained - wanted) / 10)
        pull(f"weights that alone leave {decibels(most)}", _FAR._replace(most=most, largest_share=share))
    if len(seen) == 1 and plan.scheme.weight.format.bits < 8:
        pull("no weights of fewer than 8 bits", _FAR._replace(most=0.0, largest_share=0.0))
    pull("more bits for as many weights as may have them", _FAR._replace(most=0.0, largest_share=share))


def _wanted(ladder: Ladder) -> list[float]:
    """Returns the ratios in dB to choose weights for, one after the other.

    Those that choose are other samples than those that are judged, and other weights than those with codes that are
    chosen by outputs may matter to them.
    """
    if ladder.goal.min_sqnr is None:
        return [ladder.aim(more) for more in AIMS]
    return [ladder.aim(0.0) + more for more in (0.0, *AIMS)]
