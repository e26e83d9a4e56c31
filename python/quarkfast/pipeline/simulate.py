"""A plan as a float model that computes what the quantized one means, and the samples to run it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.batches import regroup
from quarkfast.deferred import ir
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.graph.access import shape_of, tensor_of
from quarkfast.graph.external_constants import constants_in_files, forget_types, make_inputs, proto_and_folder
from quarkfast.pipeline.stored_feeds import stored_feeds
from quarkfast.quantization import Plan, QuantizedBlocks, QuantizedTensor
from quarkfast.reconstruction import Models
from quarkfast.writers.qdq import insert_pairs, parameters_of

if TYPE_CHECKING:
    from quarkfast.pipeline.context import Context
    from quarkfast.quantization.weight_only import CodedWeight

    _Coded = QuantizedTensor | QuantizedBlocks | CodedWeight

__all__ = ["read_samples", "simulate", "simulate_activations"]


def simulate(context: Context, weights: Collection[str]) -> Models:
    """Returns the prepared model, and the same with pairs, in which some weights are float32 values.

    Args:
        context: A context with a plan.
        weights: Names of weights that are initializers with the values that their codes stand for, as are the biases
            of their layers. All other constants are written as the plan has them. Where activations are left alone
            all weights are such initializers.
    """
    model = _clone(context.model)
    if context.scheme.weights_only:
        return _models(context, model, context.weight_plan.coded(context.scheme))
    plan = context.plan
    assert plan is not None
    chosen: dict[str, _Coded] = {slot.tensor: tensor for slot, tensor in plan.constants if slot.tensor in weights}
    chosen |= {slot.tensor: tensor for slot, tensor in plan.biases if slot.weight_tensor in weights}
    constants = tuple((slot, tensor) for slot, tensor in plan.constants if slot.tensor not in chosen)
    biases = tuple((slot, tensor) for slot, tensor in plan.biases if slot.tensor not in chosen)
    insert_pairs(model, replace(plan, constants=constants, biases=biases), context.scheme)
    return _models(context, model, chosen)


def simulate_activations(context: Context, plans: Sequence[Plan]) -> list[TriedForm]:
    """Returns the prepared model with the pairs of each plan behind activations, and weights and biases in float.

    Scales and zero points of pairs are inputs, so that plans share a model, as long as they give constants that stand
    in the place of activations the same scales.
    """
    made: list[tuple[Plan, _Rounded]] = []
    found = []
    for plan in plans:
        rounded = next((each for other, each in made if _round_constants_alike(plan, other)), None)
        if rounded is None:
            rounded = _Rounded(context, plan)
            made.append((plan, rounded))
        found.append(rounded.form(plan))
    return found


class _Rounded:
    """A model with pairs behind activations."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self._spelling = context.scheme.spelling
        constants = tuple((slot, tensor) for slot, tensor in plan.constants if slot.role == "activation")
        model = _clone(context.model)
        alone = replace(plan, constants=constants, biases=())
        self._names = insert_pairs(model, alone, context.scheme).parameters
        forget_types(model)
        make_inputs(model, [name for names in self._names.values() for name in names])
        self._proto, self._folder = proto_and_folder(model)

    def form(self, plan: Plan) -> TriedForm:
        values: dict[str, NDArray[Any]] = {}
        for root, names in self._names.items():
            arrays = map(np.asarray, parameters_of(plan.quantizers[root], self._spelling).values())
            values |= zip(names, arrays, strict=True)
        return TriedForm(self._proto, self._folder, values)


def _round_constants_alike(one: Plan, other: Plan) -> bool:
    """Whether two plans of one placement have the same scales for constants that stand in the place of activations."""
    pairs = zip(one.constants, other.constants, strict=True)
    return all(
        np.array_equal(had.quantizer.scale, has.quantizer.scale)
        and np.array_equal(had.quantizer.zero_point, has.quantizer.zero_point)
        for (slot, had), (_, has) in pairs
        if slot.role == "activation"
    )


def _clone(model: ir.Model) -> ir.Model:
    clone = model.clone()
    clone.meta.update(model.meta)  # which says where its constants are
    return clone


def _models(context: Context, model: ir.Model, coded: Mapping[str, _Coded]) -> Models:
    """Returns the prepared model, and a copy of it with constants that have the values of their codes."""
    for name, value in model.graph.initializers.items():
        if name in coded:
            value.const_value = _decoded(coded[name], name, value)
    context.resources.enter_context(constants_in_files(model, None if context.path is None else context.path.parent))
    (float_model, folder), (quantized, own) = proto_and_folder(context.model), proto_and_folder(model)
    return Models(float_model, quantized, folder, own)


def _decoded(coded: _Coded, name: str, value: ir.Value) -> ir.LazyTensor:
    """Returns what codes stand for; no more than one of such tensors is in memory while they are written."""

    def make() -> ir.TensorProtocol:
        return ir.Tensor(coded.decoded(), name=name)

    return ir.LazyTensor(make, ir.DataType.FLOAT, ir.Shape(shape_of(tensor_of(value))), name=name)


def read_samples(context: Context, most: int) -> list[Mapping[str, NDArray[Any]]]:
    """Returns the first samples, each a feed of one row where the model lets feeds be cut, many of them in a file."""
    samples = context.source.samples(context.model, context.scheme)
    feeds = regroup(iter(samples), 1) if samples.resizable else iter(samples)
    first = islice(feeds, most)
    return list(first if samples.held else stored_feeds(first))
