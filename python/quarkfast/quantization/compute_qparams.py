"""Quantizers of a placement: every scale decided once, the same for the same ranges, and what must be observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, array_of_tensor, tensor_of
from quarkfast.graph.placement import ConstantSlot, Placement, Quantizer, Quantizers
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import graphs_by_path, values_by_path
from quarkfast.kernels import Range
from quarkfast.quantization.attention_masks import limit_masks
from quarkfast.quantization.bias import bias_quantizer, raise_for_headroom, raised_note
from quarkfast.quantization.codes import codes_of
from quarkfast.quantization.place import place_graph
from quarkfast.quantization.portable_weights import channel_axes, integer_layers, is_portable, make_portable, overflows
from quarkfast.quantization.scales import (
    count_flat,
    quantizer_for_range,
    quantizer_for_values,
    share_ranges,
    unit_quantizer,
)
from quarkfast.quantization.sum_scales import round_terms_once
from quarkfast.targets import Target

__all__ = [
    "KnownConstant",
    "compute_qparams",
    "constant_quantizer",
    "needs_ranges",
    "observed_channels",
    "observed_tensors",
]


class KnownConstant(NamedTuple):
    """The quantizer of a constant, before those of others change it.

    Attributes:
        tensor: The constant.
        limit: The range that it has otherwise than by its values, or None.
        quantizer: The quantizer.
    """

    tensor: ir.TensorProtocol
    limit: tuple[float, float] | None
    quantizer: Quantizer


def needs_ranges(scheme: Scheme) -> bool:
    """Whether any activation of `scheme` may have a scale, so that data is needed."""
    if scheme.encoding == "dynamic":
        return False
    rules = [change for rule in scheme.layers for change in (rule.activation, rule.output) if change is not None]
    changed = [change.apply(scheme.activation) for change in (*rules, *(rule.change for rule in scheme.tensors))]
    return any(spec.needs_range for spec in (scheme.activation, *changed))


def compute_qparams(
    model: ir.Model,
    placement: Placement,
    scheme: Scheme,
    target: Target,
    ranges: Mapping[str, Range],
    seen: Mapping[str, Range] | None = None,
    channel_absmax: Mapping[str, NDArray[np.float32]] | None = None,
    known: dict[ConstantSlot, KnownConstant] | None = None,
) -> Quantizers:
    """Returns the quantizer of every slot of `placement`.

    1. An activation takes its range from the operator's definition, from the constant it moves, or from `ranges`; where
       an operator that stays float bounds it, from `ranges` only if they end below half of that.
    2. A weight takes its own extremes, per channel where its slot has an axis. A channel of zeros takes the largest
       scale of its tensor: any scale is exact, and this one leaves its bias precise.
    3. An attention mask reaches no further down than it needs to (`quarkfast.quantization.attention_masks`).
    4. The inputs of an operator whose scales the target joins take the range of its output
       (`quarkfast.quantization.scales`).
    5. A term of a sum that power-of-two scales would round twice takes the scale of the result
       (`quarkfast.quantization.sum_scales`), unless the scheme is strict.
    6. Where a portable scheme asks for it, weights leave sums in 16 bits (`quarkfast.quantization.portable_weights`).
    7. Where ``bias / (s_x * s_w)`` would leave int32, ``s_w`` is raised until it fits, and a note says so.
    8. Tensors that say nothing about a scale are counted (`quarkfast.quantization.scales`).

    Args:
        model: The prepared model, for the values of its constants.
        placement: What to quantize.
        scheme: The specs.
        target: Whether processor kernels run the result.
        ranges: What a method keeps of each tensor of ``placement.observed``; not needed for float types.
        seen: What calibration saw of them, which tells masks; `ranges` by default.
        channel_absmax: The largest magnitude of each channel of activations, where calibration gathered it.
        known: The quantizers of constants by themselves that an earlier call left here, for one with other ranges.
    """
    notes, initializers = list[str](), model.graph.initializers
    if needs_ranges(scheme):
        ranges, masks = limit_masks(model, placement, ranges, seen or ranges)
        notes.extend(masks)
    placement, ranges, joined = share_ranges(model, placement, ranges, target.one_range)
    known = {} if known is None else known
    for slot in placement.constants:
        limit = joined.get(slot) or _limit(slot.tensor, placement, ranges)
        _know(known, slot, tensor_of(initializers[slot.tensor]), limit)
    constants = {slot: known[slot].quantizer for slot in placement.constants}
    moved = {slot.tensor: quantizer for slot, quantizer in constants.items() if slot.role == "activation"}
    quantizers = {
        root: moved.get(root) or _activation_quantizer(root, placement, ranges, notes)
        for root in dict.fromkeys(placement.activations.values())
    }
    if not scheme.strict:
        tied = {*target.one_range, *target.one_scale}
        quantizers = round_terms_once(model, placement, quantizers, constants, tied)
    activations = {tensor: quantizers[root] for tensor, root in placement.activations.items()} | moved
    constants, reductions = make_portable(
        model, placement, scheme, target, constants, activations, channel_absmax or {}
    )
    slots = {edge: slot for slot in constants for edge in slot.edges}
    raised = []
    for bias in placement.biases:
        if bias.weight in slots:
            slot, values = slots[bias.weight], array_of(initializers[bias.tensor])
            data, had = activations[bias.data], constants[slot]
            constants[slot] = raise_for_headroom(had, data, values, bias.bits, slot.spec.scale)
            raised += [bias] if constants[slot] is not had else []
    notes.extend(raised_note(raised))
    biases = []
    for bias in placement.biases:
        weight = constants[slots[bias.weight]] if bias.weight in slots else activations[bias.weight_tensor]
        channels, kind = array_of(initializers[bias.tensor]).size, scheme.weight.scale
        biases.append((bias, bias_quantizer(activations[bias.data], weight, channels, bias.bits, kind)))
    notes.extend(count_flat(model, placement, seen or ranges))
    slots_of = tuple(constants.items())
    return Quantizers(placement.activations, quantizers, slots_of, tuple(biases), tuple(notes), reductions)


def _know(
    known: dict[ConstantSlot, KnownConstant],
    slot: ConstantSlot,
    tensor: ir.TensorProtocol,
    limit: tuple[float, float] | None,
) -> None:
    """Makes sure that the quantizer of a constant by itself is known."""
    found = known.get(slot)
    if found is None or found.tensor is not tensor or found.limit != limit:
        known[slot] = KnownConstant(tensor, limit, constant_quantizer(slot, array_of_tensor(tensor), limit))


def _limit(tensor: str, placement: Placement, ranges: Mapping[str, Range]) -> tuple[float, float] | None:
    """Returns the range that a constant has otherwise than by its values: the user's, or that of a mask."""
    found = ranges.get(tensor)
    return placement.fixed.get(tensor, None if found is None else (found.min, found.max))


def _activation_quantizer(root: str, placement: Placement, ranges: Mapping[str, Range], notes: list[str]) -> Quantizer:
    spec = placement.specs[root]
    if not spec.needs_range:
        return unit_quantizer(spec)
    if root in placement.fixed:
        return quantizer_for_range(*placement.fixed[root], spec)
    found = ranges.get(root)
    if found is None or found.min > found.max:
        notes.append(f"tensor {root!r}: calibration saw no finite value; its scale is 1")
        return quantizer_for_range(0.0, 0.0, spec)
    if found.nan or found.pos_inf or found.neg_inf:
        infinite = found.pos_inf + found.neg_inf
        notes.append(f"tensor {root!r}: {found.nan} NaN and {infinite} infinite values were left out of its range")
    bounds = placement.bounds.get(root)
    if bounds is not None and 2 * found.max >= bounds[1]:  # at most one bit for what other data may hold
        return quantizer_for_range(*bounds, spec)
    return quantizer_for_range(found.min, found.max, spec)


def constant_quantizer(slot: ConstantSlot, values: NDArray[np.float32], limit: tuple[float, float] | None) -> Quantizer:
    """Returns the quantizer of a constant by its values, or by the range that it has otherwise."""
    spec = slot.spec
    if not spec.needs_range:
        return unit_quantizer(spec, slot.axis if spec.is_block else None)
    if limit is not None:
        return quantizer_for_range(*limit, spec)
    quantizer = quantizer_for_values(values, spec, slot.axis)
    if slot.axis is None:
        return quantizer
    dead = ~values.any(axis=tuple(axis for axis in range(values.ndim) if axis != slot.axis))
    if dead.any() and not dead.all():
        scale = np.where(dead, quantizer.scale[~dead].max(), quantizer.scale)
        quantizer = replace(quantizer, scale=scale.astype(np.float32))
    return quantizer


_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def observed_tensors(model: ir.Model, schemes: Sequence[tuple[Scheme, Target]]) -> list[str]:
    """Returns the tensors that any of `schemes` would quantize, by path and in the model's order.

    1. Models in float16 and bfloat16 are looked at as they are, though no rule quantizes them yet.
    2. The bodies of If, Loop and Scan stay float; the same rules tell what there is to see in them.
    3. A tensor that a body reads from around it belongs to the graph that makes it.

    Args:
        model: A prepared model.
        schemes: Those whose activations have scales, each with its target.
    """
    made, paths = values_by_path(model), [path for path, _ in graphs_by_path(model.graph)]
    wanted: set[str] = set()
    for scheme, target in schemes:
        choices = Choices(model, scheme)
        for path, graph in graphs_by_path(model.graph):
            around = [each for each in paths if path.startswith(each)]
            for name in place_graph(graph, scheme, target, choices, _FLOATS).observed:
                wanted.add(max((each + name for each in around if each + name in made), key=len, default=""))
    return [name for name, (value, _) in made.items() if name in wanted and not _is_constant_node(value)]


def observed_channels(
    model: ir.Model, placement: Placement, scheme: Scheme, target: Target, whatever: bool = False
) -> dict[str, int]:
    """Returns the tensors that calibration should look at channel by channel, and the axis of the channels of each.

    They are what layers multiply whose sums may leave 16 bits; the largest magnitude of each channel decides it.

    Args:
        model: A prepared model.
        placement: Where pairs go.
        scheme: The specs.
        target: Whether processor kernels run the result.
        whatever: Whether to name the tensors of all layers, for a calibration that goes with any options.
    """
    if not is_portable(scheme, target) or scheme.encoding == "dynamic":
        return {}
    layers = list(integer_layers(model, placement, scheme))
    known: dict[ConstantSlot, bool] = {}
    for layer in layers if not whatever else ():
        if layer.slot not in known:
            values = array_of(model.graph.initializers[layer.slot.tensor])
            quantizer = constant_quantizer(layer.slot, values, placement.fixed.get(layer.slot.tensor))
            known[layer.slot] = overflows(layer, codes_of(values, quantizer))
    axes = channel_axes(layers)
    return {layer.data: axes[layer.data] for layer in layers if layer.data in axes and (whatever or known[layer.slot])}


def _is_constant_node(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Constant"
