"""What a file says about its constants, held against what is there, before any of it is believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    sizes: dict[Path, int] = {}
    roots = {each.resolve() for each in (folder, target or folder)}
    for tensor in _tensors(model):
        name = f"{where}: tensor {tensor.name!r}"
        shape = list(tensor.dims)
        if any(size < 0 for size in shape):
            raise ModelError(f"{name}: expected dimensions of at least 0, got {shape}")
        if tensor.data_type not in _KNOWN:
            raise ModelError(f"{name}: expected a known element type, got {tensor.data_type}")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, name, folder.resolve(), roots, sizes)
        else:
            _check_inside(tensor, name)


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
    tensor: onnx.TensorProto, name: str, folder: Path, roots: set[Path], sizes: dict[Path, int]
) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    path = (folder / location).resolve()
    if not location or not any(path.is_relative_to(root) for root in roots):
        raise ModelError(f"{name}: expected external data inside the model's folder, got {location!r}")
    size = _bytes_of(ir.DataType(tensor.data_type), math.prod(tensor.dims))
    offset, length = (_number(entries.get(key, value), key, name) for key, value in (("offset", 0), ("length", size)))
    if length != size:
        raise ModelError(f"{name}: expected {size} bytes for shape {list(tensor.dims)}, got a length of {length}")
    if path not in sizes:
        sizes[path] = path.stat().st_size if path.is_file() else -1
    if sizes[path] < offset + size:
        got = "no such file" if sizes[path] < 0 else f"{sizes[path]} bytes"
        raise ModelError(f"{name}: expected {offset + size} bytes of external data in {location!r}, got {got}")


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


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _tensors_of_graph(graph)
