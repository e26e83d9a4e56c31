"""Scales and codes anew, once ranges of activations have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from quarkfast.graph.placement import Placement, Quantizers
from quarkfast.graph.scalar_functions import ScalarFunction
from quarkfast.kernels import Range
from quarkfast.quantization import (
    BoundedResult,
    Plan,
    bounded_results,
    compute_qparams,
    diagnose,
    few_valued,
    function_inputs,
    make_plan,
    notes_of_cuts,
)

if TYPE_CHECKING:
    from quarkfast.pipeline.context import Context

__all__ = [
    "Planned",
    "bounded_of",
    "few_valued_of",
    "functions_of",
    "plan_with",
    "quantizers_for",
    "take_placement",
    "take_plan",
]


class MethodRanges(NamedTuple):
    """The range to keep of each activation, and why.

    Attributes:
        ranges: Of every activation that is observed.
        cut: Those that end where their reader is flat -> the ratio of signal to noise of its results, in dB.
        wider: Those that reach further than what was seen.
        notes: What there is to say of both.
    """

    ranges: Mapping[str, Range]
    cut: Mapping[str, float]
    wider: Mapping[str, Range]
    notes: list[str]


class Planned(NamedTuple):
    """Ranges, with the scales and the codes that follow.

    Attributes:
        ranges: The range to keep of each activation.
        quantizers: Every scale and zero point.
        plan: These, and the codes nearest to constants.
        chosen: Why the ranges are these, where a method gave all of them.
    """

    ranges: Mapping[str, Range]
    quantizers: Quantizers
    plan: Plan
    chosen: MethodRanges | None = None


def functions_of(context: Context) -> Mapping[str, ScalarFunction]:
    """Returns the activations whose ranges are fitted to what reads them: a preset kept as its name says has none.

    They are looked for once for each placement.
    """
    if context.functions is None or context.functions[0] is not context.placement:
        found = {} if context.scheme.strict else function_inputs(context.model, context.placement)
        context.functions = context.placement, found
    return context.functions[1]


def bounded_of(context: Context) -> Mapping[str, BoundedResult]:
    """Returns the activations that bounded functions give: a preset kept as its name says has none.

    They are looked for once for each placement.
    """
    if context.bounded is None or context.bounded[0] is not context.placement:
        found = {} if context.scheme.strict else bounded_results(context.model, context.placement)
        context.bounded = context.placement, found
    return context.bounded[1]


def few_valued_of(context: Context) -> tuple[str, ...]:
    """Returns the activations of which samples show few values: a preset kept as its name says asks for none."""
    return () if context.scheme.strict else few_valued(context.model, context.placement)


def quantizers_for(context: Context, ranges: Mapping[str, Range]) -> Quantizers:
    """Returns scales and zero points for ranges of activations, brought to what the target allows."""
    seen = {name: each.range for name, each in context.statistics.items()}
    channels = {
        name: each.channel_absmax for name, each in context.statistics.items() if each.channel_absmax is not None
    }
    model, known = context.model, context.known_constants
    found = compute_qparams(model, context.placement, context.scheme, context.target, ranges, seen, channels, known)
    return context.target.refine(model, found)


def plan_with(context: Context, ranges: Mapping[str, Range]) -> Planned:
    """Returns scales and codes for other ranges of activations; the context stays as it is."""
    quantizers = quantizers_for(context, ranges)
    return Planned(ranges, quantizers, make_plan(context.model, context.placement, quantizers, context.scheme))


def take_placement(context: Context, placement: Placement) -> None:
    """Puts another placement in the place of that by which ranges were chosen, and of these forgets what is gone.

    A function that stays float ends no range.
    """
    had = notes_of_cuts(functions_of(context), context.cut)
    context.placement = placement
    functions = functions_of(context)
    context.cut = {name: ratio for name, ratio in context.cut.items() if name in functions}
    has = notes_of_cuts(functions, context.cut)
    if has != had:
        context.range_notes = [*(note for note in context.range_notes if note not in had), *has]
        context.notes = [*(note for note in context.notes if note not in had), *has]


def take_plan(context: Context, planned: Planned) -> None:
    """Puts other scales and codes in the place of the plan, and what is said of them in that of what was.

    A range that changes no longer ends where the function that reads it is flat.
    """
    functions = functions_of(context)
    gone = [*notes_of_cuts(functions, context.cut), *(context.quantizers.notes if context.quantizers else ())]
    kept = [note for note in context.notes if note not in gone]
    context.cut = {name: ratio for name, ratio in context.cut.items() if planned.ranges[name] == context.ranges[name]}
    notes = notes_of_cuts(functions, context.cut)
    if planned.chosen is not None:
        kept = [note for note in kept if note not in context.range_notes]
        context.cut, context.wider, notes = planned.chosen.cut, planned.chosen.wider, planned.chosen.notes
        context.range_notes = notes
    context.notes = [*kept, *notes, *planned.quantizers.notes]
    context.ranges, context.quantizers, context.plan = planned.ranges, planned.quantizers, planned.plan
    context.diagnostics = diagnose(planned.plan, context.statistics, context.cut)
