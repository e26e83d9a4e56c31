"""Ranges of bounded functions (Sigmoid, Softmax, ...), of which samples may show a part."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.operators import BOUNDED_JOINS, BOUNDED_STEPS, PACKERS
from quarkfast.graph.placement import Placement
from quarkfast.graph.scalar_functions import SCALAR_FUNCTIONS, find_scalar_functions
from quarkfast.kernels import Range

__all__ = ["BoundedResult", "bounded_results", "note_of_whole", "whole_ranges"]

Limits: TypeAlias = tuple[float, float]
Compute: TypeAlias = "Callable[[NDArray[np.float64]], NDArray[np.float64]]"

# Operators whose results have limits, with these, and what computes them from one number; a Softmax takes several.
_BOUNDED: Mapping[str, tuple[Limits, Compute | None]] = MappingProxyType(
    {
        "Cos": ((-1.0, 1.0), None),
        "Erf": ((-1.0, 1.0), np.vectorize(math.erf)),
        "HardSigmoid": ((0.0, 1.0), None),  # by its attributes
        "Sigmoid": ((0.0, 1.0), SCALAR_FUNCTIONS["Sigmoid"].compute),
        "Sin": ((-1.0, 1.0), None),
        "Softmax": ((0.0, 1.0), None),
        "Softsign": ((-1.0, 1.0), lambda x: x / (1 + np.abs(x))),
        "Tanh": ((-1.0, 1.0), SCALAR_FUNCTIONS["Tanh"].compute),
    }
)

# Functions that exporters write in parts.
_SIGMOIDS = ("HardSigmoid", "HardSigmoid of slope 0.2", "Sigmoid", "Sigmoid of -x")
_IN_PARTS = dict.fromkeys(_SIGMOIDS, (0.0, 1.0)) | {"Tanh": (-1.0, 1.0)}


# Below this share of the limits the summary tells that samples showed a part.
_LITTLE = 0.5

# Further from zero the function is taken for flat: a Sigmoid is 1 to within 2^-23.
_GRID = np.linspace(0.0, 16.0, 1025)


class BoundedResult(NamedTuple):
    """What a bounded function gives.

    Attributes:
        function: The name of the function.
        limits: The least and the largest value that it may have.
        entry: The tensor that it is a function of, where it is known what reaches the limits; otherwise empty.
        compute: The function there, or None.
        moved: Activations that hold the result where it is an output of the model, or is moved to one; None elsewhere.
    """

    function: str
    limits: Limits
    entry: str = ""
    compute: Compute | None = None
    moved: tuple[str, ...] | None = None


def bounded_results(model: ir.Model, placement: Placement) -> dict[str, BoundedResult]:
    """Returns what bounded functions give that is an activation, or an output of the model, also of functions in parts.

    Products, means and extremes of such results are bounded as well: a detector multiplies two scores.

    Args:
        model: The prepared model.
        placement: Where pairs go.
    """
    known = dict[ir.Value, BoundedResult]()
    for each in find_scalar_functions(model.graph):
        if each.function.name in _IN_PARTS and each.factor > 0:
            low, high = _IN_PARTS[each.function.name]
            reach = low * each.factor, high * each.factor
            entry, compute = name_of(each.entry), each.function.compute
            known[each.nodes[-1].outputs[0]] = BoundedResult(each.function.name, reach, entry, compute)
    for node in model.graph:
        if is_standard(node) and len(node.outputs) == 1 and node.outputs[0] not in known:
            found = _result_of(node, known)
            known |= {} if found is None else {node.outputs[0]: found}
    results, leading = dict[str, BoundedResult](), _leading_to_outputs(model.graph, known)
    for value, found in known.items():
        name, shown = name_of(value), value in leading
        if shown or placement.activations.get(name) == name:
            results[name] = found._replace(moved=_moved(value, leading, placement) if shown else None)
    return results


def _result_of(node: ir.Node, known: Mapping[ir.Value, BoundedResult]) -> BoundedResult | None:
    """Returns what is known of the result of a node, from that of what it reads."""
    if node.op_type in _BOUNDED:
        limits, compute = _BOUNDED[node.op_type]
        if node.op_type == "HardSigmoid":
            slope, offset = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
            compute = partial(_clipped_line, slope, offset)
        return BoundedResult(node.op_type, limits, "" if compute is None else name_of(node.inputs[0]), compute)
    values = [value for value in node.inputs if value is not None and not is_constant(value)]
    if node.op_type not in BOUNDED_STEPS or not values or not all(value in known for value in values):
        return None
    if node.op_type in BOUNDED_JOINS and len(values) < len(node.inputs):
        return None
    given = [known[value] for value in values]
    low, high = min(each.limits[0] for each in given), max(each.limits[1] for each in given)
    if node.op_type == "Mul" and not -1 <= low <= high <= 1:
        return None
    return BoundedResult(" and ".join(dict.fromkeys(each.function for each in given)), (low, high))


def _clipped_line(slope: float, offset: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(slope * x + offset, 0.0, 1.0)


def _leading_to_outputs(graph: ir.Graph, bounded: Collection[ir.Value]) -> set[ir.Value]:
    """Returns the outputs of the model, and what is only moved to them, or lies in front of bounded products of it."""
    found = set(graph.outputs)
    for node in reversed(graph):
        if not is_standard(node) or found.isdisjoint(node.outputs):
            continue
        if node.op_type in PACKERS or (node.op_type in BOUNDED_STEPS and bounded and node.outputs[0] in bounded):
            found |= {value for value in node.inputs if value is not None}
    return found


def _moved(value: ir.Value, leading: Collection[ir.Value], placement: Placement) -> tuple[str, ...]:
    """Returns the other activations that hold a tensor on its way to outputs."""
    roots, seen, waiting = dict[str, None](), set[ir.Value](), [value]
    while waiting:
        moved = waiting.pop()
        if moved in seen:
            continue
        seen.add(moved)
        roots[placement.activations.get(name_of(moved), "")] = None
        movers = (reader for reader, _ in moved.uses() if is_standard(reader) and reader.op_type in PACKERS)
        waiting += [output for reader in movers for output in reader.outputs if output in leading]
    return tuple(name for name in roots if name and name != name_of(value))


def whole_ranges(
    results: Mapping[str, BoundedResult],
    placement: Placement,
    ranges: Mapping[str, Range],
    seen: Mapping[str, Range],
    nothing: float,
) -> dict[str, Range]:
    """Returns the ranges of those activations that reach as far as the limits of what they hold.

    1. With 16 bits, and in float types, any result of a bounded function does.
    2. With 8 bits or fewer outputs of the model, and what is moved to them, of which samples showed
       nothing: no digits of what lies there make up for the rest. Others would lose digits for what may never come.
    3. Activations that outputs are moved to hold what these do, beside their own.
    4. What the function of such an output reads reaches as far as the function is not flat to within half a step of it,
       also where the function itself stays float.

    Ranges that the user or the operator gives stay.

    Args:
        results: From :func:`bounded_results`.
        placement: Where pairs go.
        ranges: What the methods keep, of results without headroom.
        seen: What calibration saw.
        nothing: The share of the limits below which samples showed nothing.
    """
    whole = dict[str, Range]()

    def reach(name: str, low: float, high: float) -> None:
        kept = whole.get(name, ranges.get(name))
        if kept is not None and kept.min <= kept.max and name not in placement.fixed:
            wider = replace(kept, min=min(low, kept.min), max=max(high, kept.max))
            if wider != kept:
                whole[name] = wider

    for name, result in results.items():
        entry = placement.activations.get(result.entry, "")
        spec = placement.specs.get(name, placement.specs.get(entry))
        if spec is None:
            continue
        share = _share(ranges.get(name), result, spec) if name in ranges else _share_by_input(seen.get(entry), result)
        if share is None:
            continue
        if _is_narrow(spec) and (result.moved is None or share >= nothing):
            continue
        for each in (name, *(result.moved or ())):
            reach(each, *result.limits)
        if result.moved is not None and result.compute is not None:
            reach(entry, *_ends(result.compute, int(spec.format.bits) if spec.format.is_integer else 8))
    return whole


def _is_narrow(spec: TensorSpec) -> bool:
    return spec.format.is_integer and spec.format.bits <= 8


def _share(kept: Range | None, result: BoundedResult, spec: TensorSpec) -> float | None:
    """Returns how much of the limits the codes of a range hold, which reach to zero in any case; None if not known."""
    if kept is None or kept.min > kept.max:
        return None
    ends = [(min(low, 0.0), max(high, 0.0)) for low, high in ((kept.min, kept.max), result.limits)]
    shown, whole = (max(-low, high) if spec.symmetric else high - low for low, high in ends)
    return shown / whole


def _share_by_input(seen: Range | None, result: BoundedResult) -> float | None:
    """Returns how much of the limits a function makes of what its input was; None if not known."""
    if seen is None or seen.min > seen.max or result.compute is None:
        return None
    low, high = result.limits
    return float(np.ptp(result.compute(np.array([seen.min, seen.max], np.float64)))) / (high - low)


def _ends(compute: Compute, bits: int) -> Limits:
    """Returns between which inputs a function is not yet flat: further on half a step of its results hides the rest."""
    half = float(np.ptp(compute(np.array([-_GRID[-1], _GRID[-1]])))) / (2**bits - 1) / 2
    ends = (side * _GRID[np.abs(compute(side * _GRID) - compute(side * _GRID[-1:])) <= half][0] for side in (-1.0, 1.0))
    low, high = map(float, ends)
    return low, high


def note_of_whole(
    results: Mapping[str, BoundedResult], placement: Placement, ranges: Mapping[str, Range], whole: Mapping[str, Range]
) -> list[str]:
    """Returns the sentences about results of 8 bits of whose limits samples showed little.

    Args:
        results: From :func:`bounded_results`.
        placement: Where pairs go.
        ranges: What the methods keep.
        whole: From :func:`whole_ranges`.
    """
    told: dict[bool, list[str]] = {True: [], False: []}
    for name, result in results.items():
        spec = placement.specs.get(name)
        if spec is None or name in placement.fixed or not _is_narrow(spec):
            continue
        share = _share(ranges.get(name), result, spec)
        if share is not None and share < _LITTLE:
            told[name in whole].append(f"{name!r} ({result.function}) {share:.2g}")
    return [f"{_TOLD[kept]}: {_listed(names)}" for kept, names in told.items() if names]


_TOLD = {
    True: "outputs reach over the whole range of bounded functions in 8 bits, too coarse for the little that samples "
    "showed of it (16 bits hold both)",
    False: "results of bounded functions saturate where samples ended, which showed so much of the whole range",
}


def _listed(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
