"""Nodes and initializers with fresh names, kept clear of those that a model has already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of, shape_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["GraphBuilder", "Names", "add_initializer", "drop", "drop_unread", "set_constant"]


class Names:
    """Hands out names that no value or node of a model has yet.

    Example:
        >>> names = Names(["x", "x_scale"])
        >>> names.fresh("x_scale"), names.fresh("x_scale"), names.fresh("y")
        ('x_scale_1', 'x_scale_2', 'y')
    """

    def __init__(self, taken: Iterable[str]) -> None:
        """Starts from the names in `taken`."""
        self._taken = set(taken)

    @classmethod
    def of(cls, model: ir.Model) -> Names:
        """Starts from every name in `model`, those of its bodies and functions included."""
        taken: set[str] = set()
        for graph in graphs_of(model):
            taken.update(value.name for value in (*graph.inputs, *graph.initializers.values()) if value.name)
            for node in graph:
                taken.update(value.name for value in node.outputs if value.name)
                if node.name:
                    taken.add(node.name)
        return cls(taken)

    def fresh(self, wanted: str) -> str:
        """Returns `wanted`, or `wanted` with the first free ``_1``, ``_2``, ... behind it, and takes it."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


class GraphBuilder:
    """Adds constants and nodes to a model under names that nothing in it has yet.

    Example:
        >>> import numpy as np, onnx_ir as ir
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '
        ...                           '{ y = Relu (x) }')
        >>> builder = GraphBuilder(model)
        >>> builder.initializer("y", np.zeros(2, np.float32)).name
        'y_1'
        >>> drop_unread(model.graph)
        >>> list(model.graph.initializers)
        []
    """

    def __init__(self, model: ir.Model) -> None:
        """Starts from every name in `model`."""
        self.graph = model.graph
        self._names = Names.of(model)

    def fresh(self, wanted: str) -> str:
        """Returns `wanted`, or `wanted` with the first free ``_1``, ``_2``, ... behind it, and takes it."""
        return self._names.fresh(wanted)

    def initializer(self, name: str, array: NDArray[Any]) -> ir.Value:
        """Adds a constant to the model's own graph, under `name` or a fresh name like it, and returns it."""
        return add_initializer(self.graph, ir.Tensor(array, name=self.fresh(name)))

    def call(self, node: ir.Node, name: str) -> ir.Node:
        """Names `node`, and its first output after it, and returns it."""
        node.name = self.fresh(name)
        node.outputs[0].name = self.fresh(f"{name}_Output")
        return node


def add_initializer(graph: ir.Graph, tensor: ir.TensorProtocol) -> ir.Value:
    """Adds a constant under the name of `tensor`, which nothing in the model has, and returns it."""
    kind, shape = ir.TensorType(tensor.dtype), ir.Shape(shape_of(tensor))
    value = ir.Value(name=tensor.name, type=kind, shape=shape, const_value=tensor)
    graph.register_initializer(value)
    return value


def set_constant(value: ir.Value, array: NDArray[Any]) -> None:
    """Gives an initializer other contents, of any type and shape."""
    tensor = ir.Tensor(array, name=value.name)
    value.const_value, value.type, value.shape = tensor, ir.TensorType(tensor.dtype), ir.Shape(array.shape)


def drop_unread(graph: ir.Graph) -> None:
    """Removes the initializers that nothing reads and that are neither inputs nor outputs of their graph."""
    for name in [name for name, value in graph.initializers.items() if not _is_needed(value)]:
        del graph.initializers[name]


def drop(graph: ir.Graph, value: ir.Value) -> None:
    """Removes what gives `value`, a constant or nodes that compute it from constants, where nothing reads it."""
    if _is_needed(value):
        return
    source = None if is_constant(value) else value.producer()
    if source is None:
        del graph.initializers[name_of(value)]
        return
    given = [each for each in source.inputs if each is not None]
    graph.remove(source, safe=True)
    for each in given:
        drop(graph, each)


def _is_needed(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output() or value.is_graph_input()
