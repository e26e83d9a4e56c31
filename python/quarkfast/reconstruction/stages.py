"""Stages of a model: each ends in front of the layers whose weights it must know, and runs once over all samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.evaluate.activation_store import ActivationStore
from quarkfast.evaluate.partial_model import Piece
from quarkfast.graph.external import read_constant
from quarkfast.graph.subgraphs import names_read
from quarkfast.reconstruction.linear_layer import FIRST_STATE, LENGTHS, LinearLayer, states_before, without_padding

__all__ = ["StagedModel"]

Feed = Mapping[str, NDArray[Any]]


class StagedModel:
    """A model whose nodes are run stage by stage over samples that are kept in between.

    The stage of a node is the number of chosen layers on the longest way to it, itself included: what is of stage `s`
    can be computed once the weights of the layers of stages 1 to `s` are final. Layers that share a weight are of one
    stage, the latest of theirs, so that what all of them multiply is known before.

    Attributes:
        model: The model; initializers of layers may be replaced as long as their stage has not been run.
        stages: Number of the last stage.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        layers: Sequence[LinearLayer],
        feeds: Sequence[Feed],
        budget: int,
        folder: Path | None = None,
    ) -> None:
        """Reads the graph; runs nothing.

        Args:
            model: The whole model.
            layers: What begins a stage; of those that share a weight none lies behind another.
            feeds: Samples, by the names of the inputs.
            budget: Bytes of tensors to keep in memory.
            folder: Where the files are that the model refers to, or None where all its constants are in it.
        """
        self.model = model
        self._store = ActivationStore(budget)
        self._states = ActivationStore(budget)  # of recurrent layers whose weights are not final
        self._feeds, self._folder, self._budget = feeds, folder, budget
        by_node = dict[str, list[LinearLayer]]()
        for layer in layers:
            by_node.setdefault(layer.node, []).append(layer)
        self._nodes = {node.name: node for node in model.graph.node if node.name in by_node}
        self._layers = [layer for name in self._nodes for layer in by_node[name]]
        _name_states(model.graph, [self._nodes[layer.node] for layer in self._layers if layer.steps])
        self._stage_of, self._last_use = _read_graph(model.graph, by_node)
        self.stages = max(self._stage_of.values(), default=0)

    def __enter__(self) -> StagedModel:
        """Returns the model."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Drops all tensors."""
        self._store.__exit__(*error)
        self._states.__exit__(*error)

    def layers_of(self, stage: int) -> list[list[LinearLayer]]:
        """Returns the layers whose weights must be final before `stage` is run, together those of one weight."""
        found = dict[str, list[LinearLayer]]()
        for layer in self._layers:
            if self._stage_of[self._nodes[layer.node].output[0]] == stage:
                found.setdefault(layer.weight, []).append(layer)
        return list(found.values())

    def input_of(self, layer: LinearLayer, sample: int) -> NDArray[np.float32]:
        """Returns what a layer multiplies, once the stages before its own have been run.

        The state of a recurrent layer is what its weights give that the model has when it is first asked for.
        """
        node = self._nodes[layer.node]
        if layer.steps is None:
            return self._read(node.input[0], sample)
        lengths = self._optional(node, LENGTHS, sample)
        if not layer.steps.of_state:
            return without_padding(self._read(node.input[0], sample), lengths)
        self._run_states(node)
        first = self._optional(node, FIRST_STATE, sample)
        return states_before(self._states.get(node.name, sample), layer.steps.backward, first, lengths)

    def _read(self, name: str, sample: int) -> NDArray[Any]:
        return self._feeds[sample][name] if name in self._feeds[sample] else self._store.get(name, sample)

    def _optional(self, node: onnx.NodeProto, index: int, sample: int) -> NDArray[Any] | None:
        """Returns an input of a node, perhaps a constant, or None where there is none."""
        name = node.input[index] if index < len(node.input) else ""
        constant = self._constants.get(name)
        if constant is not None:
            return read_constant(constant, self._folder)
        return self._read(name, sample) if name else None

    @cached_property
    def _constants(self) -> Mapping[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    def _run_states(self, node: onnx.NodeProto) -> None:
        """Has the states of a recurrent layer for every sample."""
        if node.name in self._states:
            return
        piece = self._piece([node.output[0]])
        for sample, feed in enumerate(self._feeds):
            (states,) = piece.run(_Known(feed, self._store, sample))
            self._states.put(node.name, sample, states)

    def _piece(self, wanted: Sequence[str]) -> Piece:
        """Returns what computes tensors from those that are kept."""
        kept = {name: self._type_of(name) for name in self._stage_of if name in self._store}
        return Piece(self.model, wanted, kept, self._folder)

    def run(self, stage: int) -> int:
        """Computes what later stages read of `stage`, for every sample, and forgets what none reads any more.

        Returns:
            How many bytes it computed.
        """
        wanted = [name for name, own in self._stage_of.items() if own == stage and self._last_use.get(name, 0) > stage]
        kept = [name for name in self._stage_of if name in self._store]
        piece = self._piece(wanted) if wanted else None
        computed, gone = 0, [name for name in kept if self._last_use.get(name, 0) <= stage]
        for sample, feed in enumerate(self._feeds):
            found = piece.run(_Known(feed, self._store, sample)) if piece else []
            for name in gone:
                self._store.drop(name, sample)
            for name, array in zip(wanted, found, strict=True):
                self._store.put(name, sample, array)
                computed += array.nbytes
        self._states.__exit__(None, None, None)
        self._states = ActivationStore(self._budget)
        return computed

    def _type_of(self, name: str) -> onnx.TypeProto:
        """Returns the type of a tensor; with its length where it may be a shape, which is one of all samples."""
        array = self._store.get(name, 0)
        if array.dtype == object:
            return onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, None)
        lengths = set[int]()
        if array.dtype == np.int64 and array.ndim == 1:
            lengths = {self._store.get(name, sample).size for sample in range(len(self._feeds))}
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return onnx.helper.make_tensor_type_proto(kind, list(lengths) if len(lengths) == 1 else None)


class _Known(Mapping[str, NDArray[Any]]):
    """What is known of one sample: its feed, and what earlier stages computed."""

    def __init__(self, feed: Feed, store: ActivationStore, sample: int) -> None:
        self._feed, self._store, self._sample = feed, store, sample

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._feed[name] if name in self._feed else self._store.get(name, self._sample)

    def __iter__(self) -> Iterator[str]:
        return iter(self._feed)

    def __len__(self) -> int:
        return len(self._feed)


def _name_states(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Names the states of recurrent layers that nothing reads but the last."""
    names = {name for node in graph.node for name in node.output}
    for node in nodes:
        if not node.output[0]:
            node.output[0] = next(name for i in count() if (name := f"{node.name}_states_{i}") not in names)


def _read_graph(
    graph: onnx.GraphProto, by_node: Mapping[str, Sequence[LinearLayer]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the stage of each tensor that a node computes, and the last stage that reads each."""
    nodes = [(node, list(names_read(node)), by_node.get(node.name, ())) for node in graph.node]
    stage_of, last_use, of_weight = dict[str, int](), dict[str, int](), dict[str, int]()
    settled = False
    while not settled:  # a layer may be of a later stage than one before it with the same weight
        settled = True
        for node, read, own_layers in nodes:
            front = own = max((stage_of.get(name, 0) for name in read), default=0)
            for layer in own_layers:
                settled &= of_weight.get(layer.weight, front + 1) > front
                own = of_weight[layer.weight] = max(of_weight.get(layer.weight, 0), front + 1)
            stage_of.update((name, own) for name in node.output if name)
            for name in read:
                last_use[name] = max(last_use.get(name, 0), own)
    return stage_of, last_use
