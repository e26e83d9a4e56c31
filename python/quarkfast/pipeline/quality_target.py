"""A quality target: options that cost more are tried, the cheapest first, until the outputs are good enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from quarkfast.calibration.data import CalibrationData
from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.graph.load import ModelSource
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quality_goal import Goal, read_goal
from quarkfast.pipeline.quality_ladder import Attempt, Ladder
from quarkfast.pipeline.quality_levers import (
    choose_codes_again,
    equalize_further,
    give_more_bits_together,
    improve_weights,
    shift_activations,
    shift_where_enough,
    widen_activations,
)
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.stored_levers import SMALL_GROUP, has_larger_groups, widen_stored_weights
from quarkfast.pipeline.summary import Summary
from quarkfast.quantization.weight_precision import USUAL, Effort

__all__ = ["quantize_to_goal", "read_goal"]

_Options = tuple[tuple[str, str, Any, Mapping[str, Any]], ...]
"""What a lever is called, the option, its value, and fields of the scheme."""

# Options by which the same types carry more, the cheapest first, in front of equalization, which adds nodes, and behind
# it. One that the user gave is left as it is.
_FIRST: _Options = (("output_bias_correction=True", "output_bias_correction", True, {}),)
_OPTIONS: _Options = (
    # Whether ranges are searched stays open: a method that is named rules it out, and this one is only tried.
    ("method=minmse", "method", "minmse", {"search_ranges": None}),
    ("rounding=descent", "rounding", "descent", {}),
)

# The same where activations have no scales: without bytes, and with those of more scales.
_STORED: _Options = _OPTIONS[-1:]
_GROUPS: _Options = ((f"group_size={SMALL_GROUP}", "group_size", SMALL_GROUP, {}),)


def quantize_to_goal(
    model: ModelSource,
    path: Path | None,
    preset: str | Scheme,
    options: Mapping[str, Any],
    calibration_data: CalibrationData | None,
    max_memory: int | str | None,
    goal: Goal,
    clock: Clock,
    histograms: bool = False,
) -> tuple[bytes, Summary]:
    """Quantizes `model` until it is good enough on samples held apart, by the cheapest levers.

    A lever stays where it helps. What was tried is in the summary, and a note where the target is not met.

    Raises:
        ConfigError: If the preset stores weights as floats and rounds nothing else, or there are no samples.
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    scheme, target = resolve(preset, options)
    if scheme.weights_only and not scheme.stores_codes:
        raise ConfigError(f"{goal.name}: expected a preset that levers change, got {scheme.name}")
    if calibration_data is None:
        raise ConfigError(f"{goal.name}: expected calibration_data to judge outputs on, got none")
    ladder = Ladder(model, path, scheme, calibration_data, max_memory, goal, clock, histograms)
    usual = USUAL._replace(largest_share=min(USUAL.largest_share, goal.largest_share))
    ladder.pull("as asked", Attempt(scheme, target, usual))
    given = dict(options)
    if scheme.stores_codes:
        _pull(_STORED, ladder, preset, given, usual)
        if has_larger_groups(ladder.plan.scheme):
            _pull(_GROUPS, ladder, preset, given, usual)
        widen_stored_weights(ladder)
        return ladder.finish()
    if not ladder.plan.makes_up:  # other roundings correct biases themselves
        _pull(_FIRST, ladder, preset, given, usual)
    if not ladder.is_met and equalize_further(ladder):
        given["equalize_options"] = dict(ladder.plan.scheme.equalize_options)
    _pull(_OPTIONS, ladder, preset, given, usual)
    shifts = "shift_activations" not in options and shift_where_enough(ladder)
    if ladder.plan.makes_up:
        # Such codes have made weights better already: what these lose beside other codes says little.
        widened, effort = widen_activations(ladder), improve_weights(ladder)
    else:
        effort, widened = improve_weights(ladder), widen_activations(ladder)
    if effort is not None and widened is not None:
        give_more_bits_together(ladder, effort, widened)
    if "rounding" not in options:
        choose_codes_again(ladder)
    if shifts:
        shift_activations(ladder)
    return ladder.finish()


def _pull(levers: _Options, ladder: Ladder, preset: str | Scheme, given: dict[str, Any], usual: Effort) -> None:
    """Tries options one after the other, and puts those that stay into `given`."""
    for lever, name, value, fields in levers:
        if name in given or ladder.is_met:
            continue
        try:
            scheme, target = resolve(preset, {**given, name: value})
        except ConfigError:  # the preset has no such choice
            continue
        plan = Attempt(replace(scheme, **fields), target, usual)
        if plan != ladder.plan and ladder.pull(lever, plan):
            given[name] = value
