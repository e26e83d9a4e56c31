"""A model as a protobuf, its bytes and its file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx

from quarkfast.atomic_files import save_bytes
from quarkfast.deferred import ir
from quarkfast.errors import UnsupportedError
from quarkfast.graph.access import array_of_tensor
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.shape_inference import restore_map_types
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["PROTOBUF_LIMIT", "file_or_bytes", "save_model", "serialize", "to_proto"]

PROTOBUF_LIMIT = 2**31 - 1
"""Bytes of one protobuf: the length is a signed 32-bit integer."""


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Returns the model as one protobuf, external data in it.

    Raises:
        UnsupportedError: If the model does not fit into one protobuf (2 GiB).
    """
    values = [value for graph in graphs_of(model) for value in graph.initializers.values()]
    size = sum(value.const_value.nbytes for value in values if value.const_value is not None)
    if size >= PROTOBUF_LIMIT:
        raise UnsupportedError(f"model: expected tensors of at most {PROTOBUF_LIMIT} bytes in all, got {size} bytes")
    with _mapped(values):
        return restore_map_types(model, ir.serde.serialize_model(model))


@contextmanager
def _mapped(values: Sequence[ir.Value]) -> Iterator[None]:
    """Has constants in files be arrays that map them, so that no more than the protobuf is in memory.

    A copy of the model would hold them until its cycles are collected.
    """
    kept = [(value, value.const_value) for value in values if isinstance(value.const_value, ir.ExternalTensor)]
    try:
        for value, tensor in kept:
            value.const_value = ir.Tensor(array_of_tensor(tensor), name=tensor.name, dtype=tensor.dtype)
        yield
    finally:
        for value, tensor in kept:
            value.const_value = tensor


def serialize(model: ir.Model) -> bytes:
    """Returns the bytes of the model's protobuf; the same model gives the same bytes.

    Raises:
        UnsupportedError: If the model does not fit into one protobuf (2 GiB).
    """
    return bytes(to_proto(model).SerializeToString(deterministic=True))


def file_or_bytes(model: ModelSource | bytes) -> str | os.PathLike[str] | bytes:
    """Returns a model as ONNX Runtime takes it: paths and bytes as they are, objects as bytes.

    Raises:
        ModelError: If an object is no sound model.
        UnsupportedError: If an object does not fit into one protobuf (2 GiB).
        TypeError: If `model` is of another type.
    """
    return model if isinstance(model, str | os.PathLike | bytes) else serialize(load_model(model))


def save_model(model: ir.Model, output: Path) -> int:
    """Writes `model` to `output` whole or not at all and returns the number of bytes."""
    data = serialize(model)
    save_bytes(data, output)
    return len(data)
