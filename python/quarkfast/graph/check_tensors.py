"""What a file says about its constants, held against what is there, before any of it is believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ModelError

__all__ = ["check_tensors"]

# Elements of 4 and 2 bits in typed fields: as many as fit into a byte share one entry.
_FIELDS = {
    "float_data": (ir.DataType.FLOAT, ir.DataType.COMPLEX64),
    "double_data": (ir.DataType.DOUBLE, ir.DataType.COMPLEX128),
    "int64_data": (ir.DataType.INT64,),
    "uint64_data": (ir.DataType.UINT32, ir.DataType.UINT64),
    "string_data": (ir.DataType.STRING,),
}
# Bytes and dimensions that no array of NumPy has more of; a size of 0 beside others does not count there either.
_MOST_BYTES, _MOST_DIMENSIONS = (1 << 63) - 1, 64
_KNOWN = frozenset(int(dtype) for dtype in ir.DataType) - {int(ir.DataType.UNDEFINED)}


def check_tensors(model: onnx.ModelProto, where: str, folder: Path, target: Path | None = None) -> None:
    """Makes sure that every constant of `model` has as much data as its shape says, and lies where it may.

    Constants of bodies and attributes count too. Data outside the file has to lie in the model's folder or below it,
    links followed.

    Args:
        model: As it was read.
        where: The model's name for messages.
        folder: The model's folder.
        target: The folder of the file that the model's path leads to, where that is a link: data behind links may lie
            there, as in the caches of model hubs, which hold a link for each file.

    Raises:
        ModelError: If one does not.
    """
    files: dict[str, tuple[Path | None, int]] = {}
    roots = {each.resolve() for each in (folder, target or folder)}
    tensors, sparse_tensors = list[onnx.TensorProto](), list[onnx.SparseTensorProto]()
    _gather_of_graph(model.graph, tensors, sparse_tensors)
    for function in model.functions:
        _gather_of_nodes(function.node, tensors, sparse_tensors)
    for tensor in (*tensors, *(part for sparse in sparse_tensors for part in (sparse.values, sparse.indices))):
        name = f"{where}: tensor {tensor.name!r}"
        _check_dimensions(tensor.dims, tensor.data_type, name)
        raw = tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.HasField("raw_data")
        if raw and tensor.data_type == onnx.TensorProto.STRING:
            raise ModelError(f"{name}: expected the text of a tensor of strings, got raw bytes")
        if not isinstance(tensor.name, str):
            raise ModelError(f"{name}: expected text in UTF-8 as its name, got {tensor.name!r}")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, name, folder.resolve(), roots, files)
        else:
            _check_inside(tensor, name)
    for sparse in sparse_tensors:
        _check_sparse(sparse, f"{where}: tensor {sparse.values.name!r}")


def _check_dimensions(dims: Sequence[int], data_type: int, name: str) -> None:
    shape = list(dims)
    if any(size < 0 for size in shape):
        raise ModelError(f"{name}: expected dimensions of at least 0, got {shape}")
    if len(shape) > _MOST_DIMENSIONS:
        raise ModelError(f"{name}: expected at most {_MOST_DIMENSIONS} dimensions, got {len(shape)}")
    if data_type not in _KNOWN:
        raise ModelError(f"{name}: expected a known element type, got {data_type}")
    dtype, count = ir.DataType(data_type), math.prod(size or 1 for size in shape)
    if (count * 8 if dtype == ir.DataType.STRING else _bytes_of(dtype, count)) > _MOST_BYTES:
        raise ModelError(f"{name}: expected at most 2^63 - 1 bytes, 0 read as 1, got shape {shape}")


def _check_sparse(sparse: onnx.SparseTensorProto, name: str) -> None:
    """Checks the places of the values of a sparse tensor, whose parts are sound."""
    _check_dimensions(sparse.dims, sparse.values.data_type, name)
    count, rank = math.prod(sparse.values.dims), len(sparse.dims)
    if list(sparse.indices.dims) not in ([count], [count, rank]) or sparse.indices.data_type != onnx.TensorProto.INT64:
        got = f"{ir.DataType(sparse.indices.data_type).name.lower()} {list(sparse.indices.dims)}"
        raise ModelError(f"{name}: expected int64 indices of shape [{count}] or [{count}, {rank}], got {got}")
    if sparse.indices.data_location == onnx.TensorProto.EXTERNAL:
        return
    places = onnx.numpy_helper.to_array(sparse.indices)
    ends = math.prod(sparse.dims) if places.ndim == 1 else np.array(sparse.dims, np.int64)
    if ((places < 0) | (places >= ends)).any():
        raise ModelError(f"{name}: expected indices within shape {list(sparse.dims)}, got some beyond it")


def _check_inside(tensor: onnx.TensorProto, name: str) -> None:
    dtype, count = ir.DataType(tensor.data_type), math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        expected, got, unit = _bytes_of(dtype, count), len(tensor.raw_data), "bytes"
    else:
        field = next((field for field, dtypes in _FIELDS.items() if dtype in dtypes), "int32_data")
        expected, got, unit = count, len(getattr(tensor, field)), "values"
        if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            expected *= 2
        elif field == "int32_data" and dtype.bitwidth < 8:
            expected = _bytes_of(dtype, count)
    if expected != got:
        raise ModelError(f"{name}: expected {expected} {unit} for shape {list(tensor.dims)}, got {got}")


def _check_external(
    tensor: onnx.TensorProto, name: str, folder: Path, roots: set[Path], files: dict[str, tuple[Path | None, int]]
) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if location not in files:
        files[location] = _file(folder, location)
    path, there = files[location]
    if not location or path is None or not any(path.is_relative_to(root) for root in roots):
        raise ModelError(f"{name}: expected external data inside the model's folder, got {location!r}")
    size = _bytes_of(ir.DataType(tensor.data_type), math.prod(tensor.dims))
    offset, length = (_number(entries.get(key, value), key, name) for key, value in (("offset", 0), ("length", size)))
    if length != size:
        raise ModelError(f"{name}: expected {size} bytes for shape {list(tensor.dims)}, got a length of {length}")
    if there < offset + size:
        got = "no such file" if there < 0 else f"{there} bytes"
        raise ModelError(f"{name}: expected {offset + size} bytes of external data in {location!r}, got {got}")


def _file(folder: Path, location: str) -> tuple[Path | None, int]:
    """Returns where external data lie, links followed, and how many bytes there are; -1 if there is no file."""
    try:
        path = (folder / location).resolve()
        return path, path.stat().st_size if path.is_file() else -1
    except (OSError, RuntimeError, TypeError, ValueError):  # a loop of links, or no path: bytes, a NUL, too long
        return None, -1


def _number(text: str | int, key: str, name: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ModelError(f"{name}: expected a number of at least 0 as {key} of its external data, got {text!r}")
    return number


def _bytes_of(dtype: ir.DataType, count: int) -> int:
    return -(-count * dtype.bitwidth // 8)


def _gather_of_graph(
    graph: onnx.GraphProto, tensors: list[onnx.TensorProto], sparse_tensors: list[onnx.SparseTensorProto]
) -> None:
    tensors += graph.initializer
    sparse_tensors += graph.sparse_initializer
    _gather_of_nodes(graph.node, tensors, sparse_tensors)


def _gather_of_nodes(
    nodes: Iterable[onnx.NodeProto], tensors: list[onnx.TensorProto], sparse_tensors: list[onnx.SparseTensorProto]
) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            if attribute.HasField("sparse_tensor"):
                sparse_tensors.append(attribute.sparse_tensor)
            tensors += attribute.tensors
            sparse_tensors += attribute.sparse_tensors
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                _gather_of_graph(graph, tensors, sparse_tensors)
