"""A part of a model that computes some tensors from others, as a session of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session

__all__ = ["Feed", "Piece", "names_read"]

Feed = Mapping[str, NDArray[Any]]
"""One run's inputs by name."""


class Piece:
    """The nodes between tensors that are given and tensors that are wanted, run as they stand."""

    def __init__(self, model: onnx.ModelProto, wanted: Sequence[str], given: Mapping[str, int] | Sequence[str]) -> None:
        """Opens a session.

        Args:
            model: The whole model, with all its constants in it.
            wanted: Names of the tensors to compute.
            given: Tensors that are known besides the inputs of the model: names of float32 ones, or names and types of
                elements (``onnx.TensorProto.DataType``).

        Raises:
            ModelError: ONNX Runtime does not take the piece.
        """
        nodes, read = _between(model.graph, set(wanted), set(given))
        inputs = [value for value in model.graph.input if value.name in read]
        types = given if isinstance(given, Mapping) else dict.fromkeys(given, onnx.TensorProto.FLOAT)
        inputs += [onnx.helper.make_tensor_value_info(name, types[name], None) for name in types if name in read]
        constants = [tensor for tensor in model.graph.initializer if tensor.name in read]
        outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
        part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        part.graph.CopyFrom(onnx.helper.make_graph(nodes, "piece", inputs, outputs, constants))
        self._session = exact_session(part)
        self._inputs = [value.name for value in self._session.get_inputs()]

    def run(self, known: Feed) -> list[NDArray[Any]]:
        """Returns the wanted tensors, given arrays by name, of which it takes what it needs."""
        return ort.run(self._session, {name: known[name] for name in self._inputs})


def _between(graph: onnx.GraphProto, wanted: set[str], given: set[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """Returns the nodes that `wanted` takes if `given` is known, in order, and the names that are read."""
    nodes, read = [], wanted - given
    for node in reversed(graph.node):
        if read.intersection(node.output) - given:
            nodes.append(node)
            read.update(names_read(node))
    return nodes[::-1], read


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names that a node reads, those in its bodies too."""
    yield from node.input
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                yield from names_read(inner)
            yield from (output.name for output in body.output)
