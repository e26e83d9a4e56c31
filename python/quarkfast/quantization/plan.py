"""The plan: a placement, and a quantized tensor (quantizer and codes) for every slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.formats.block import BLOCK_FORMATS, BlockFormat, Rounding
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of_tensor, shape_of, tensor_of
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Placement, Quantizer, Quantizers
from quarkfast.quantization.bias import FloatBias
from quarkfast.quantization.block_codes import pack, rounded, unclipped
from quarkfast.quantization.codes import codes_of, codes_of_tensor, decode, fit_codes, limited, scale_along

__all__ = ["Plan", "QuantizedBlocks", "QuantizedTensor", "make_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """A constant as codes of a scalar type.

    An algorithm that finds better codes than the nearest ones gives them with ``dataclasses.replace(tensor,
    codes=...)``; a constraint that moves the scale replaces the quantizer, and the nearest codes follow.

    Attributes:
        quantizer: Type, scale and zero point.
        values: The constant in floating point.
        codes: Codes of the shape of `values` in the NumPy dtype of the type; None for the nearest ones, which are
            computed anew for each call of :meth:`encoded`, so that no more than one constant's are in memory.

    Example:
        >>> import numpy as np, onnx_ir as ir
        >>> from dataclasses import replace
        >>> quantizer = Quantizer("int8", np.float32(0.5), np.int64(0))
        >>> tensor = QuantizedTensor(quantizer, ir.tensor(np.float32([0.2, 1.0])))
        >>> tensor.encoded().tolist(), replace(tensor, codes=np.int8([1, 2])).encoded().tolist()
        ([0, 2], [1, 2])
    """

    quantizer: Quantizer
    values: ir.TensorProtocol
    codes: NDArray[Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the constant."""
        return shape_of(self.values)

    @property
    def is_integer(self) -> bool:
        """Whether codes are integers."""
        return qtype(self.quantizer.dtype).is_integer

    def encoded(self) -> NDArray[Any]:
        """Returns the codes; the nearest ones are made piece by piece."""
        return codes_of_tensor(self.values, self.quantizer) if self.codes is None else self.codes

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest code of an integer type that may be used."""
        row, lowest, highest = qtype(self.quantizer.dtype), self.quantizer.qmin, self.quantizer.qmax
        return int(row.qmin if lowest is None else lowest), int(row.qmax if highest is None else highest)

    @property
    def scales(self) -> NDArray[np.float64]:
        """The scale of each value, a read-only view of the shape of `values`."""
        return np.broadcast_to(scale_along(self.quantizer, len(self.shape)).astype(np.float64), self.shape)

    def decoded(self) -> NDArray[np.float32]:
        """Returns what the codes stand for: code minus zero point, times scale, as float32.

        Each is the product of two float32 numbers, rounded once, as DequantizeLinear has it; int32 codes beyond 2^24
        are rounded twice.
        """
        if self.is_integer:
            return decode(self.encoded(), self.quantizer)
        return self.encoded().astype(np.float32) * scale_along(self.quantizer, len(self.shape))

    def with_codes(self, codes: NDArray[Any]) -> QuantizedTensor:
        """Returns the tensor with other codes; where pairs of codes must fit, they become smaller until they do."""
        if self.quantizer.pairs:
            codes = fit_codes(codes, decode(codes, self.quantizer), self.quantizer)
        return replace(self, codes=codes)

    def of_rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns what a float type holds nearest to `values`, of any shape; its scale is one for all."""
        codes: NDArray[np.float32] = codes_of(values, self.quantizer).astype(np.float32)
        return codes * np.float32(self.quantizer.scale)

    def with_nearest(self, values: NDArray[np.float32]) -> QuantizedTensor:
        """Returns the tensor with the codes nearest to `values`; its own values stay what they were."""
        return replace(self, codes=codes_of(values, self.quantizer))

    def representable(self) -> NDArray[np.float32]:
        """Returns float32 values that a pair of Q and DQ turns into the codes.

        They are the constant itself, within the limits of the type, where the nearest codes are taken, and what the
        codes stand for where an algorithm chose them or pairs of codes had to fit.
        """
        if self.codes is None and not self.quantizer.pairs:
            return limited(array_of_tensor(self.values), self.quantizer.dtype)
        return self.decoded()


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedBlocks:
    """A constant in a block format.

    Attributes:
        quantizer: The format, and the axis of its blocks.
        values: The constant in floating point.
        rounding: How the format rounds.
        codes: float32 values that the format holds exactly, of the shape of `values`; None for those of least error
            (`quarkfast.quantization.block_codes.unclipped`).
    """

    quantizer: Quantizer
    values: ir.TensorProtocol
    rounding: Rounding
    codes: NDArray[np.float32] | None = None

    @property
    def is_integer(self) -> bool:
        """Whether codes are integers with a scale."""
        return False

    @property
    def row(self) -> BlockFormat:
        """The format."""
        return BLOCK_FORMATS[self.quantizer.dtype]

    @property
    def axis(self) -> int:
        """Axis of the blocks."""
        return self.quantizer.axis or 0

    def decoded(self) -> NDArray[np.float32]:
        """Returns the float32 values that the format holds."""
        return rounded(self.representable()[0], self.row, self.axis, self.rounding)

    def of_rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns what the format holds nearest to `values`, ``[rows, places of a block]``."""
        floats = unclipped(values, self.row, 1, self.rounding)
        return rounded(floats, self.row, 1, self.rounding)

    def with_nearest(self, values: NDArray[np.float32]) -> QuantizedBlocks:
        """Returns the tensor with what the format holds nearest to `values`; its own values stay what they were."""
        floats = unclipped(values, self.row, self.axis, self.rounding)
        return replace(self, codes=rounded(floats, self.row, self.axis, self.rounding))

    def representable(self) -> tuple[NDArray[np.float32], bool]:
        """Returns float32 values that the format's operator rounds to the codes, and whether they are the constant."""
        if self.codes is not None:
            return self.codes, False
        given = array_of_tensor(self.values)
        floats = unclipped(given, self.row, self.axis, self.rounding)
        return floats, floats is given

    def packed(self, floats: NDArray[np.float32]) -> NDArray[np.uint8] | None:
        """Returns the records of what :meth:`representable` returned, or None where they do not pay."""
        return pack(floats, self.row, self.axis, self.rounding)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything that is decided about a model. Algorithms change it, writers spell it.

    Attributes:
        placement: Where quantization goes.
        quantizers: Tensor that gives its scale to activations -> its quantizer.
        constants: Weights and other constants, with their codes.
        biases: Biases, with their codes.
        moved: Float biases that an algorithm moved, by name.
    """

    placement: Placement
    quantizers: Mapping[str, Quantizer]
    constants: tuple[tuple[ConstantSlot, QuantizedTensor | QuantizedBlocks], ...]
    biases: tuple[tuple[BiasSlot, QuantizedTensor], ...]
    moved: Mapping[str, FloatBias] = field(default_factory=dict)

    @property
    def activations(self) -> Mapping[str, str]:
        """Tensor that gets a pair -> the tensor whose quantizer it takes, in the model's order."""
        return self.placement.activations

    def with_constant(self, slot: ConstantSlot, tensor: QuantizedTensor | QuantizedBlocks) -> Plan:
        """Returns the plan with other codes or another quantizer for one of its constants."""
        return replace(self, constants=tuple((each, tensor if each == slot else had) for each, had in self.constants))

    def with_tensors(self, tensors: Mapping[str, QuantizedTensor | FloatBias]) -> Plan:
        """Returns the plan with other codes for constants and biases, and with float biases that moved, by name.

        Where a constant has several forms, as of a table that a layer reads too, all of them are replaced.
        """
        moved = {name: each for name, each in tensors.items() if isinstance(each, FloatBias)}
        coded = {name: each for name, each in tensors.items() if not isinstance(each, FloatBias)}
        constants = tuple((slot, coded.get(slot.tensor, had)) for slot, had in self.constants)
        biases = tuple((slot, coded.get(slot.tensor, had)) for slot, had in self.biases)
        return replace(self, constants=constants, biases=biases, moved={**self.moved, **moved})


def make_plan(model: ir.Model, placement: Placement, quantizers: Quantizers, scheme: Scheme) -> Plan:
    """Returns the plan for a prepared model, with the nearest codes of every constant, none of which is computed yet.

    Args:
        model: The prepared model, whose constants the plan reads when codes are asked for.
        placement: Where quantization goes.
        quantizers: What `quarkfast.quantization.compute_qparams` found, within the constraints of the target.
        scheme: How block formats round.
    """

    def quantized(tensor: str, quantizer: Quantizer) -> QuantizedTensor:
        return QuantizedTensor(quantizer, tensor_of(model.graph.initializers[tensor]))

    def blocks(tensor: str, quantizer: Quantizer) -> QuantizedBlocks:
        return QuantizedBlocks(quantizer, tensor_of(model.graph.initializers[tensor]), scheme.block_rounding)

    constants = tuple(
        (slot, (blocks if quantizer.is_block else quantized)(slot.tensor, quantizer))
        for slot, quantizer in quantizers.constants
    )
    biases = tuple((slot, quantized(slot.tensor, quantizer)) for slot, quantizer in quantizers.biases)
    return Plan(placement, quantizers.quantizers, constants, biases)
