"""Runs the steps of a recipe: stage by stage, each after the statistics that its steps require."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from quarkfast.pipeline.context import Context
from quarkfast.pipeline.recipes import Recipe
from quarkfast.pipeline.step import Step, may_require, rereads, run_steps
from quarkfast.statistics import StatisticsRequest

__all__ = ["run_recipe"]


def run_recipe(recipe: Recipe, context: Context) -> None:
    """Runs `recipe`, until it ends or a step finds that there is nothing to quantize.

    1. Steps of one stage that follow each other are timed together.
    2. What the steps of a stage require is asked for at once, before the first of them, so that samples run once a
       stage. Where a later stage may ask again, samples that can be read only once are kept on the disk; where a step
       reads the first ones again, these are.

    Raises:
        QuarkfastError: What a step raises; a note of the exception names the step.
    """
    stages = [(stage, list(steps)) for stage, steps in groupby(recipe, lambda step: step.stage)]
    for index, (stage, steps) in enumerate(stages):
        applying = [step for step in steps if step.applies(context)]
        if not applying:
            continue
        later = [step for _, others in stages[index + 1 :] for step in others if step.applies(context)]
        rows = None if any(map(may_require, later)) else max(rereads(step, context) for step in (*applying, *later))
        _gather(applying, context, rows)
        with context.clock.stage(stage):
            run_steps(applying, context)
        if context.unchanged:
            return


def _gather(steps: Sequence[Step], context: Context, rows: int | None) -> None:
    """Asks for what `steps` require, if that is anything, and keeps the first `rows` samples; None keeps all."""
    request = StatisticsRequest()
    for step in steps:
        request |= step.requires(context)
    context.request = request
    if request:
        if rows != 0:
            context.source.keep(context.model, context.scheme, rows)
        model, key, scheme, clock = context.model, context.key, context.scheme, context.clock
        context.calibration = context.once(
            "calibration",
            (request, key, scheme.batch_size),
            lambda: context.source.gather(model, request, key, scheme, clock),
        )
