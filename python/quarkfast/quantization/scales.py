"""Scales of activations: from ranges that hold something, and that tensors share, to a scale and a zero point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import kernels, qparams
from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of, is_standard, name_of
from quarkfast.graph.placement import ConstantSlot, Edge, Placement, Quantizer
from quarkfast.kernels import Range
from quarkfast.qparams import QParams
from quarkfast.ranges.estimate import estimate_range, needs_histogram
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import ValuesSummary

__all__ = ["count_flat", "quantizer_for_range", "quantizer_for_values", "share_ranges", "unit_quantizer"]

_KINDS = ("activation of zeros", "activation of one value", "weight of zeros", "channel of zeros")


def count_flat(model: ir.Model, placement: Placement, seen: Mapping[str, Range]) -> tuple[str, ...]:
    """Returns a sentence that counts such tensors, or none.

    They get finite scales all the same: zeros scale 1, one value the scale that it fills the codes with, and a channel
    of zeros the largest scale of its tensor. Many of them hint at data that does not exercise the model.

    Args:
        model: The prepared model.
        placement: What is quantized.
        seen: What calibration saw of the activations.
    """
    found = [seen[name] for name in placement.observed if name in seen]
    counts = Counter(dict.fromkeys(_KINDS, 0))
    counts["activation of zeros"] = sum(each.min == each.max == 0 for each in found)
    counts["activation of one value"] = sum(each.min == each.max != 0 for each in found)
    for kind, count in _constants(model, placement):
        counts[kind] += count
    plural = {kind: kind.replace(" of", "s of", 1) for kind in _KINDS}
    counted = ", ".join(f"{count} {kind if count == 1 else plural[kind]}" for kind, count in counts.items() if count)
    return (f"flat tensors: {counted}; their scales are finite, and arbitrary",) if counted else ()


def _constants(model: ir.Model, placement: Placement) -> Iterator[tuple[str, int]]:
    for slot in placement.constants:
        values = array_of(model.graph.initializers[slot.tensor])
        if slot.role != "weight" or not slot.spec.needs_range or not values.size:
            continue
        if not values.any():
            yield "weight of zeros", 1
        elif slot.axis is not None:
            others = tuple(axis for axis in range(values.ndim) if axis != slot.axis % values.ndim)
            yield "channel of zeros", int((~values.any(axis=others)).sum())


Member: TypeAlias = str | ConstantSlot


def share_ranges(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], op_types: Collection[str]
) -> tuple[Placement, Mapping[str, Range], Mapping[ConstantSlot, tuple[float, float]]]:
    """Returns a placement and ranges in which the inputs of operators have the range of their output, and constants'.

    Where one tensor takes part in several, all of them have the widest range of their outputs. A tensor of another type
    or of other symmetry than the output, which cannot have its scale, keeps its own.

    Args:
        model: The prepared model.
        placement: What is quantized.
        ranges: What is kept of the activations.
        op_types: The operators, of the standard.
    """
    shared, constants, fixed = dict(ranges), dict[ConstantSlot, tuple[float, float]](), dict(placement.fixed)
    for members, results in _groups(model, placement, ranges, op_types):
        limits = [placement.fixed.get(name) or (ranges[name].min, ranges[name].max) for name in results]
        low, high = min(low for low, _ in limits), max(high for _, high in limits)
        for member in members:
            if isinstance(member, str):
                shared[member] = replace(ranges.get(member, ranges[results[0]]), min=low, max=high)
                fixed.pop(member, None)
            else:
                constants[member] = low, high
    return replace(placement, fixed=fixed), shared, constants


def _groups(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], op_types: Collection[str]
) -> list[tuple[list[Member], list[str]]]:
    """Returns the activations and constants that have one range, with those among them that decide it."""
    slots = {edge: slot for slot in placement.constants for edge in slot.edges}
    groups: dict[Member, list[Member]] = {}
    results: dict[str, None] = {}
    for node in model.graph:
        if not is_standard(node) or node.op_type not in op_types or name_of(node) not in placement.quantized:
            continue
        result = placement.activations.get(name_of(node.outputs[0]))
        found = None if result is None else ranges.get(result)
        if result is None or found is None or found.min > found.max:
            continue
        operands = [
            slots.get(Edge(name_of(node), index)) or placement.activations.get(name_of(value))
            for index, value in enumerate(node.inputs)
        ]
        spec = placement.specs[result]
        members = [result, *(each for each in operands if each is not None and _same(each, spec, placement))]
        merged = list(dict.fromkeys(each for member in members for each in groups.get(member, [member])))
        groups |= dict.fromkeys(merged, merged)
        results[result] = None
    return [
        (group, [each for each in group if isinstance(each, str) and each in results])
        for group in {id(each): each for each in groups.values()}.values()
    ]


def _same(member: Member, spec: TensorSpec, placement: Placement) -> bool:
    own = placement.specs[member] if isinstance(member, str) else member.spec
    return (own.dtype, own.symmetric, own.scale) == (spec.dtype, spec.symmetric, spec.scale)


def unit_quantizer(spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns scale 1 and zero point 0: how 16-bit floats are written as a pair, and block formats along `axis`."""
    return Quantizer(spec.dtype, np.ones((), np.float32), np.zeros((), np.int64), axis)


def quantizer_for_range(minimum: ArrayLike, maximum: ArrayLike, spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns the quantizer that maps ``[minimum, maximum]`` onto the codes of `spec`.

    Args:
        minimum: Least finite value, a scalar or one for each channel; above `maximum` where there was none.
        maximum: Greatest finite value, of the same shape.
        spec: A type with a scale.
        axis: Axis of the channels.

    Source:
        Integers: :func:`quarkfast.qparams.from_range`; a range without values is one of zero alone, which has scale 1.
        Floats: the largest magnitude becomes 2 (bfloat16), 65504 (float16) or the largest float8, as in Quark (its
        specification, section 3.5).

    Example:
        >>> q = quantizer_for_range(-1.0, 3.0, TensorSpec("uint8", symmetric=False))
        >>> float(q.scale), int(q.zero_point)
        (0.01568627543747425, 64)
    """
    if not spec.format.is_integer:
        return _float_quantizer(minimum, maximum, spec, axis)
    low, high = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    empty = low > high
    return _quantizer(params_for(np.where(empty, 0.0, low), np.where(empty, 0.0, high), spec), spec, axis)


def quantizer_for_values(values: NDArray[np.float32], spec: TensorSpec, axis: int | None = None) -> Quantizer:
    """Returns the quantizer for values that are all at hand: a weight.

    Args:
        values: Finite, any shape.
        spec: A type with a scale, and a method; power-of-two scales of least squared error are searched over the values
            themselves, other methods that read histograms get one of each channel.
        axis: Axis of the channels, or None for one scale.
    """
    if not values.size:
        return quantizer_for_range(0.0, 0.0, spec)
    if METHODS[spec.method].searches_constants and spec.scale == "power_of_two":
        low, high = _extremes(values, axis)
        params = qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
        return _quantizer(qparams.search_power_of_two(values, params, axis=axis or 0), spec, axis)
    if not needs_histogram(spec):
        return quantizer_for_range(*_extremes(values, axis), spec, axis)
    if axis is None:
        return quantizer_for_range(*_kept(values, spec), spec)
    low, high = zip(*(_kept(channel, spec) for channel in np.moveaxis(values, axis, 0)), strict=True)
    return quantizer_for_range(low, high, spec, axis)


def _extremes(values: NDArray[np.float32], axis: int | None) -> tuple[Any, Any]:
    others = None if axis is None else tuple(each for each in range(values.ndim) if each != axis)
    return values.min(axis=others), values.max(axis=others)


def _kept(values: NDArray[np.float32], spec: TensorSpec) -> tuple[float, float]:
    if values.size == 1:
        return _kept_of_number(float(values.item()), spec)
    return estimate_range(ValuesSummary(kernels.histogram(values)), spec, "weight")


@lru_cache(maxsize=256)
def _kept_of_number(value: float, spec: TensorSpec) -> tuple[float, float]:
    """Returns the range to keep of a constant with one value: a graph has the same few numbers over and over."""
    return estimate_range(ValuesSummary(kernels.histogram(np.array([value], np.float32))), spec, "weight")


def _float_quantizer(minimum: ArrayLike, maximum: ArrayLike, spec: TensorSpec, axis: int | None) -> Quantizer:
    low, high = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    absmax = np.where(low > high, 0.0, np.maximum(np.abs(low), np.abs(high)))
    scale = np.where(absmax == 0, 1.0, absmax / qtype(spec.dtype).scaled_max).astype(np.float32)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    return Quantizer(spec.dtype, scale, np.zeros(scale.shape, np.int64), axis)


def _quantizer(params: QParams, spec: TensorSpec, axis: int | None) -> Quantizer:
    return Quantizer(spec.dtype, params.scale, params.zero_point.astype(np.int64), axis, params.qmin, params.qmax)
