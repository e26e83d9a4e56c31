"""The finished decision about a model: where quantization goes, every quantizer, and the codes of every constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import tensor_of
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Placement, Quantizer, Quantizers
from quarkfast.quantization.float_bias import FloatBias
from quarkfast.quantization.quantized_tensor import QuantizedBlocks, QuantizedTensor

__all__ = ["Plan", "make_plan"]


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
