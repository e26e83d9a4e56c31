"""A plan as a float model that computes what the quantized one means, and the samples to run it on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import onnx

from quarkfast.calibration.data import Feed
from quarkfast.calibration.data.batches import regroup
from quarkfast.graph.save import to_proto
from quarkfast.quantization import QuantizedTensor
from quarkfast.reconstruction import Models
from quarkfast.writers.qdq import insert_pairs

if TYPE_CHECKING:
    from quarkfast.pipeline.context import Context

__all__ = ["read_samples", "simulate"]


def simulate(context: Context, weights: Collection[str]) -> Models:
    """Returns the prepared model, and the same with pairs, in which some weights are float32 values.

    Args:
        context: A context with a plan.
        weights: Names of weights that are initializers with the values that their codes stand for, as are the biases
            of their layers. All other constants are written as the plan has them.
    """
    plan = context.plan
    assert plan is not None
    chosen = {
        slot.tensor: tensor
        for slot, tensor in plan.constants
        if slot.tensor in weights and isinstance(tensor, QuantizedTensor)
    }
    chosen |= {slot.tensor: tensor for slot, tensor in plan.biases if slot.weight_tensor in weights}
    constants = tuple((slot, tensor) for slot, tensor in plan.constants if slot.tensor not in chosen)
    biases = tuple((slot, tensor) for slot, tensor in plan.biases if slot.tensor not in chosen)
    model = context.model.clone()
    insert_pairs(model, replace(plan, constants=constants, biases=biases), context.scheme)
    models = Models(to_proto(context.model), to_proto(model))
    for initializer in models.quantized.graph.initializer:
        if initializer.name in chosen:
            values = chosen[initializer.name].decoded()
            initializer.CopyFrom(onnx.numpy_helper.from_array(values, initializer.name))
    return models


def read_samples(context: Context, most: int) -> list[Feed]:
    """Returns the first samples, each a feed of one row where the model lets feeds be cut."""
    samples = context.source.samples(context.model, context.scheme)
    feeds = regroup(iter(samples), 1) if samples.resizable else iter(samples)
    return list(islice(feeds, most))
