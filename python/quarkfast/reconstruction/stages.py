"""A model in stages: each ends in front of the layers whose weights it must know, and is run once over all samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.evaluate.partial_model import Piece
from quarkfast.graph.needed_nodes import names_read
from quarkfast.reconstruction.activation_store import ActivationStore
from quarkfast.reconstruction.linear_layer import LinearLayer

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
        self._feeds, self._folder = feeds, folder
        by_node = {layer.node: layer for layer in layers}
        self._stage_of, self._last_use = _read_graph(model.graph, by_node)
        self.stages = max(self._stage_of.values(), default=0)
        self._chosen = [(by_node[node.name], node) for node in model.graph.node if node.name in by_node]

    def __enter__(self) -> StagedModel:
        """Returns the model."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Drops all tensors."""
        self._store.__exit__(*error)

    def layers_of(self, stage: int) -> list[list[LinearLayer]]:
        """Returns the layers whose weights must be final before `stage` is run, together those of one weight."""
        found = dict[str, list[LinearLayer]]()
        for layer, node in self._chosen:
            if self._stage_of[node.output[0]] == stage:
                found.setdefault(layer.weight, []).append(layer)
        return list(found.values())

    @cached_property
    def _data(self) -> dict[str, str]:
        return {node.name: node.input[0] for _, node in self._chosen}

    def input_of(self, layer: LinearLayer, sample: int) -> NDArray[np.float32]:
        """Returns what a layer multiplies, once the stages before its own have been run."""
        name = self._data[layer.node]
        return self._feeds[sample][name] if name in self._feeds[sample] else self._store.get(name, sample)

    def run(self, stage: int) -> int:
        """Computes what later stages read of `stage`, for every sample, and forgets what none reads any more.

        Returns:
            How many bytes it computed.
        """
        wanted = [name for name, own in self._stage_of.items() if own == stage and self._last_use.get(name, 0) > stage]
        kept = [name for name in self._stage_of if name in self._store]
        types = {name: self._type_of(name) for name in kept}
        piece = Piece(self.model, wanted, types, self._folder) if wanted else None
        computed, gone = 0, [name for name in kept if self._last_use.get(name, 0) <= stage]
        for sample, feed in enumerate(self._feeds):
            found = piece.run(_Known(feed, self._store, sample)) if piece else []
            for name in gone:
                self._store.drop(name, sample)
            for name, array in zip(wanted, found, strict=True):
                self._store.put(name, sample, array)
                computed += array.nbytes
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


def _read_graph(graph: onnx.GraphProto, by_node: Mapping[str, LinearLayer]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the stage of each tensor that a node computes, and the last stage that reads each."""
    nodes = [(node, list(names_read(node)), by_node.get(node.name)) for node in graph.node]
    stage_of, last_use, of_weight = dict[str, int](), dict[str, int](), dict[str, int]()
    settled = False
    while not settled:  # a layer may be of a later stage than one before it with the same weight
        settled = True
        for node, read, layer in nodes:
            own = max((stage_of.get(name, 0) for name in read), default=0)
            if layer is not None:
                settled &= of_weight.get(layer.weight, own + 1) > own
                own = of_weight[layer.weight] = max(of_weight.get(layer.weight, 0), own + 1)
            stage_of.update((name, own) for name in node.output if name)
            for name in read:
                last_use[name] = max(last_use.get(name, 0), own)
    return stage_of, last_use
