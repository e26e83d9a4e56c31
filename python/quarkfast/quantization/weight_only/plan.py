"""A placement of stored weights with their codes, none of which is computed before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quarkfast.config import Change, Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of, tensor_of
from quarkfast.graph.chunked_io import Stream
from quarkfast.quantization.float_bias import FloatBias
from quarkfast.quantization.weight_only.casts import cast_stream
from quarkfast.quantization.weight_only.coded import CodedWeight
from quarkfast.quantization.weight_only.codes import channel_stream, group_stream
from quarkfast.quantization.weight_only.nbits import nbits_stream
from quarkfast.quantization.weight_only.place import StoredWeight, WeightPlacement, place_weights

__all__ = ["StreamedWeight", "WeightPlan", "plan_weights"]


@dataclass(frozen=True, slots=True, eq=False)
class StreamedWeight:
    """A weight, and its narrow form as a lazy stream.

    Attributes:
        slot: The weight and who reads it.
        codes: Makes codes, scales and zero points, or the 16-bit floats, from one pass over the weight. An algorithm
            that finds other codes replaces it by a stream with the same outputs.
    """

    slot: StoredWeight
    codes: Stream


@dataclass(frozen=True, slots=True, eq=False)
class WeightPlan:
    """Everything that is decided about the stored weights of a model.

    Attributes:
        placement: Which weights, and what stays as it is.
        weights: The weights with their codes, in the model's order.
        moved: Float biases that an algorithm moved, by name.
        notes: Gets sentences while the codes are computed.
    """

    placement: WeightPlacement
    weights: tuple[StreamedWeight, ...]
    moved: Mapping[str, FloatBias] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def coded(self, scheme: Scheme) -> dict[str, CodedWeight]:
        """Returns the float32 weights that layers multiply by, by name, none of whose codes is computed yet."""
        return {
            name_of(weight.slot.value): CodedWeight(weight, packed=scheme.encoding == "nbits")
            for weight in self.weights
            if weight.slot.value.dtype == ir.DataType.FLOAT and not weight.slot.gathered and weight.slot.has_codes
        }

    def with_coded(self, found: Mapping[str, CodedWeight | FloatBias]) -> WeightPlan:
        """Returns the plan with other codes for some weights, and with biases that moved."""
        moved = {name: each for name, each in found.items() if isinstance(each, FloatBias)}
        coded = {name: each for name, each in found.items() if isinstance(each, CodedWeight)}
        named = ((name_of(weight.slot.value), weight) for weight in self.weights)
        weights = tuple(
            coded[name].planned if name in coded and not weight.slot.gathered else weight for name, weight in named
        )
        return replace(self, weights=weights, moved={**self.moved, **moved})

    def with_forms(self, changes: Mapping[str, Change], scheme: Scheme, moved: Mapping[str, FloatBias]) -> WeightPlan:
        """Returns the plan with other forms of some weights, by name, and with those biases moved and no others."""
        weights = tuple(
            each if each.slot.gathered else self.changed(each, changes.get(name_of(each.slot.value)), scheme)
            for each in self.weights
        )
        placement = replace(self.placement, weights=[each.slot for each in weights])
        return replace(self, placement=placement, weights=weights, moved=moved)

    def changed(self, weight: StreamedWeight, change: Change | None, scheme: Scheme) -> StreamedWeight:
        """Returns a weight in another form, with its nearest codes; as it is without one."""
        if change is None:
            return weight
        slot = replace(weight.slot, spec=change.apply(weight.slot.spec))
        return StreamedWeight(slot, _codes(slot, scheme, self.notes))


def plan_weights(model: ir.Model, scheme: Scheme) -> WeightPlan:
    """Returns which weights of a prepared model are stored in the type of `scheme.weight`, and their codes.

    Raises:
        ConfigError: If the scheme names a node or an operator type that the model does not have.
        UnsupportedError: If no runtime has what turns weights back in the model's operator set.
    """
    placement, notes = place_weights(model, scheme), list[str]()
    weights = tuple(StreamedWeight(slot, _codes(slot, scheme, notes)) for slot in placement.weights)
    return WeightPlan(placement, weights, notes=notes)


def _codes(slot: StoredWeight, scheme: Scheme, notes: list[str]) -> Stream:
    tensor, stem, spec = tensor_of(slot.value), name_of(slot.value), slot.spec
    if not slot.has_codes:
        return cast_stream(tensor, stem, spec.dtype, notes)
    if scheme.encoding == "nbits" and not slot.gathered:
        return nbits_stream(tensor, stem, spec, transposed=slot.axis == 1)
    if spec.granularity == "group" and slot.axis is not None:
        return group_stream(tensor, stem, slot.axis, spec)
    return channel_stream(tensor, stem, slot.axis, spec)
