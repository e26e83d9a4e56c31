"""The plan of stored weights: a placement with lazy streams of codes, and codes that an algorithm has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.config import Change, Scheme, TensorSpec
from quarkfast.deferred import ir
from quarkfast.formats.scalar import ScalarFormat, qtype
from quarkfast.graph.access import name_of, shape_of, tensor_of
from quarkfast.graph.chunked_io import Append, Stream
from quarkfast.quantization.bias import FloatBias
from quarkfast.quantization.weight_only.codes import channel_stream, group_stream
from quarkfast.quantization.weight_only.layout import cast_stream
from quarkfast.quantization.weight_only.nbits import nbits_stream
from quarkfast.quantization.weight_only.place import StoredWeight, WeightPlacement, place_weights

__all__ = ["CodedWeight", "StreamedWeight", "WeightPlan", "plan_weights"]


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


@dataclass(frozen=True)
class CodedWeight:
    """Codes, scales and zero points of a stored weight, each for each of its values.

    Attributes:
        planned: The weight with the stream that makes its codes.
        packed: Whether they lie as MatMulNBits reads them.
    """

    planned: StreamedWeight
    packed: bool

    @property
    def values(self) -> ir.TensorProtocol:
        """The weight in floating point."""
        return tensor_of(self.planned.slot.value)

    @property
    def _spec(self) -> TensorSpec:
        return self.planned.slot.spec

    @property
    def is_integer(self) -> bool:
        """Whether codes are integers: 16-bit floats are none."""
        return self.planned.slot.has_codes

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the weight."""
        return shape_of(self.values)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest code."""
        return int(self._row.qmin), int(self._row.qmax)

    @property
    def _row(self) -> ScalarFormat:
        """The type of the codes: those that MatMulNBits reads have no sign."""
        own = qtype(self._spec.dtype)
        return qtype(f"uint{own.stored_bits}") if self.packed else own

    @cached_property
    def _parts(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Codes of the shape of the weight, and scales and zero points of its channels or groups."""
        made = [self.planned.codes.made(index).numpy() for index in range(len(self.planned.codes.outputs))]
        if self.packed:
            return self._unpacked(*made)
        codes, scale = (np.asarray(each) for each in made[:2])
        zero = np.asarray(made[2], np.int64) if len(made) > 2 else np.zeros(scale.shape, np.int64)
        dtype = np.uint8 if self.limits[0] == 0 else np.int8
        return codes.astype(dtype), scale, zero

    def _unpacked(
        self, weight: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        blocks, size, bits = weight.shape[1], self._spec.group_size, self._row.stored_bits
        if zero is None:  # the operator's own: the middle code, of 4 bits in each half of a byte
            zero = np.full(weight.shape[0] * -(-blocks * bits // 8), 0x88 if bits == 4 else 0x80, np.uint8)
        packed = kernels.MatMulNBits(weight, scale, zero)
        turned = self.planned.slot.axis == 1
        inputs = self.shape[1 if turned else 0]
        codes, scales, zeros = kernels.unpack_matmul_nbits(packed, inputs, block_size=size, bits=bits)
        return (codes.T, scales.T, zeros.T) if turned else (codes, scales, zeros)

    def encoded(self) -> NDArray[Any]:
        """Returns the codes, int8 or uint8."""
        return self._parts[0]

    @property
    def scales(self) -> NDArray[np.float64]:
        """The scale of each value, perhaps below zero."""
        return self._spread(self._parts[1]).astype(np.float64)

    def decoded(self) -> NDArray[np.float32]:
        """Returns what the codes stand for: code minus zero point, times scale."""
        offsets = self._parts[0].astype(np.float32) - self._spread(self._parts[2]).astype(np.float32)
        values: NDArray[np.float32] = offsets * self._spread(self._parts[1]).astype(np.float32)
        return values

    @property
    def scaled_inputs(self) -> int:
        """Weights along the sum that share a scale of their own, which may be another; 0 where scales are given."""
        spec = self._spec
        grouped = self.is_integer and spec.granularity == "group"
        return spec.group_size if grouped and qtype(spec.dtype).stored_bits == 4 else 0

    def with_codes(self, codes: NDArray[Any], scales: NDArray[np.float64] | None = None) -> CodedWeight:
        """Returns the weight with other codes of its shape, and the same zero points.

        Args:
            codes: The codes.
            scales: A scale for each weight, those of a group alike, that float32 holds; None keeps the scales.
        """
        stream = self.planned.codes
        rest = [np.asarray(stream.made(index).numpy()) for index in range(1, len(stream.outputs))]
        if scales is not None:
            rest[0] = self._gathered(scales).astype(np.float32).reshape(rest[0].shape)
        stored = self._stored(codes)

        def run(append: Append) -> None:
            append(0, stored)
            for index, (output, array) in enumerate(zip(stream.outputs[1:], rest, strict=True), 1):
                append(index, kernels.pack_codes(array) if output.dtype.bitwidth == 4 else array)

        return replace(self, planned=replace(self.planned, codes=Stream(stream.outputs, run)))

    def _stored(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Returns the bytes of codes as the stream has them."""
        if not self.packed:
            return self._in_bytes(codes)
        turned = self.planned.slot.axis == 1
        columns = codes if turned else codes.T
        found, size = self._parts, self._spec.group_size
        missing = -columns.shape[1] % size
        zeros = found[2][:, -1:] if turned else found[2].T[:, -1:]
        filled = np.concatenate([columns, np.repeat(zeros, missing, axis=1)], axis=1)
        return self._in_bytes(np.ascontiguousarray(filled))

    def _in_bytes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Returns codes as they lie in memory, those of 4 bits two to a byte."""
        nibbles = self._row.stored_bits == 4
        return kernels.pack_codes(codes.astype(self._row.dtype)) if nibbles else np.ascontiguousarray(codes)

    def _gathered(self, scales: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the scale of each group, in the order in which they are stored."""
        axis = self.planned.slot.axis
        assert axis is not None
        own = scales.take(np.arange(0, self.shape[axis], self._spec.group_size), axis=axis)
        return own.T if self.packed and axis == 0 else own

    def _spread(self, parts: NDArray[Any]) -> NDArray[Any]:
        """Returns one number for each value of the weight."""
        axis, shape = self.planned.slot.axis, self.shape
        if parts.ndim == len(shape) and axis is not None:
            size = self._spec.group_size
            return np.repeat(parts, size, axis=axis).take(np.arange(shape[axis]), axis=axis)
        if parts.size == 1:
            return np.broadcast_to(parts.reshape(()), shape)
        assert axis is not None
        return np.broadcast_to(parts.reshape([-1 if at == axis else 1 for at in range(len(shape))]), shape)
