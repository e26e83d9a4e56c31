"""Loading of a model: from a file or memory, checked, with sparse constants made dense."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.check_operands import check_operands
from quarkfast.graph.check_structure import check_structure
from quarkfast.graph.check_tensors import check_tensors
from quarkfast.graph.notes import add_note
from quarkfast.graph.shape_inference import keep_map_types, large_tensors_aside, without_map_types
from quarkfast.graph.subgraphs import graphs_of

__all__ = [
    "ModelSource",
    "external_bytes",
    "external_files",
    "load_model",
    "model_bytes",
    "tell_sparse",
    "without_sparse",
]

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


ModelSource = str | os.PathLike[str] | onnx.ModelProto | ir.Model


def load_model(model: ModelSource) -> ir.Model:
    """Returns `model` as an onnx-ir model that shares no graph with the caller's.

    Tensors stored outside the file stay there and are mapped into memory when they are read. Sizes that are none, -1
    in any shape and 0 in that of an input, are unknown: exporters declare them so, and onnxruntime would refuse every
    sample for a 0.

    Args:
        model: Path of an ONNX file, a ModelProto, or an onnx-ir model (which is cloned, tensors shared).

    Raises:
        ModelError: If there is no such file, if it cannot be read as an ONNX model, if its graph contradicts itself
            (`check_structure`, `check_operands`), if a constant has less or more data than its shape says, or if
            external data is missing or lies outside the model's folder.
        TypeError: If `model` is of another type.
    """
    loaded = _load(model)
    for graph in graphs_of(loaded):
        for value in graph.inputs:
            _open_below(value, 0 if value.const_value is not None else 1)
        for node in graph:
            for value in node.outputs:
                _open_below(value, 0)
    return loaded


def _load(model: ModelSource) -> ir.Model:
    if isinstance(model, ir.Model):
        loaded = _with_own_names(model.clone())
        _check(loaded)
        return loaded
    if isinstance(model, onnx.ModelProto):
        return _with_own_names(_from_proto(model, "model", Path()))
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        return _from_proto(_read(path), str(path), path.parent, path.resolve().parent)
    raise TypeError(f"model: expected a path, an onnx.ModelProto or an onnx_ir.Model, got {type(model).__name__}")


def _check(model: ir.Model) -> None:
    """Holds a graph that was made in memory against what files are held against; its tensors are arrays."""
    with large_tensors_aside(model):
        try:
            proto = ir.serde.serialize_model(model)
        except (ir.serde.SerdeError, ValueError) as error:
            raise _malformed("model", error) from error
    check_structure(proto, "model")
    check_operands(proto, "model")


def _malformed(where: str, error: Exception) -> ModelError:
    cause = " ".join(str(error.__cause__ or error).split())
    return ModelError(f"{where}: expected a well-formed ONNX graph, got {cause}")


def _open_below(value: ir.Value, least: int) -> None:
    """Makes sizes below `least` in the shape of `value` unknown."""
    shape = value.shape
    if shape is not None and any(isinstance(size, int) and size < least for size in shape):
        value.shape = ir.Shape(None if isinstance(size, int) and size < least else size for size in shape)


def _read(path: Path) -> onnx.ModelProto:
    if path.is_dir():
        raise ModelError(f"{path}: expected an ONNX file, got a directory")
    try:
        if path.stat().st_size == 0:
            raise ModelError(f"{path}: expected an ONNX file, got an empty file")
        return onnx.load(path, load_external_data=False)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: expected an existing ONNX file, got no such file") from error
    except OSError as error:
        raise ModelError(f"{path}: expected a readable ONNX file, got {error.strerror}") from error
    except (DecodeError, text_format.ParseError, json_format.ParseError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: expected an ONNX model, got a file that is truncated or not ONNX") from error


def _from_proto(proto: onnx.ModelProto, where: str, folder: Path, target: Path | None = None) -> ir.Model:
    # A file of another kind can parse as an empty message; these fields are in every model.
    if not proto.HasField("graph") or not proto.opset_import or proto.ir_version <= 0:
        raise ModelError(f"{where}: expected an ONNX model, got a file that is truncated or not ONNX")
    check_structure(proto, where)
    check_tensors(proto, where, folder, target)
    proto, sparse = without_sparse(proto, where, folder)
    proto, map_types = without_map_types(proto, where)
    check_operands(proto, where)
    try:
        model = ir.serde.deserialize_model(proto)
    except (ir.serde.SerdeError, ValueError, KeyError) as error:
        raise _malformed(where, error) from error
    keep_map_types(model, map_types)
    tell_sparse(model, sparse)
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        ir.external_data.set_base_dir(graph, folder)
    return model


def _with_own_names(model: ir.Model) -> ir.Model:
    """Copies the constants of `model` that may get another name, which onnx-ir writes into the caller's tensor.

    They are those of attributes, which preparation makes initializers of, and those of bodies, whose names may stand
    outside too. Initializers of the model's own graph keep their names, and are not copied.
    """
    for graph in (*graphs_of(model), *(function.graph for function in model.functions.values())):
        for value in graph.initializers.values() if graph is not model.graph else ():
            if value.const_value is not None:
                value.const_value = _copied(value.const_value)
        for node in graph:
            for name, attribute in tuple(node.attributes.items()):
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    node.attributes[name] = ir.AttrTensor(name, _copied(attribute.value))
    return model


def _copied(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    if isinstance(tensor, ir.TensorProtoTensor):
        proto = onnx.TensorProto()
        proto.CopyFrom(tensor.raw)
        return ir.TensorProtoTensor(proto)
    return copy.copy(tensor)


def external_bytes(model: ir.Model) -> int:
    """Returns how many bytes of `model` lie outside its file."""
    return sum(tensor.nbytes for tensor in _external(model))


def external_files(model: ir.Model) -> set[Path]:
    """Returns the files outside that of `model` in which its constants lie."""
    return {Path(tensor.path).resolve() for tensor in _external(model)}


def _external(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    """Yields the constants of `model` outside its file: initializers, and values of Constant nodes."""
    graphs = (*graphs_of(model), *(function.graph for function in model.functions.values()))
    for graph in graphs:
        tensors = [value.const_value for value in graph.initializers.values()]
        for attribute in (each for node in graph for each in node.attributes.values()):
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                tensors.append(attribute.value)  # as_tensor() holds it against a protocol: 0.1 ms each
        yield from (tensor for tensor in tensors if isinstance(tensor, ir.ExternalTensor))


def model_bytes(model: ModelSource, loaded: ir.Model) -> int:
    """Returns how many bytes `model` takes, external data included.

    Args:
        model: What the caller gave.
        loaded: What `load_model` made of it, not changed since.
    """
    if isinstance(model, ir.Model):
        values = [value for graph in graphs_of(loaded) for value in graph.initializers.values()]
        return sum(value.const_value.nbytes for value in values if value.const_value is not None)
    own = model.ByteSize() if isinstance(model, onnx.ModelProto) else Path(model).stat().st_size
    return own + external_bytes(loaded)
