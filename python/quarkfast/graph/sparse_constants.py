"""Sparse constants, which become dense ones: onnx-ir has none, and runtimes make them dense when they load."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.notes import add_note

__all__ = ["tell_sparse", "without_sparse"]

# Bytes of dense constants that a file's sparse ones may become together: a few numbers claim any size.
_MOST = 1 << 28


def without_sparse(proto: onnx.ModelProto, where: str, folder: Path) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Returns `proto` with dense constants in place of sparse ones, and the names of these; `proto` stays as it is.

    They are those of graphs, of bodies and of functions, and values of Constant nodes.

    Args:
        proto: The model, whose tensors are checked.
        where: Begins messages.
        folder: Where the files are that tensors refer to.

    Raises:
        ModelError: If they are larger than 256 MiB when dense, hold text, or have indices beyond their shapes.
    """
    if not any(graph.sparse_initializer for graph in _graphs(proto)) and not any(_values(proto)):
        return proto, ()
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    names, size = list[str](), 0
    for graph in _graphs(result):
        for sparse in graph.sparse_initializer:
            size = _checked(sparse, size, f"{where}: sparse constant {sparse.values.name!r}")
            graph.initializer.append(_dense(sparse, sparse.values.name, where, folder))
            names.append(sparse.values.name)
        del graph.sparse_initializer[:]
    for node, attribute in _values(result):
        size = _checked(attribute.sparse_tensor, size, f"{where}: sparse constant {node.output[0]!r}")
        dense = _dense(attribute.sparse_tensor, node.output[0], where, folder)
        attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
        names.append(node.output[0])
    return result, tuple(names)


def tell_sparse(model: ir.Model, names: tuple[str, ...]) -> None:
    """Notes that the constants of these names are written dense, if there are any."""
    if names:
        listed = ", ".join(map(repr, names))
        add_note(model, f"sparse constants are written dense, and those that nothing reads not at all: {listed}")


def _checked(sparse: onnx.SparseTensorProto, size: int, where: str) -> int:
    """Returns the bytes of dense constants with those of one more."""
    if sparse.values.data_type == onnx.TensorProto.STRING:
        raise ModelError(f"{where}: expected numbers, got text")
    size += -(-math.prod(sparse.dims) * ir.DataType(sparse.values.data_type).bitwidth // 8)
    if size > _MOST:
        raise ModelError(f"{where}: expected at most {_MOST} bytes of sparse constants when dense, got {size}")
    return size


def _dense(sparse: onnx.SparseTensorProto, name: str, where: str, folder: Path) -> onnx.TensorProto:
    try:
        values = onnx.numpy_helper.to_array(sparse.values, str(folder))
        places = onnx.numpy_helper.to_array(sparse.indices, str(folder))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        got = " ".join(str(error).split())
        raise ModelError(f"{where}: sparse constant {name!r}: expected its numbers, got {got}") from error
    array = np.zeros(tuple(sparse.dims), values.dtype)
    ends = np.array(array.shape) if places.ndim == 2 else array.size
    if (places < 0).any() or (places >= ends).any():
        got = f"some beyond it; the first are {places[:3].tolist()}"
        raise ModelError(f"{where}: sparse constant {name!r}: expected indices within {list(array.shape)}, got {got}")
    array[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, array.shape)] = values
    return onnx.numpy_helper.from_array(array, name)


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yields the graph of a model, and the bodies in it and in functions."""
    yield proto.graph
    for node in _nodes(proto):
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def _values(proto: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, onnx.AttributeProto]]:
    """Yields the Constant nodes with a sparse value, and that attribute of each."""
    for node in _nodes(proto):
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.HasField("sparse_tensor"):
                yield node, attribute


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting = [proto.graph.node, *(function.node for function in proto.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                waiting += [graph.node for graph in attribute.graphs]
                if attribute.HasField("g"):
                    waiting.append(attribute.g.node)
