"""Observers inside the blocked layout that ONNX Runtime gives to convolutions.

For the sake of vectors ONNX Runtime keeps the activations of convolutions in blocks of channels (NCHWc) from one
operator that knows the layout to the next. An Observe operator does not, so ONNX Runtime puts a ReorderOutput in front
of it and a ReorderInput behind it: twice the whole activation through memory. Yet statistics depend on no order. So the
graph that ONNX Runtime has optimized is taken from it, observers and what stands between them are moved into the
blocks, and the session is made of that. Every operator computes the same values as before.

The graph is edited as protobuf: to make an onnx_ir model of it and back takes as long as the inference of 30 small
images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from quarkfast import ort
from quarkfast.errors import ModelError

__all__ = ["move_into_blocks", "observed_session"]

_DOMAIN = "com.microsoft.nchwc"
# Every block of ONNX Runtime (4, 8 or 16 channels, as the processor likes) divides this. Other channels are padded, and
# the padding must not be counted.
_CHANNELS = 16
# Number of inputs of operators that work value by value; those of two take inputs of equal shapes.
_ELEMENTWISE = {"Relu": 1, "LeakyRelu": 1, "Sigmoid": 1, "Tanh": 1, "HardSigmoid": 1, "Add": 2, "Sub": 2, "Mul": 2}
# The optimized graph goes through a file and through Python; a model beyond this would feel it.
_MOST_BYTES = 2**28


def observed_session(model: onnx.ModelProto, threads: int | None) -> Any:
    """Returns a session that runs a model with observers.

    Args:
        model: The model, with Observe operators.
        threads: Threads of ONNX Runtime within an operator; None leaves the choice to it.

    Raises:
        ModelError: If ONNX Runtime rejects the model.
    """
    data = model.SerializeToString()
    if len(data) <= _MOST_BYTES and any(node.op_type == "Conv" for node in model.graph.node):
        session = _blocked_session(data, threads)
        if session is not None:
            return session
    return ort.inference_session(data, ort.session_options(threads=threads))


def _blocked_session(data: bytes, threads: int | None) -> Any:
    """Returns the session, or None where ONNX Runtime cannot write the optimized graph, such as on a full disk."""
    with tempfile.TemporaryDirectory(prefix="quarkfast_", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "optimized.onnx")
        options = ort.session_options(threads=threads)
        options.optimized_model_filepath = str(path)
        try:
            session = ort.inference_session(data, options)
            optimized = onnx.ModelProto.FromString(path.read_bytes())
        except (ModelError, OSError):
            return None
    if move_into_blocks(optimized.graph) == 0:
        return session
    del session  # with its copy of the weights
    return ort.inference_session(optimized.SerializeToString(), ort.session_options(threads=threads, optimize=False))


def move_into_blocks(graph: onnx.GraphProto) -> int:
    """Moves observers and elementwise operators from behind a ReorderOutput to in front of it.

    A ReorderInput that would undo a ReorderOutput goes. A second call changes nothing.

    Args:
        graph: A graph as ONNX Runtime has optimized it; changed in place. One with bodies stays as it is.

    Returns:
        The number of observers that were moved.
    """
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        return 0
    layout = _Layout(_shapes(graph))
    for node in graph.node:
        layout.add(node)
    for output in graph.output:
        layout.plain(output.name)
    if layout.observers:
        # The types and shapes of values that have gone would be an error; ONNX Runtime infers all of them again.
        del graph.node[:], graph.value_info[:]
        graph.node.extend(layout.nodes)
    return layout.observers


def _shapes(graph: onnx.GraphProto) -> Mapping[str, Sequence[int | str]]:
    """Returns the shapes of values whose every dimension is a number or has a name."""
    shapes = {}
    for value in graph.value_info:
        dims = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if all(dims):
            shapes[value.name] = dims
    return shapes


class _Layout:
    """The nodes of a graph, one after the other, as late as possible out of blocks.

    Attributes:
        nodes: Nodes that were added and what had to be put between them.
        observers: How many of them are observers of blocks.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int | str]]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.observers = 0
        self._shapes = shapes
        self._reorders: dict[str, onnx.NodeProto] = {}  # by output: the ReorderOutput that would write it
        self._written: set[str] = set()  # those of them that stand in the graph
        self._same: dict[str, str] = {}  # outputs of a ReorderInput that has gone, and the blocks that they were

    def add(self, node: onnx.NodeProto) -> None:
        """Adds a node; what it reads was added before."""
        if node.domain == _DOMAIN and node.op_type == "ReorderOutput" and _unpadded(node):
            self._reorders[node.output[0]] = node
        elif node.domain == _DOMAIN and node.op_type == "ReorderInput" and self._undoes(node):
            self._same[node.output[0]] = self._blocks(node.input[0])
        elif self._moves(node):
            self._move(node)
        else:
            for index, name in enumerate(node.input):
                node.input[index] = self._same.get(name, name)
                self.plain(name)
            self.nodes.append(node)

    def plain(self, name: str) -> None:
        """Makes sure that the value `name`, if it is in blocks, is written out of them."""
        if name in self._reorders and name not in self._written:
            reorder = self._reorders[name]
            reorder.input[0] = self._same.get(reorder.input[0], reorder.input[0])
            self._written.add(name)
            self.nodes.append(reorder)

    def _blocks(self, name: str) -> str:
        source = self._reorders[name].input[0]
        return str(self._same.get(source, source))

    def _undoes(self, node: onnx.NodeProto) -> bool:
        return node.input[0] in self._reorders and not _integer(node, "channels_last")

    def _moves(self, node: onnx.NodeProto) -> bool:
        """Whether a node reads nothing but blocks and gives the same values in whatever order they come."""
        if not node.input or any(name not in self._reorders for name in node.input):
            return False
        if node.op_type == "Observe":
            return True
        shapes = [self._shapes.get(name) for name in node.input]
        known = shapes[0] is not None and all(shape == shapes[0] for shape in shapes)
        return node.domain == "" and _ELEMENTWISE.get(node.op_type) == len(shapes) and (len(shapes) == 1 or known)

    def _move(self, node: onnx.NodeProto) -> None:
        behind = onnx.NodeProto()
        behind.CopyFrom(self._reorders[node.input[0]])
        behind.name = f"{node.name}/{behind.name}"
        for index, name in enumerate(node.input):
            node.input[index] = self._blocks(name)
        plain = node.output[0]
        # No name of the graph holds another one of it and these words.
        node.output[0] = f"{plain}, in blocks"
        behind.input[0], behind.output[0] = node.output[0], plain
        self._reorders[plain] = behind
        self.observers += node.op_type == "Observe"
        self.nodes.append(node)


def _unpadded(node: onnx.NodeProto) -> bool:
    return _integer(node, "channels") % _CHANNELS == 0 and not _integer(node, "channels_last")


def _integer(node: onnx.NodeProto, name: str) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), 0)
