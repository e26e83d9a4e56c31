"""The walk: a float and a quantized model layer by layer, each behind layers that have their final weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core
from quarkfast.graph.external import replace_constant
from quarkfast.reconstruction.linear_layer import LinearLayer
from quarkfast.reconstruction.stages import StagedModel

__all__ = ["Feed", "Models", "go_through"]


class Models(NamedTuple):
    """The float model and the quantized one, with the same names of nodes and of initializers.

    Attributes:
        float_model: The float model.
        quantized: The same with pairs behind activations; its weights are float32 values that codes stand for.
        float_folder: Where the files are that the float model refers to, or None where all its constants are in it.
        quantized_folder: The same of the quantized model. Its weights have a file of their own, which is written again.
    """

    float_model: onnx.ModelProto
    quantized: onnx.ModelProto
    float_folder: Path | None = None
    quantized_folder: Path | None = None


# Bytes of tensors between two stages to keep in memory, of each of the two models: none, for a file costs no time that
# could be measured, and small arrays among what sessions take keep the memory of these from being given back.
_BUDGET = 0

# Bytes of tensors that sessions compute until the memory of these is given back.
_COMPUTED = 16 << 20

Feed = Mapping[str, NDArray[Any]]

See = Callable[[Sequence[LinearLayer], Sequence[StagedModel]], Mapping[str, NDArray[np.float32]]]
"""From the layers of a weight, with the quantized model and perhaps the float one, to new values of initializers."""


def go_through(
    models: Models,
    layers: Sequence[LinearLayer],
    feeds: Sequence[Feed],
    see: See,
    *,
    both: bool,
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Shows `layers` in the order of the graph, weight by weight, and puts what comes of it into the quantized model.

    Both models are run once over the samples, in stages: what a layer sees is computed with the new weights of all
    layers before it.

    Args:
        models: The quantized one is changed in place.
        layers: What to show.
        feeds: Samples.
        see: Called once for the layers of each weight; may read their input (`StagedModel.input_of`).
        both: Whether to run the float model too.
        report: Called with the number of weights that are done.

    Raises:
        ModelError: ONNX Runtime does not take a part of a model.
    """
    done = computed = 0
    with ExitStack() as stack:
        quantized = stack.enter_context(StagedModel(models.quantized, layers, feeds, _BUDGET, models.quantized_folder))
        paths = [quantized]
        if both:
            other = StagedModel(models.float_model, layers, feeds, _BUDGET, models.float_folder)
            paths.append(stack.enter_context(other))
        initializers = {tensor.name: tensor for tensor in models.quantized.graph.initializer}
        for stage in range(quantized.stages + 1):
            for readers in quantized.layers_of(stage):
                for tensor, values in see(readers, paths).items():
                    replace_constant(initializers[tensor], values, models.quantized_folder)
                done += 1
                report(done)
            computed += sum(path.run(stage) for path in paths)
            if computed > _COMPUTED:
                _core.release_memory()  # of the sessions
                computed = 0
