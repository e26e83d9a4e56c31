"""The table of levers: what may make the outputs of a quantized model better, the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from quarkfast.config import Policy
from quarkfast.config.options.changes import set_rounding, set_shift_activations
from quarkfast.errors import ConfigError
from quarkfast.pipeline.resolve import resolve
from quarkfast.search.job import Attempt, Job, Made
from quarkfast.search.layer_precision import LayerGoal, layer_precision
from quarkfast.search.precision import (
    activation_precision,
    both_precisions,
    may_raise_weights,
    stored_weight_precision,
    weight_precision,
)
from quarkfast.search.quality_goal import goal_of, read_goal
from quarkfast.search.search import Candidate, Goal, Lever, Search
from quarkfast.search.unasked import NoGoal, asked_options, equalized_further, further_equalization, poor_outputs

__all__ = ["LEVERS", "goal_of_job"]

# Weights that share a scale where more of them share one too coarse.
_SMALL_GROUP = 32

_SHIFTING = "shift_activations=True"


def _option(name: str, value: Any, **fields: Any) -> Callable[[Search], Iterator[Candidate]]:
    """Returns what tries an option, unless the user gave it or the preset has no such choice."""

    def candidates(search: Search) -> Iterator[Candidate]:
        if name in search.given:
            return
        try:
            scheme, target = resolve(search.job.preset, {**search.given, name: value})
        except ConfigError:  # the preset has no such choice
            return
        attempt = Attempt(replace(scheme, **fields), target, search.attempt.effort)
        if attempt != search.attempt:
            yield Candidate(f"{name}={value}", attempt, given={name: value})

    return candidates


def _equalize_further(search: Search) -> Iterator[Candidate]:
    """Equalizes layers with a gate or a Clip between them."""
    attempt = search.attempt
    changed = equalized_further(search.job.model, attempt.scheme, attempt.target)
    if changed is not None:
        options = dict(changed.equalize_options)
        gain = search.policy.search_gate_gain if options.get("through_gates") else None
        given = {"equalize_options": options}
        yield Candidate(str(further_equalization(changed)), replace(attempt, scheme=changed), gain, given=given)


def _shifted(search: Search) -> Attempt | None:
    """Returns the best attempt with offsets; None where there is no use for them."""
    if "shift_activations" in search.job.options:
        return None
    try:
        scheme = set_shift_activations(search.attempt.scheme, True)
    except ConfigError:  # the preset has no such codes
        return None
    return replace(search.attempt, scheme=scheme)


def _shift_where_enough(search: Search) -> Iterator[Candidate]:
    """Subtracts offsets from activations with symmetric codes, and keeps that if it is enough.

    Codes of 16 bits have no use for offsets, and those of some tensors change what is best for the others.
    """
    shifted = _shifted(search)
    if shifted is None:
        return
    plain = search.make(shifted.plain)
    search.shifts = plain.data != search.with_nearest_codes().data
    if search.shifts and not _is_far(search, plain):
        yield Candidate(_SHIFTING, shifted, enough=True)


def _shift(search: Search) -> Iterator[Candidate]:
    """Subtracts offsets from activations beside what other levers have changed."""
    shifted = _shifted(search)
    if shifted is not None:
        yield Candidate(_SHIFTING, shifted)


def _is_far(search: Search, changed: Made) -> bool:
    """Whether the best result lacks more than a change is likely to bring, by what it brings with nearest codes."""
    least = goal_of(search).min_sqnr
    if least is None or not search.attempt.makes_up:
        return False
    gain = search.gain(search.with_nearest_codes(), changed)
    return search.current.quality.assured + gain + search.policy.search_code_gain < least


def _choose_codes_again(search: Search) -> Iterator[Candidate]:
    """Chooses codes by outputs beside what other levers have changed, where they were no help before these.

    Codes that make up for what 8-bit activations lose are fitted to that noise; with less of it they are nearer to what
    other samples want.
    """
    attempt = search.attempt
    chosen = replace(attempt, scheme=set_rounding(attempt.scheme, "descent"))
    if not search.has_tried(chosen):
        yield Candidate("rounding=descent", chosen)


def _always(search: Search) -> bool:
    return True


def _is_judged(search: Search) -> bool:
    return search.best is not None


def _may_be_poor(search: Search) -> bool:
    job, made = search.job, search.result
    small = made is not None and made.summary.bytes_before <= search.policy.judged_bytes
    return small and job.samples is not None and job.attempt.scheme.rounding == "nearest"


def _stores(search: Search) -> bool:
    return search.attempt.scheme.stores_codes


def _has_scales(search: Search) -> bool:
    return not _stores(search)


def _makes_up(search: Search) -> bool:
    return _has_scales(search) and search.attempt.makes_up


def _makes_up_for_nothing(search: Search) -> bool:
    return _has_scales(search) and not search.attempt.makes_up  # other roundings correct biases themselves


def _has_raisable_weights(search: Search) -> bool:
    return _has_scales(search) and may_raise_weights(search)


def _has_nearest_codes(search: Search) -> bool:
    asked = "rounding" in search.job.options
    return _has_scales(search) and not asked and search.attempt.scheme.rounding == "nearest"


def _poor(policy: Policy) -> float:
    return policy.poor_sqnr


def _shifts(search: Search) -> bool:
    return search.shifts


def _has_larger_groups(search: Search) -> bool:
    """Whether more weights share a scale than need to."""
    weight = search.attempt.scheme.weight
    return _stores(search) and weight.granularity == "group" and weight.group_size > _SMALL_GROUP


# Whether ranges are searched stays open: a method that is named rules it out, and this one is only tried.
_least_squares = _option("method", "minmse", search_ranges=None)

LEVERS: tuple[Lever, ...] = (
    Lever("options that rewrite the model", 2, asked_options, _is_judged, ("asked",)),
    Lever(
        "equalization of poor outputs",
        3,
        poor_outputs,
        _may_be_poor,
        ("unasked",),
        below=_poor,
    ),
    Lever("layer precision", math.inf, layer_precision, _is_judged, ("layers",)),
    Lever("output bias correction", 2, _option("output_bias_correction", True), _makes_up_for_nothing),
    Lever("equalization through gates and Clips", 1, _equalize_further, _has_scales),
    Lever("range method", 1, _least_squares, _has_scales),
    Lever("weight rounding", 10, _option("rounding", "descent"), _always),
    Lever("smaller groups", 1, _option("group_size", _SMALL_GROUP), _has_larger_groups),
    Lever("stored weight precision", 5, stored_weight_precision, _stores, strict=False),
    Lever("activation shifting alone", 2, _shift_where_enough, _has_scales, strict=False),
    # Codes chosen by outputs have made weights better already: what these lose beside other codes says little.
    Lever("activation precision", 5, activation_precision, _makes_up),
    Lever("weight precision", 2, weight_precision, _has_raisable_weights, strict=False),
    Lever("activation precision", 5, activation_precision, _has_scales),
    Lever("both precisions", 1, both_precisions, _has_scales, strict=False),
    Lever("weight rounding again", 10, _choose_codes_again, _has_nearest_codes),
    Lever("activation shifting", 2, _shift, _shifts, strict=False),
)
"""Levers in the order in which they are tried."""


def goal_of_job(
    job: Job, min_sqnr: float | None, max_drop: float | None, metric: Any, metric_data: Any, share: float | None
) -> Goal:
    """Returns what a job is for, by the options of :func:`quarkfast.quantize` of these names.

    Raises:
        ConfigError: If they do not fit each other or the job.
    """
    mixed = job.attempt.scheme.mixed_precision
    if all(each is None for each in (min_sqnr, max_drop, metric, metric_data, share)):
        return NoGoal() if mixed is None else LayerGoal(mixed)
    goal = read_goal(min_sqnr, max_drop, metric, metric_data, share)
    if job.calibration is not None:
        raise ConfigError(f"{goal.name}: expected calibration_data to judge outputs on, got a calibration")
    if mixed is not None:
        raise ConfigError(f"{goal.name}: expected it or mixed_precision, got both; leave one out")
    return goal
