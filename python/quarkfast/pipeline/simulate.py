"""A plan as a float model that computes what the quantized one means, and the samples to run it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.calibration.data.batches import regroup
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.graph.external_constants import make_inputs, proto_and_folder
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.stored_feeds import stored_feeds
from quarkfast.quantization import Plan, QuantizedBlocks, QuantizedTensor
from quarkfast.reconstruction import Models
from quarkfast.writers.qdq import insert_pairs, parameters_of

if TYPE_CHECKING:
    from quarkfast.pipeline.context import Context
    from quarkfast.quantization.weight_only import CodedWeight

__all__ = ["read_samples", "simulate", "simulate_activations"]


def simulate(context: Context, weights: Collection[str]) -> Models:
    """Returns the prepared model, and the same with pairs, in which some weights are float32 values.

    Args:
        context: A context with a plan.
        weights: Names of weights that are initializers with the values that their codes stand for, as are the biases
            of their layers. All other constants are written as the plan has them. Where activations are left alone
            all weights are such initializers.
    """
    if context.scheme.weights_only:
        return _simulate_stored(context)
    plan = context.plan
    assert plan is not None
    chosen: dict[str, QuantizedTensor | QuantizedBlocks] = {
        slot.tensor: tensor for slot, tensor in plan.constants if slot.tensor in weights
    }
    chosen |= {slot.tensor: tensor for slot, tensor in plan.biases if slot.weight_tensor in weights}
    constants = tuple((slot, tensor) for slot, tensor in plan.constants if slot.tensor not in chosen)
    biases = tuple((slot, tensor) for slot, tensor in plan.biases if slot.tensor not in chosen)
    model = context.model.clone()
    insert_pairs(model, replace(plan, constants=constants, biases=biases), context.scheme)
    models = Models(to_proto(context.model), to_proto(model))
    _decode(models.quantized, chosen)
    return models


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
        model = context.model.clone()
        model.meta.update(context.model.meta)  # which says where its constants are
        alone = replace(plan, constants=constants, biases=())
        self._names = insert_pairs(model, alone, context.scheme).parameters
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


def _simulate_stored(context: Context) -> Models:
    models = Models(to_proto(context.model), onnx.ModelProto())
    models.quantized.CopyFrom(models.float_model)
    _decode(models.quantized, context.weight_plan.coded(context.scheme))
    return models


def _decode(
    model: onnx.ModelProto, tensors: Mapping[str, QuantizedTensor | QuantizedBlocks] | Mapping[str, CodedWeight]
) -> None:
    for initializer in model.graph.initializer:
        if initializer.name in tensors:
            values = tensors[initializer.name].decoded()
            initializer.CopyFrom(onnx.numpy_helper.from_array(values, initializer.name))


def read_samples(context: Context, most: int) -> list[Mapping[str, NDArray[Any]]]:
    """Returns the first samples, each a feed of one row where the model lets feeds be cut, many of them in a file."""
    samples = context.source.samples(context.model, context.scheme)
    feeds = regroup(iter(samples), 1) if samples.resizable else iter(samples)
    first = islice(feeds, most)
    return list(first if samples.held else stored_feeds(first))
