"""The step that stores weights in more bits that take too much from the outputs, where activations stay float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.config import Scheme
from quarkfast.config.rules import Change
from quarkfast.graph.access import array_of_tensor
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.weight_precision_steps import MOST_TRIED, choose_forms_if_run, note_of
from quarkfast.quantization import FloatBias
from quarkfast.quantization.weight_precision import Form, expected_noise
from quarkfast.reconstruction import linear_layers

if TYPE_CHECKING:
    from quarkfast.quantization.weight_only import CodedWeight, WeightPlan

__all__ = ["forms_of_stored", "widen_weights"]

_WIDE = Form("16 bits", Change.of({"dtype": "float16"}, "weights"), is_free=False)

# From this release on ONNX Runtime computes MatMulNBits with codes of 8 bits on CPUs.
_PACKED_BYTES = (1, 23)


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """A weight that is stored as codes or in more bits, and the biases that were moved for its codes."""

    name: str
    axis: int
    values: NDArray[np.float32]
    coded: CodedWeight
    moved: Mapping[str, FloatBias]
    plan: WeightPlan
    scheme: Scheme

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """What these were."""
        return {name: array_of_tensor(bias.values) for name, bias in self.moved.items()}

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns what the codes stand for; what those of another form do where there is a change."""
        from quarkfast.quantization.weight_only import CodedWeight, cast_values  # as its steps are imported

        if change is None:
            return self.coded.decoded()
        changed = self.plan.changed(self.coded.planned, change, self.scheme)
        if not changed.slot.has_codes:
            return cast_values(self.values, changed.slot.spec.dtype)
        return CodedWeight(changed, self.coded.packed).decoded()

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns the moved biases; what they were where the weight has another form."""
        return {name: bias.decoded() for name, bias in self.moved.items()} if change is None else self.companions


def widen_weights(context: Context) -> bool:
    """Stores those weights in more bits that cost the outputs most, where all weights leave them less than 25 dB.

    Of fewer bits than 8 they have 8, as many as it takes; float16 are a quarter of the bytes at the most, and outputs
    have half of the noise with them (`quarkfast.quantization.weight_precision.choose_forms`). Their biases are what
    they were.
    """
    scheme = context.scheme
    if sum(each.values.nbytes for each in context.weight_plan.coded(scheme).values()) > MOST_TRIED:
        return False
    weights = _stored(context)
    choice = choose_forms_if_run(context, weights, forms_of_stored(scheme))
    if choice is not None:
        changes = {rule.tensor: rule.change for rule in choice.rules}
        biases = [bias for each in weights if each.name in changes for bias in each.moved]
        context.weight_plan = context.weight_plan.with_forms(changes, scheme, biases)
        otherwise = "16 bits for a quarter of them would not halve the noise"
        context.notes.append(note_of(context, choice, len(weights), otherwise))
    return False


def forms_of_stored(scheme: Scheme) -> list[Form]:
    """Returns what weights may have in place of their codes, the cheapest first.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> [form.name for form in forms_of_stored(PRESETS["INT4_WO"])]
        ['8 bits', '16 bits']
        >>> [form.name for form in forms_of_stored(PRESETS["INT8_WO"])]
        ['16 bits']
    """
    weight, packed = scheme.weight, scheme.encoding == "nbits"
    if weight.format.bits >= 8 or (packed and not _packs_bytes()):
        return [_WIDE]
    dtype = "int8" if weight.format.signed else "uint8"
    return [Form("8 bits", Change.of({"dtype": dtype, "symmetric": weight.symmetric}, "weights"), is_free=False), _WIDE]


def _packs_bytes() -> bool:
    return tuple(map(int, ort.runtime_version().split(".")[:2])) >= _PACKED_BYTES


def _stored(context: Context) -> list[_Stored]:
    """Returns the weights that layers multiply by in the scheme's own form, those that lose most by it first."""
    scheme, plan = context.scheme, context.weight_plan
    own, of_weight = {rule.tensor for rule in scheme.tensors}, dict[str, dict[str, FloatBias]]()
    for layer in linear_layers(context.model, added=True):
        if layer.bias is not None and layer.bias in plan.moved:
            of_weight.setdefault(layer.weight, {})[layer.bias] = plan.moved[layer.bias]
    found = [
        _Stored(name, 0, array_of_tensor(each.values), each, of_weight.get(name, {}), plan, scheme)
        for name, each in plan.coded(scheme).items()
        if name not in own and each.planned.slot.spec == scheme.weight
    ]
    return sorted(found, key=lambda each: expected_noise(each.values), reverse=True)
