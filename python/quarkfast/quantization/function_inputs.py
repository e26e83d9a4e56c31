"""Ranges in front of activation functions, chosen by the error of what these compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from quarkfast.config import Policy, TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.operators import PACKERS, SHAPE_READERS
from quarkfast.graph.placement import Placement
from quarkfast.graph.scalar_functions import ScalarFunction, find_scalar_functions
from quarkfast.kernels import Range
from quarkfast.ranges.decibels import ratio_of
from quarkfast.ranges.function_range import range_for_function
from quarkfast.ranges.summary import TensorSummary

__all__ = ["FittedRanges", "fit_function_inputs", "function_inputs", "notes_of_cuts"]


class FittedRanges(NamedTuple):
    """Ranges, and those among them that were cut.

    Attributes:
        ranges: The range to keep of each tensor.
        cut: Tensors of which an end was cut -> ratio of the results of their function to the noise in these, in dB.
    """

    ranges: Mapping[str, Range]
    cut: Mapping[str, float]


def function_inputs(model: ir.Model, placement: Placement) -> dict[str, ScalarFunction]:
    """Returns the observed tensors of 8 bits or fewer that one function alone reads, with that function.

    What moves and joins values may lie between, as where a detector joins the scores of all levels. Left out are
    tensors that give their scale to others which something else reads.

    Args:
        model: The prepared model.
        placement: Where pairs go.
    """
    observed = {name for name in placement.observed if _is_narrow(placement.specs[name])}
    if not observed:
        return {}
    members = dict[str, set[str]]()
    for name, root in placement.activations.items():
        members.setdefault(root, set()).add(name)
    found = dict[str, ScalarFunction]()
    for each in find_scalar_functions(model.graph):
        read = [name_of(value) for value in _moved_to(each.entry)]
        found |= {name: each.function for name in read if name in observed and members[name].issubset(read)}
    return found


def _moved_to(entry: ir.Value) -> Iterator[ir.Value]:
    """Yields a tensor that a function reads, and all that is moved into it and that nothing else reads."""
    waiting = [entry]
    while waiting:
        moved = waiting.pop()
        yield moved
        node = moved.producer()
        if node is None or not is_standard(node) or node.op_type not in PACKERS:
            continue
        sources = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        waiting += [value for value in sources if value is not None and _is_read_once(value)]


def _is_read_once(value: ir.Value) -> bool:
    readers = [reader for reader, _ in value.uses() if reader.op_type not in SHAPE_READERS]
    return len(readers) == 1 and not value.is_graph_output()


def fit_function_inputs(
    functions: Mapping[str, ScalarFunction],
    placement: Placement,
    ranges: Mapping[str, Range],
    statistics: Mapping[str, TensorSummary],
    policy: Policy,
) -> FittedRanges:
    """Returns `ranges` in which those of `functions` leave the least error in what the functions compute.

    Where there is no histogram a range stays as it is.

    Args:
        functions: From :func:`function_inputs`.
        placement: Where pairs go.
        ranges: What the methods keep.
        statistics: What calibration gathered.
        policy: What results have to gain.
    """
    fitted, cut = dict(ranges), dict[str, float]()
    worth = policy.function_octave_noise, ratio_of(-policy.function_gain)
    for name, function in functions.items():
        histogram, kept = statistics[name].histogram, ranges[name]
        if histogram is None or kept.min > kept.max:
            continue
        spec = placement.specs[name]
        least = worth[spec.scale != "power_of_two"]
        found = range_for_function(histogram, (kept.min, kept.max), spec, function.compute, least)
        if found is not None:
            fitted[name] = replace(kept, min=found.low, max=found.high)
            cut[name] = found.sqnr
    return FittedRanges(fitted, cut)


def notes_of_cuts(functions: Mapping[str, ScalarFunction], cut: Iterable[str]) -> list[str]:
    """Returns the sentence that counts the functions of tensors of which an end was cut, if there are any."""
    counts = Counter(functions[name].name for name in cut)
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return (
        [f"ranges end where the function that reads them is flat, as its results lose least: {words}"] if words else []
    )


def _is_narrow(spec: TensorSpec) -> bool:
    """Whether a step of codes is wider than a bin of a histogram."""
    return spec.format.is_integer and spec.format.bits <= 8
