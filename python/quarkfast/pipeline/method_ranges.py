"""Ranges of activations: those of a method, fitted to what reads each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from quarkfast.kernels import Range
from quarkfast.pipeline.replan import MethodRanges, Planned, bounded_of, few_valued_of, functions_of, plan_with
from quarkfast.quantization import (
    fit_function_inputs,
    note_of_headroom,
    note_of_tails,
    note_of_whole,
    notes_of_cuts,
    whole_ranges,
    widen_tails,
    with_headroom,
)
from quarkfast.ranges.estimate import estimate_ranges
from quarkfast.statistics import TensorStatistics

if TYPE_CHECKING:
    from quarkfast.config import TensorSpec
    from quarkfast.pipeline.context import Context

__all__ = ["method_ranges", "plan_by_method", "plan_fitted"]


def plan_by_method(context: Context, method: str) -> Planned:
    """Returns scales and codes for ranges of another method than the scheme's; the context stays as it is.

    Activations with a method of their own keep it.

    Raises:
        CalibrationError: If the method reads histograms and there are none.
    """
    own = context.scheme.activation.method
    specs = {
        name: replace(spec, method=method) if spec.method == own else spec
        for name, spec in context.placement.specs.items()
    }
    chosen = method_ranges(context, context.statistics, specs, context.samples)
    return plan_with(context, chosen.ranges)._replace(chosen=chosen)


def plan_fitted(context: Context, ranges: Mapping[str, Range]) -> Planned:
    """Returns scales and codes for other ranges of activations, which end where the functions that read them are flat.

    Those that reach beyond what was seen stay.
    """
    functions = functions_of(context)
    had = notes_of_cuts(functions, context.cut)
    fitting = {name: each for name, each in functions.items() if name not in context.wider}
    fitted, cut = fit_function_inputs(fitting, context.placement, ranges, context.statistics, context.scheme.policy)
    notes = [*notes_of_cuts(functions, cut), *(note for note in context.range_notes if note not in had)]
    return plan_with(context, fitted)._replace(chosen=MethodRanges(fitted, cut, context.wider, notes))


def method_ranges(
    context: Context, statistics: Mapping[str, TensorStatistics], specs: Mapping[str, TensorSpec], samples: int
) -> MethodRanges:
    """Returns the ranges that methods keep, fitted to the functions that read them and to what few values do not show.

    Args:
        context: Knows the model and where pairs go.
        statistics: Of the activations.
        specs: The type and the method of each.
        samples: How many samples were seen; 0 for random ones, of which nothing follows about others.
    """
    found = estimate_ranges({name: statistics[name] for name in context.placement.observed}, specs)
    functions, policy = functions_of(context), context.scheme.policy
    ranges, cut = fit_function_inputs(functions, context.placement, found, statistics, policy)
    results = bounded_of(context)
    wider, notes = dict[str, Range](), list[str]()
    if samples:
        names = [name for name in few_valued_of(context) if name not in cut]
        wider = widen_tails(names, context.placement, ranges, statistics, samples, policy.tail_values)
        unbounded = {name: each for name, each in ranges.items() if name not in results}
        doubled = {} if context.scheme.strict else with_headroom(context.placement, unbounded, policy.headroom)
        notes = [*note_of_tails(wider, ranges), *note_of_headroom(doubled)]
        wider |= doubled
    seen = {name: each.range for name, each in statistics.items()}
    whole = whole_ranges(results, context.placement, {**ranges, **wider}, seen, policy.bounded_share)
    notes += note_of_whole(results, context.placement, ranges, whole)
    cut = {name: ratio for name, ratio in cut.items() if name not in whole}
    wider |= whole
    return MethodRanges({**ranges, **wider}, cut, wider, [*notes_of_cuts(functions, cut), *notes])
