"""Partial models: a part of a model that computes some tensors from others, as a session of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.joined_pairs import join_pairs
from quarkfast.graph.subgraphs import needed_nodes

__all__ = ["Feed", "Piece"]

Feed = Mapping[str, NDArray[Any]]
"""One run's inputs by name."""


class Piece:
    """The nodes between tensors that are given and tensors that are wanted, run as they stand."""

    def __init__(
        self,
        model: onnx.ModelProto,
        wanted: Sequence[str],
        given: Mapping[str, onnx.TypeProto] | Sequence[str],
        folder: Path | None = None,
    ) -> None:
        """Opens a session.

        Args:
            model: The whole model.
            wanted: Names of the tensors to compute.
            given: Tensors that are known besides the inputs of the model: names of float32 ones, or names and types.
                ONNX Runtime takes no sizes of a Resize without a length.
            folder: Where the files are that the model refers to, or None where all its constants are in it.

        Raises:
            ModelError: ONNX Runtime does not take the piece.
        """
        nodes, read = needed_nodes(model.graph, wanted, given)
        inputs = [value for value in model.graph.input if value.name in read]
        floats = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        types = given if isinstance(given, Mapping) else dict.fromkeys(given, floats)
        inputs += [onnx.ValueInfoProto(name=name, type=each) for name, each in types.items() if name in read]
        constants = [tensor for tensor in model.graph.initializer if tensor.name in read]
        outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
        part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        part.graph.CopyFrom(onnx.helper.make_graph(nodes, "piece", inputs, outputs, constants))
        join_pairs(part)
        self._session = exact_session(part, folder)
        self._inputs = [value.name for value in self._session.get_inputs()]

    def run(self, known: Feed) -> list[NDArray[Any]]:
        """Returns the wanted tensors, given arrays by name, of which it takes what it needs."""
        return ort.run(self._session, {name: known[name] for name in self._inputs})
