"""The step that stores weights in 16 bits whose 8 take too much from the outputs, where activations stay float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quarkfast.config.rules import Change
from quarkfast.graph.access import array_of_tensor
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.weight_precision_steps import MOST_TRIED, choose_form_if_run, note_of
from quarkfast.quantization import FloatBias
from quarkfast.quantization.weight_precision import Form, expected_noise
from quarkfast.reconstruction import linear_layers

if TYPE_CHECKING:
    from quarkfast.quantization.weight_only import CodedWeight

__all__ = ["widen_weights"]

_WIDE = Form("16 bits", Change.of({"dtype": "float16"}, "weights"), is_free=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """A weight that is stored as codes or in 16 bits, and the biases that were moved for its codes."""

    name: str
    axis: int
    values: NDArray[np.float32]
    coded: CodedWeight
    moved: Mapping[str, FloatBias]

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """What these were."""
        return {name: array_of_tensor(bias.values) for name, bias in self.moved.items()}

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns what the codes stand for; what 16 bits do where there is a change, as there is but one."""
        from quarkfast.quantization.weight_only import widened  # as its steps are imported

        return self.coded.decoded() if change is None else widened(self.values)

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns the moved biases; what they were where the weight has 16 bits."""
        return {name: bias.decoded() for name, bias in self.moved.items()} if change is None else self.companions


def widen_weights(context: Context) -> bool:
    """Stores those weights as float16 that cost the outputs most, where all weights leave them less than 25 dB.

    They are a quarter of the bytes at the most, and outputs have half of the noise with them
    (`quarkfast.quantization.weight_precision.choose_forms`). Their biases are what they were.
    """
    if sum(each.values.nbytes for each in context.weight_plan.coded(context.scheme).values()) > MOST_TRIED:
        return False
    weights = _stored(context)
    choice = choose_form_if_run(context, weights, _WIDE)
    if choice is not None:
        names = choice.names.get(_WIDE.name, ())
        biases = [bias for each in weights if each.name in names for bias in each.moved]
        context.weight_plan = context.weight_plan.with_wide(names, biases)
        otherwise = "16 bits for a quarter of them would not halve the noise"
        context.notes.append(note_of(context, choice, len(weights), otherwise))
    return False


def _stored(context: Context) -> list[_Stored]:
    """Returns the weights that layers multiply by in the scheme's own form, those that lose most by it first."""
    own = {rule.tensor for rule in context.scheme.tensors}
    moved, of_weight = context.weight_plan.moved, dict[str, dict[str, FloatBias]]()
    for layer in linear_layers(context.model, added=True):
        if layer.bias is not None and layer.bias in moved:
            of_weight.setdefault(layer.weight, {})[layer.bias] = moved[layer.bias]
    found = [
        _Stored(name, 0, array_of_tensor(each.values), each, of_weight.get(name, {}))
        for name, each in context.weight_plan.coded(context.scheme).items()
        if name not in own and each.planned.slot.spec == context.scheme.weight
    ]
    return sorted(found, key=lambda each: expected_noise(each.values), reverse=True)
