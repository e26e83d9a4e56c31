"""A plan as a float model that computes what the quantized one means, and the samples to run it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import regroup
from quarkfast.config.scheme import Spelling
from quarkfast.deferred import ir
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.evaluate.switched_rounding import add_rounding, layers_that_round
from quarkfast.graph.access import shape_of, tensor_of
from quarkfast.graph.external_constants import constants_in_files, forget_types, make_inputs, proto_and_folder
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.pipeline.stored_feeds import stored_feeds
from quarkfast.quantization import FloatBias, Plan, QuantizedBlocks, QuantizedTensor
from quarkfast.reconstruction import Models
from quarkfast.writers.qdq import insert_pairs, parameters_of

if TYPE_CHECKING:
    from quarkfast.pipeline.context import Context
    from quarkfast.quantization.weight_only import CodedWeight

    _Coded = QuantizedTensor | QuantizedBlocks | CodedWeight | FloatBias

__all__ = ["clone_model", "read_samples", "simulate", "simulate_activations"]


def simulate(context: Context, weights: Collection[str]) -> Models:
    """Returns the prepared model, and the same with pairs, in which some weights are float32 values.

    Args:
        context: A context with a plan.
        weights: Names of weights that are initializers with the values that their codes stand for, as are the biases
            of their layers. All other constants are written as the plan has them. Where activations are left alone
            all weights are such initializers. Activations that are quantized when the model runs are so here.
    """
    model = clone_model(context.model)
    # A bias that may move has numbers of its own: in a file it would share them with the float model.
    chosen: dict[str, _Coded] = {n: each for n, each in context.movable_biases().items() if isinstance(each, FloatBias)}
    if context.scheme.weights_only:
        return _models(context, model, chosen | context.weight_plan.coded(context.scheme))
    plan = context.plan
    assert plan is not None
    chosen |= {slot.tensor: tensor for slot, tensor in plan.constants if slot.tensor in weights}
    chosen |= {slot.tensor: tensor for slot, tensor in plan.biases if slot.weight_tensor in weights}
    constants = tuple((slot, tensor) for slot, tensor in plan.constants if slot.tensor not in chosen)
    biases = tuple((slot, tensor) for slot, tensor in plan.biases if slot.tensor not in chosen)
    insert_pairs(model, replace(plan, constants=constants, biases=biases), context.scheme)
    if context.scheme.encoding == "dynamic":
        add_rounding(model, layers_that_round(slot for slot, _ in plan.constants if slot.role == "weight"))
    return _models(context, model, chosen)


def simulate_activations(context: Context, plans: Sequence[Plan]) -> list[TriedForm]:
    """Returns the prepared model with the pairs of each plan behind activations, and weights and biases in float.

    Those scales and zero points of pairs in which plans differ are inputs, so that plans share a model, as long as they
    give constants that stand in the place of activations the same scales.
    """
    groups: list[list[Plan]] = []
    for plan in plans:
        alike = next((group for group in groups if _round_constants_alike(plan, group[0])), None)
        if alike is None:
            groups.append([plan])
        else:
            alike.append(plan)
    found = {id(plan): form for group in groups for plan, form in zip(group, _rounded(context, group), strict=True)}
    return [found[id(plan)] for plan in plans]


def _rounded(context: Context, plans: Sequence[Plan]) -> list[TriedForm]:
    """Returns one model with pairs behind activations, with what each plan gives it."""
    constants = tuple((slot, tensor) for slot, tensor in plans[0].constants if slot.role == "activation")
    model = clone_model(context.model)
    alone = replace(plans[0], constants=constants, biases=())
    parameters = insert_pairs(model, alone, context.scheme).parameters
    given = [_values(parameters, plan, context.scheme.spelling) for plan in plans]
    varied = [name for name, first in given[0].items() if any(not np.array_equal(first, each[name]) for each in given)]
    forget_types(model)
    make_inputs(model, varied)
    proto, folder = proto_and_folder(model)
    return [TriedForm(proto, folder, {name: each[name] for name in varied}) for each in given]


def _values(parameters: Mapping[str, tuple[str, ...]], plan: Plan, spelling: Spelling) -> dict[str, NDArray[Any]]:
    """Returns what a plan gives the parameters of pairs, by their names."""
    values: dict[str, NDArray[Any]] = {}
    for root, names in parameters.items():
        arrays = map(np.asarray, parameters_of(plan.quantizers[root], spelling).values())
        values |= zip(names, arrays, strict=True)
    return values


def _round_constants_alike(one: Plan, other: Plan) -> bool:
    """Whether two plans of one placement have the same scales for constants that stand in the place of activations."""
    pairs = zip(one.constants, other.constants, strict=True)
    return all(
        np.array_equal(had.quantizer.scale, has.quantizer.scale)
        and np.array_equal(had.quantizer.zero_point, has.quantizer.zero_point)
        for (slot, had), (_, has) in pairs
        if slot.role == "activation"
    )


def clone_model(model: ir.Model) -> ir.Model:
    """Returns a copy of a model whose constants may lie in files."""
    clone = model.clone()
    clone.meta.update(model.meta)  # which says where its constants are
    return clone


def _models(context: Context, model: ir.Model, coded: Mapping[str, _Coded]) -> Models:
    """Returns the prepared model, and a copy of it with constants that have the values of their codes."""
    for graph in graphs_of(model):
        for name, value in graph.initializers.items():
            if name in coded:
                value.const_value = _decoded(coded[name], name, value)
    context.resources.enter_context(constants_in_files(model, context.path))
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
