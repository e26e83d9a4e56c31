"""The step that stores weights in more bits that take too much from the outputs, where activations stay float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.algorithms.bias_correction import corrected_bias
from quarkfast.config import Scheme
from quarkfast.config.rules import Change
from quarkfast.formats import wider_integer
from quarkfast.graph.access import array_of_tensor
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.weight_precision_steps import choose_forms_if_run, note_of
from quarkfast.quantization import FloatBias
from quarkfast.quantization.weight_precision import Form, expected_noise
from quarkfast.reconstruction import LinearLayer, linear_layers

if TYPE_CHECKING:
    from quarkfast.quantization.weight_only import CodedWeight

__all__ = ["forms_of_stored", "widen_weights"]

_WIDE = Form("16 bits", Change.of({"dtype": "float16"}, "weights"), is_free=False)

# From this release on ONNX Runtime computes MatMulNBits with codes of 8 bits on CPUs.
_PACKED_BYTES = (1, 23)


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """A weight that is stored as codes or in more bits.

    Attributes:
        name: Name of the initializer.
        axis: The axis of its output channels.
        coded: The weight with the codes of the scheme's own form.
        layers: Its layers, by the names of the biases that were moved for these codes.
        context: What is known of the model.
    """

    name: str
    axis: int
    coded: CodedWeight
    layers: Mapping[str, LinearLayer]
    context: Context

    @property
    def values(self) -> NDArray[np.float32]:
        """Its values."""
        return array_of_tensor(self.coded.values)

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """What the biases were."""
        return {name: array_of_tensor(bias.values) for name, bias in self._moved.items()}

    @property
    def _moved(self) -> Mapping[str, FloatBias]:
        return {name: self.context.weight_plan.moved[name] for name in self.layers}

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns what the codes stand for; what those of another form do where there is a change."""
        from quarkfast.quantization.weight_only import CodedWeight, cast_values  # as its steps are imported

        if change is None:
            return self.coded.decoded()
        changed = self.context.weight_plan.changed(self.coded.planned, change, self.context.scheme)
        if not changed.slot.has_codes:
            return cast_values(self.values, changed.slot.spec.dtype)
        return CodedWeight(changed, self.coded.packed).decoded()

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns the biases that go with a form."""
        biases = self._moved if change is None else self.biases_with(change)
        return {**self.companions, **{name: bias.decoded() for name, bias in biases.items()}}

    def biases_with(self, change: Change) -> dict[str, FloatBias]:
        """Returns the biases that are moved for codes of another form; none for floats."""
        if not change.apply(self.coded.planned.slot.spec).format.is_integer:
            return {}
        rounded, means, found = self.rounded(change), self.context.input_means, dict[str, FloatBias]()
        for name, bias in self._moved.items():
            layer = self.layers[name]
            found[name] = bias.with_nearest(corrected_bias(bias, self.coded, rounded, layer, means[layer.node]))
        return found


def widen_weights(context: Context) -> bool:
    """Stores those weights in more bits that cost the outputs most, where all weights leave them less than 25 dB.

    Of fewer bits than 8 they have 8, as many as it takes; float16 are a quarter of the bytes at the most, and outputs
    have half of the noise with them (`quarkfast.quantization.weight_precision.choose_forms`). Biases that were
    corrected are corrected for the codes of the other form.
    """
    plan, scheme = context.weight_plan, context.scheme
    if sum(each.values.nbytes for each in plan.coded(scheme).values()) > scheme.policy.tried_bytes:
        return False
    weights = _stored(context)
    choice = choose_forms_if_run(context, weights, forms_of_stored(scheme))
    if choice is None:
        return False
    changes = {rule.tensor: rule.change for rule in choice.rules}
    changed = [each for each in weights if each.name in changes]
    moved = {name: bias for name, bias in plan.moved.items() if not any(name in each.layers for each in changed)}
    for each in changed:
        moved |= each.biases_with(changes[each.name])
    context.weight_plan = plan.with_forms(changes, scheme, moved)
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
    change = Change.of({"dtype": wider_integer(weight.dtype, bits=8), "symmetric": weight.symmetric}, "weights")
    return [Form("8 bits", change, is_free=False), _WIDE]


def _packs_bytes() -> bool:
    return tuple(map(int, ort.runtime_version().split(".")[:2])) >= _PACKED_BYTES


def _stored(context: Context) -> list[_Stored]:
    """Returns the weights that layers multiply by in the scheme's own form, those that lose most by it first."""
    scheme, plan = context.scheme, context.weight_plan
    own, of_weight = {rule.tensor for rule in scheme.tensors}, dict[str, dict[str, LinearLayer]]()
    for layer in linear_layers(context.model, added=True):
        if layer.bias is not None and layer.bias in plan.moved:
            of_weight.setdefault(layer.weight, {})[layer.bias] = layer
    found = [
        _Stored(name, 0, each, of_weight.get(name, {}), context)
        for name, each in plan.coded(scheme).items()
        if name not in own and each.planned.slot.spec == scheme.weight
    ]
    return sorted(found, key=lambda each: expected_noise(each.values), reverse=True)
