"""The step that leaves layers float whose weights 8 bits cannot carry, where activations are quantized as they come."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quarkfast.config.rules import Change
from quarkfast.deferred import ir
from quarkfast.evaluate.switched_rounding import add_switched_rounding, layers_that_round
from quarkfast.graph.external_constants import proto_and_folder
from quarkfast.graph.placement import Placement
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.simulate import clone_model
from quarkfast.pipeline.weight_precision_steps import choose_forms_if_run, note_of
from quarkfast.quantization import place
from quarkfast.quantization.weight_precision import Form, Weight, weights_of
from quarkfast.ranges.decibels import ratio_of
from quarkfast.reconstruction import InputMeans, LinearLayer, linear_layers

__all__ = ["leave_layers_float"]

_FLOAT = Form("32 bits", Change.of({"dtype": "float32"}, "weights"), is_free=False)

_REASON = "8 bits of its weight take too much from the outputs"


class _Means:
    """The mean of what each layer reads in the float model, found when it is asked for."""

    def __init__(self, context: Context, layers: Sequence[LinearLayer]) -> None:
        self._context, self._layers = context, layers

    @cached_property
    def of(self) -> Mapping[str, NDArray[np.float64]]:
        """They, ``[groups, inputs]``, by the names of the nodes."""
        session = InputMeans(*proto_and_folder(self._context.model), self._layers)
        means, _ = session.run(self._context.read_samples(self._context.scheme.policy.dynamic_bias_samples))
        session.close()
        return {node: rows.mean(axis=0) for node, rows in means.items()}


@dataclass(frozen=True, eq=False)
class _Layers:
    """A weight, with the biases of its layers as they will be moved for its codes, and whether they round their input.

    Attributes:
        weight: The weight.
        biased: Layers by the names of their biases.
        biases: What these are.
        means: What layers read in the mean.
        switches: Constants that have layers round what they read.
    """

    weight: Weight
    biased: Mapping[str, LinearLayer]
    biases: Mapping[str, NDArray[np.float32]]
    means: _Means
    switches: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the initializer."""
        return self.weight.name

    @property
    def axis(self) -> int:
        """The axis of its output channels."""
        return self.weight.axis

    @property
    def values(self) -> NDArray[np.float32]:
        """Its values."""
        return self.weight.values

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes that read it."""
        return {edge.node for edge in self.weight.slot.edges}

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """Biases and switches of the float model."""
        return {**self.biases, **{name: np.zeros((), np.float32) for name in self.switches}}

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns what codes stand for; the values where there is a change, as there is but one."""
        return self.weight.rounded(change)

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns moved biases and switches that are on; those of the float model where the weight is float."""
        if change is not None:
            return self.companions
        return {**self._moved, **{name: np.ones((), np.float32) for name in self.switches}}

    @cached_property
    def _moved(self) -> Mapping[str, NDArray[np.float32]]:
        if not self.biased:
            return {}
        error, found = self.values - self.rounded(None), dict[str, NDArray[np.float32]]()
        for name, layer in self.biased.items():
            bias = self.biases[name]
            missing = np.einsum("gmk,gk->gm", layer.to_rows(error), self.means.of[layer.node]).reshape(bias.shape)
            found[name] = (bias + missing).astype(np.float32) if np.isfinite(missing).all() else bias
        return found


def leave_layers_float(context: Context) -> bool:
    """Leaves those layers float that cost the outputs most, where all of them leave these less than 20 dB.

    They have a quarter of the bytes of weights at the most, and outputs have half of the noise with them
    (`quarkfast.quantization.weight_precision.choose_forms`). What layers read is rounded as it comes for that, and
    biases are corrected. Both weights of an LSTM stay where one has to.
    """
    model = clone_model(context.model)
    weights = _candidates(context, model)
    effort = context.effort.up_to(ratio_of(-context.scheme.policy.dynamic_sqnr))
    choice = choose_forms_if_run(context, weights, [_FLOAT], model, effort)
    if choice is None or not choice.names:
        return False
    nodes = set[str]().union(*(each.nodes for each in weights if each.name in choice.names[_FLOAT.name]))
    left = [each for each in weights if not nodes.isdisjoint(each.nodes)]
    share = sum(each.values.nbytes for each in left) / sum(each.values.nbytes for each in weights)
    if share > context.effort.largest_share:
        return False
    context.placement = _without(context, nodes)
    names = tuple(each.name for each in left)
    choice = replace(choice, names={_FLOAT.name: names}, shares={_FLOAT.name: share})
    context.notes.append(note_of(context, choice, len(weights), otherwise=""))
    return False


def _candidates(context: Context, model: ir.Model) -> list[_Layers]:
    """Returns the weights of layers, those that lose most by their codes first, and adds switches to a model."""
    weights = weights_of(context.model, context.placement, context.scheme)
    switches = add_switched_rounding(model, layers_that_round(each.slot for each in weights))
    biases = context.float_biases() if context.scheme.bias_correction else {}
    layers = [each for each in linear_layers(context.model) if each.bias in biases]
    means, found = _Means(context, layers), list[_Layers]()
    for weight in weights:
        biased = {str(layer.bias): layer for layer in layers if layer.weight == weight.name}
        own = {name: biases[name].decoded() for name in biased}
        on = (switches[node] for node in layers_that_round([weight.slot]))
        found.append(_Layers(weight, biased, own, means, tuple(on)))
    return found


def _without(context: Context, nodes: Collection[str]) -> Placement:
    """Returns the placement with some layers left float, and why."""
    exclude = (*context.scheme.exclude, *(f"^{re.escape(name)}$" for name in sorted(nodes)))
    found = place(context.model, replace(context.scheme, exclude=exclude), context.target)
    left_float = (each._replace(reason=_REASON) if each.node in nodes else each for each in found.left_float)
    return replace(found, left_float=tuple(left_float))
